// Row kernels of softmax: causal attention probabilities and their gradient, and the fused softmax
// cross-entropy. All act on one block of rows in place, on the calling thread. The causal ones are the inside of the host's attention and
// have no form for devices; the cross-entropies have.
#pragma once

#include <cstdint>

namespace thinwire::nn {

/// Causal softmax of scaled scores, in place. Row r is query first_query + r and sees keys 0..first_query +
/// r; later keys of the `columns` become 0. lse[r] = log sum exp(scale * score), all the backward pass needs
/// to rebuild the row (as in FlashAttention, Dao et al. 2022), so probabilities are never stored.
template <typename T>
void causal_softmax(std::int64_t rows, std::int64_t columns, std::int64_t first_query, T scale, T* scores,
                    T* lse);
/// The same probabilities from scores and the kept lse, in place.
template <typename T>
void causal_probabilities(std::int64_t rows, std::int64_t columns, std::int64_t first_query, T scale,
                          T* scores, const T* lse);
/// dscores = scale * P * (dP - delta[r]), delta[r] = sum over keys of P * dP; in place on dP.
template <typename T>
void softmax_gradient(std::int64_t rows, std::int64_t columns, T scale, const T* probabilities,
                      const T* delta, T* gradient);

/// Softmax cross-entropy of logits [rows, vocab] against targets [rows] (0 <= target < vocab), in nats.
/// losses[r] = -log softmax(logits[r])[target[r]]; logits are replaced by gradient_scale * (softmax -
/// onehot). Runs on all threads. CorruptData naming row and value when a target is out of range; under a device placement, where targets lie
/// on the device as well, from check_device_status() (kernels/nn/device/device_dispatch.h), as for softmax_statistics.
template <typename T>
void cross_entropy(std::int64_t rows, std::int64_t vocab, T* logits, const std::int32_t* targets,
                   T gradient_scale, T* losses);

/// Softmax cross-entropy whose logits are split by columns over ranks; this rank has [rows, columns] of them, columns first ..
/// first + columns - 1 of the vocabulary, of which the first `valid` count (the rest is padding).
/// statistics [rows, 3]: maximum, sum of exp(logit - maximum), logit of the row's target (-infinity where it lies elsewhere).
/// CorruptData naming row and value when a target is outside [0, vocab).
template <typename T>
void softmax_statistics(std::int64_t rows, std::int64_t columns, std::int64_t valid, std::int64_t first, std::int64_t vocab,
                        const T* logits, const std::int32_t* targets, T* statistics);
/// From the statistics of all ranks, [ranks, rows, 3]: losses [rows] in nats, the same bits on every rank; this rank's logits are replaced
/// by gradient_scale * (softmax - onehot).
template <typename T>
void split_cross_entropy(std::int64_t rows, std::int64_t columns, std::int64_t valid, std::int64_t first, int ranks,
                         const T* statistics, const std::int32_t* targets, T gradient_scale, T* logits, T* losses);

// For statistics that are reduced over ranks instead of gathered: the maxima first, then the sums that they scale and the targets' logits.
/// maxima [rows] of this rank's statistics.
template <typename T>
void take_maxima(std::int64_t rows, const T* statistics, T* maxima);
/// sums [rows, 2], to be added over ranks: the sum of exponentials brought to the maximum of all ranks (0 where `valid` is), and the target's
/// logit (0 where it lies elsewhere).
template <typename T>
void rescale_sums(std::int64_t rows, std::int64_t valid, const T* statistics, const T* maxima, T* sums);
/// statistics [rows, 3] of all ranks together, for split_cross_entropy with ranks = 1.
template <typename T>
void join_statistics(std::int64_t rows, const T* maxima, const T* sums, T* statistics);

}  // namespace thinwire::nn
