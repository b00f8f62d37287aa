// The rate of a large matrix product: what model FLOP utilisation is held against where no peak is stated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/communicator/communicator.h"
#include "kernels/nn/gemm/gemm.h"

namespace thinwire::bench {

struct ProductPeak {
  double gflops = 0;  ///< of all ranks together, 1e9 per second
  std::string from;   ///< "measured: f32 product of 2048 on each rank"
};

/// All ranks multiply at the same time, each where its placement says and with its threads, so that what they share (cores, a device) is shared
/// as in training. bf16 operands lie as bf16 on devices; on the host they are rounded on the way, as the trainer's are. Collective; about half a
/// second. UsageError where bf16 is asked for and not there.
ProductPeak measure_product_peak(Communicator& world, nn::ComputeType compute);

/// What is multiplied: standard normal numbers, as the peers do (bench/peers/gpu_training.py). Of constants hardly a bit changes from one product to the next,
/// so a GPU takes less power, clocks higher, and shows a rate that no training reaches.
std::vector<float> peak_operand(std::int64_t count, int which);

/// The value of --peak-tflops: `measure`, or a number of 1e12 per second. UsageError for anything else.
ProductPeak product_peak(Communicator& world, nn::ComputeType compute, const std::string& option);

}  // namespace thinwire::bench
