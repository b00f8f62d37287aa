// Rows of bench_device about kernels of the trainer, at the shapes of a GPT: products and attention against the rate of a large product in the
// same run, the others against the device's copy rate in the same run.
#pragma once

#include "bench/harness/bench_program.h"

namespace thinwire::bench {

/// Sizes of one micro-batch. Defaults of bench_device: GPT-2 124M.
struct KernelShapes {
  std::int64_t batch = 8, seq = 1024, hidden = 768, heads = 12, vocab = 50304, parameters = 0, peak = 8192;
  std::int64_t rows() const { return batch * seq; }
};

/// Floating-point operations and bytes that must be moved at least of one call: what its bound is made of.
struct KernelWork {
  double flops = 0;  ///< of products; 0: bound by memory
  double bytes = 0;
};
/// C [m, n] = A B over k; bytes of an element of A and B, and of C.
KernelWork gemm_work(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t operand_bytes, std::int64_t result_bytes);
/// Causal: half of the two products of the forward pass, [seq, head] x [head, seq] and back, per head; the backward pass has five, the scores
/// again among them (Dao et al., "FlashAttention", arXiv 2205.14135, section 3.2 counts so).
KernelWork attention_work(const KernelShapes& shapes, bool backward, std::int64_t element_bytes);

/// One row per kernel and type: operation, times, gflops, bound_fraction. Inputs are normal numbers; the outputs of products are compared with
/// f64 sums at chosen elements before they are timed, all others are looked through for what is not finite (gpu.test_device compares whole
/// outputs with the host's).
void measure_device_kernels(BenchContext& context, const CellParameters& p, const KernelShapes& shapes, Measured& measured);

}  // namespace thinwire::bench
