// The ranks of a test, random inputs, and float64 references. Tests run under mpirun and meet in collectives.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/channel/channel.h"
#include "core/random.h"

namespace thinwire::testing {

/// MPI_COMM_WORLD; the environment lives as long as the process (main() of the tests finalises MPI).
inline Communicator& world() {
  static auto* environment = new MpiEnvironment(nullptr, nullptr);
  static Communicator* comm = environment->world().release();
  return *comm;
}

/// Seed of this run: THINWIRE_TEST_SEED, else always the same; equal on all ranks and printed once.
inline std::uint64_t test_seed() {
  static const std::uint64_t seed = [] {
    const char* text = std::getenv("THINWIRE_TEST_SEED");
    std::uint64_t value = text != nullptr ? std::strtoull(text, nullptr, 10) : 20260101;
    world().broadcast(&value, sizeof value, 0)->wait();
    if (world().rank() == 0) std::printf("THINWIRE_TEST_SEED=%llu\n", static_cast<unsigned long long>(value));
    return value;
  }();
  return seed;
}

/// Standard normal numbers that depend on (seed, name, rank) alone: any rank can build any other's input.
inline std::vector<float> normal_input(std::int64_t elements, const char* name, int rank) {
  const Random random(test_seed(), mix_stream(hash_name(name), static_cast<std::uint64_t>(rank)));
  std::vector<float> x(static_cast<std::size_t>(elements));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(random.normal(i));
  return x;
}

/// Integers -8 .. 8 as floats: their sums are exact in every type down to f16.
inline std::vector<float> integer_input(std::int64_t elements, const char* name, int rank) {
  const Random random(test_seed(), mix_stream(hash_name(name), static_cast<std::uint64_t>(rank)));
  std::vector<float> x(static_cast<std::size_t>(elements));
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(static_cast<int>(random.below(i, 17)) - 8);
  return x;
}

/// ||a - b|| / ||b|| in float64; 0 when both are zero.
template <typename A, typename B>
double relative_l2(const A& a, const B& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    difference += d * d;
    norm += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

inline std::vector<double> sum_of_inputs(const std::vector<std::vector<float>>& inputs) {
  std::vector<double> sum(inputs[0].size(), 0.0);
  for (const auto& input : inputs) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += input[i];
  }
  return sum;
}

/// Whether all ranks hold equal bytes.
inline bool equal_on_all_ranks(const void* data, std::int64_t bytes) {
  Communicator& comm = world();
  std::vector<std::byte> all(static_cast<std::size_t>(bytes * comm.size()));
  comm.all_gather(data, bytes, all.data())->wait();
  for (int r = 1; r < comm.size(); ++r) {
    if (std::memcmp(all.data(), all.data() + static_cast<std::size_t>(r * bytes),
                    static_cast<std::size_t>(bytes)) != 0)
      return false;
  }
  return true;
}

/// The numbers that `make()` returns on rank 0, on all ranks: for what is dear and the same everywhere, which eight ranks on two cores would
/// compute one after another. The others nap meanwhile. Where `make` throws, all ranks do.
template <typename Make>
std::vector<double> made_once(const Make& make) {
  std::vector<double> numbers;
  std::int64_t count = -1;
  std::string error = "rank 0 failed";
  if (world().rank() == 0) {
    try {
      numbers = make();
      count = static_cast<std::int64_t>(numbers.size());
    } catch (const std::exception& e) {
      error = e.what();
    }
  }
  world().broadcast(&count, sizeof count, 0)->wait();
  if (count < 0) throw std::runtime_error(error);
  numbers.resize(static_cast<std::size_t>(count));
  world().broadcast(numbers.data(), count * static_cast<std::int64_t>(sizeof(double)), 0)->wait();
  return numbers;
}

inline MessageKey key_of(const char* name, std::int64_t step = 0) {
  MessageKey key;
  key.tensor = hash_name(name);
  key.step = step;
  return key;
}

}  // namespace thinwire::testing
