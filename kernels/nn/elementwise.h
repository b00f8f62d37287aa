// Small memory-bound kernels of a Transformer: bias, residual, column sums, embedding look-up, dropout. Sums
// over rows split the columns over threads, so their order, and the bits of the result, do not depend on the
// threads. Under a device placement (core/device/placement.h) all pointers are that device's, tokens among them; a token outside the vocabulary is
// then reported by check_device_status() (kernels/nn/device/device_dispatch.h) instead of at once, and changes nothing.
#pragma once

#include <cstdint>
#include <string_view>

namespace thinwire::nn {

/// Every row of y [rows, columns] = bias [columns]: a product with beta = 1 then adds to it.
template <typename T>
void fill_rows(std::int64_t rows, std::int64_t columns, const T* bias, T* y);
/// sums[c] += sum over rows of x[r, c]: the gradient of a bias.
template <typename T>
void add_column_sums(std::int64_t rows, std::int64_t columns, const T* x, T* sums);
/// y[i] += x[i].
template <typename T>
void add_into(std::int64_t count, const T* x, T* y);
/// x[i] *= factor.
template <typename T>
void scale_in_place(std::int64_t count, T factor, T* x);
/// y[r] += x[(first + r) % period], rows of `columns`; x has `period` rows: a bias (period 1), or positions.
template <typename T>
void add_rows(std::int64_t rows, std::int64_t columns, std::int64_t period, std::int64_t first, const T* x, T* y);
/// gradient[(first + r) % period] += dy[r], in the order of r.
template <typename T>
void add_rows_gradient(std::int64_t rows, std::int64_t columns, std::int64_t period, std::int64_t first, const T* dy, T* gradient);
/// Rows of `columns` elements from where rows are `from_stride` elements apart to where they are `to_stride` apart.
template <typename T>
void copy_rows(std::int64_t rows, std::int64_t columns, const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride);

/// y[r] = token_table[tokens[r]] + position_table[r % seq], rows of `columns`. Throws CorruptData naming row
/// and token when a token is outside [0, vocab).
template <typename T>
void embed(std::int64_t rows, std::int64_t columns, std::int64_t seq, std::int64_t vocab,
           const std::int32_t* tokens, const T* token_table, const T* position_table, T* y);
/// Adds dy's rows to the rows of the tables they came from; tokens are in [0, vocab), as embed has checked.
template <typename T>
void embed_backward(std::int64_t rows, std::int64_t columns, std::int64_t seq, std::int64_t vocab, const std::int32_t* tokens,
                    const T* dy, T* token_gradient, T* position_gradient);

/// A table whose rows [first, first + count) lie here: y[r] = its row tokens[r], or 0 where that lies elsewhere. CorruptData when a
/// token is outside [0, vocab).
template <typename T>
void embed_part(std::int64_t rows, std::int64_t columns, std::int64_t vocab, std::int64_t first, std::int64_t count,
                const std::int32_t* tokens, const T* table, T* y);
/// Adds dy's rows to those rows of the table's gradient that lie here.
template <typename T>
void embed_part_backward(std::int64_t rows, std::int64_t columns, std::int64_t first, std::int64_t count, const std::int32_t* tokens,
                         const T* dy, T* gradient);

/// Which elements dropout keeps: a function of (seed, name, step, global index) alone, so any split of the
/// batch or of the model over ranks drops the same elements.
struct DropoutKey {
  std::uint64_t seed = 0;
  std::string_view name;   ///< the tensor's name, e.g. "layer0.mlp.dropout"
  std::uint64_t step = 0;  ///< training step; micro-batches differ by first_index
};
/// y[i] = x[i] / (1 - rate) where element first_index + i is kept, else 0; y may be x. rate 0 copies.
/// Its own backward pass: the same call on the gradient. UsageError unless 0 <= rate < 1.
template <typename T>
void dropout(std::int64_t count, double rate, const DropoutKey& key, std::int64_t first_index, const T* x,
             T* y);
/// The same for x, y [rows, columns] that are some columns of a wider tensor: element (r, c) is element first_index + r * stride + c of it.
template <typename T>
void dropout_rows(std::int64_t rows, std::int64_t columns, std::int64_t stride, double rate, const DropoutKey& key,
                  std::int64_t first_index, const T* x, T* y);

}  // namespace thinwire::nn
