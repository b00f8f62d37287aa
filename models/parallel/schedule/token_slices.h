// How to cut sequences along their tokens for a token-sliced pipeline (TeraPipe, Li et al. 2021, arXiv 2102.07988): the step time of a
// given cut, and the dynamic program that finds the best one.
//
// A stage needs t(s, c) for s tokens whose context, the tokens in front of them, is c. K equal stages through which slices of times
// t_1..t_n stream in one order are done after T = sum t_i + (K - 1) max t_i. t holds forward and backward pass together; where the
// slowest forward and the slowest backward are not of the same slice, T is a bound from below.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace thinwire {

/// Time of one stage, in any unit, above 0: `tokens` >= 1 after `context` tokens.
using SliceTime = std::function<double(int tokens, int context)>;
/// The same for `batch` sequences side by side.
using BatchSliceTime = std::function<double(int batch, int tokens, int context)>;

/// Sequences of one micro-batch and the slices that they are cut into.
struct SlicedBatch {
  int batch = 1;
  std::vector<int> slices;
  bool operator==(const SlicedBatch&) const = default;
};

/// T of slices that follow each other in one sequence. UsageError for no slices, a slice below one token or stages below 1.
double sliced_step(const SliceTime& time, const std::vector<int>& slices, int stages);
/// T of several micro-batches, one after the other.
double sliced_step(const BatchSliceTime& time, const std::vector<SlicedBatch>& micro_batches, int stages);

/// `count` slices of `length` / `count` tokens. UsageError naming the neighbouring counts when they do not divide.
std::vector<int> uniform_slices(int length, int count);
/// "4": uniform; "32,16,16": these. UsageError unless they are whole numbers above 0 that make up `length`.
std::vector<int> parse_slices(const std::string& text, int length);
/// "32,16,16".
std::string format_slices(const std::vector<int>& slices);

struct SliceSearch {
  int granularity = 1;  ///< slices are multiples of it; it divides the length
  /// Bounds on the slice time closer together than this are tried as one, the largest: T is then at most (K - 1) eps above the best. (The
  /// authors' code tries the smallest of them, under which the others' cuts do not fit.)
  double eps = 0;
};

struct SlicePlan {
  std::vector<int> slices;
  double step = 0;  ///< T
};
/// The slices of `length` tokens with the least T over `stages` stages. For each bound on the largest slice time, in ascending order, the
/// least sum of times is found by dynamic programming over the covered tokens, O(n^2) for n = length / granularity; it ends when K times
/// the bound is no better than the best T. `time` is asked once per pair. UsageError for extents below 1 or a granularity that does not
/// divide, RuntimeFailure for a time that is not above 0.
SlicePlan best_slices(const SliceTime& time, int length, int stages, const SliceSearch& search = {});

struct BatchPlan {
  std::vector<SlicedBatch> micro_batches;
  double step = 0;  ///< T
};
/// Batch and tokens together: `batch` sequences as micro-batches of any sizes up to `most_together` (0: no bound), each cut by itself. For
/// each bound on the largest slice time f_b[n] is the least sum for n tokens of b sequences, g[B] = min_b g[B - b] + f_b[length].
BatchPlan best_batches_and_slices(const BatchSliceTime& time, int batch, int length, int stages, const SliceSearch& search = {}, int most_together = 0);

}  // namespace thinwire
