// CUDA implementation of kernels/codec/codecs/sparse/topk.cpp: the same bytes, on a stream; and the moves of any sparse message.
#include "kernels/codec/codecs/sparse/topk_entries.h"
#include "kernels/sparse/index_coding_kernels.cuh"
#include "kernels/sparse/top_magnitudes_kernels.cuh"

using namespace thinwire;
using namespace thinwire::cuda;

THINWIRE_CUDA_ENTRY(thinwire_cuda_topk_encode, thinwire_cuda_topk_encode_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_sparse_scatter, thinwire_cuda_sparse_scatter_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_sparse_gather, thinwire_cuda_sparse_gather_fn);

namespace {

bool valid(std::int64_t count, std::int64_t kept, int index_form) {
  return count >= 0 && count < (std::int64_t{1} << 32) && kept >= 0 && kept <= count && index_form >= index_form_compact && index_form <= index_form_int64;
}

// Writes a kept element's value and position.
struct PayloadSink {
  ValueList list;
  IndexLayout layout;
  std::uint8_t* index;
  std::uint32_t *bitmap, *status;
  __device__ void operator()(std::int64_t rank, std::int64_t position, float value) const {
    list.store(rank, value, status);
    put_index(layout, rank, position, index, bitmap);
  }
};

}  // namespace

int thinwire_cuda_topk_encode(const float* x, std::int64_t count, std::int64_t kept, int half_values, int index_form, void* payload, void* workspace,
                              std::uint32_t* status, int ordinal, void* stream) {
  if (!valid(count, kept, index_form) || (kept == 0 && count > 0)) return cudaErrorInvalidValue;
  if (count == 0) return cudaSuccess;
  auto* bytes = static_cast<std::uint8_t*>(payload);
  return on_device(ordinal, [&] {
    const std::int64_t tiles = ceil_divide(count, top_tile);
    const TopWorkspace w(workspace, tiles);
    const IndexLayout layout(index_form, count, kept);
    if (const auto e = top_select(x, count, kept, w, status, stream); e != cudaSuccess) return e;
    if (layout.stream_bits > 0)
      if (const auto e = cudaMemsetAsync(w.bitmap, 0, static_cast<std::size_t>(layout.words()) * 4, static_cast<cudaStream_t>(stream)); e != cudaSuccess)
        return e;
    std::uint8_t* index = bytes + kept * (half_values ? 2 : 4);
    const PayloadSink sink{value_list(bytes, half_values != 0), layout, index, w.bitmap, status};
    if (const auto e = launch(top_emit<PayloadSink>, ceil_divide(tiles, top_threads / 32), top_threads, stream, w.counts, w.offsets, w.values, tiles,
                              w.state, w.places, sink);
        e != cudaSuccess)
      return e;
    return launch(copy_index_stream, ceil_divide(ceil_divide(layout.stream_bits, 8), index_threads), index_threads, stream, w.bitmap, layout.stream_bits,
                  index + layout.stream_start);
  });
}

int thinwire_cuda_sparse_scatter(const void* index, int index_form, std::int64_t count, std::int64_t kept, const void* list, int half_values, float* out,
                                 int add, void* workspace, std::uint32_t* status, int ordinal, void* stream) {
  if (!valid(count, kept, index_form)) return cudaErrorInvalidValue;
  if (count == 0) return cudaSuccess;
  const ValueList values = value_list(list, half_values != 0);
  return on_device(ordinal, [&] {
    const IndexLayout layout(index_form, count, kept);
    if (add) return expand_index(index, layout, workspace, status, ScatterAction<true>{values, 1.0f, out}, stream);
    if (const auto e = cudaMemsetAsync(out, 0, static_cast<std::size_t>(count) * sizeof(float), static_cast<cudaStream_t>(stream)); e != cudaSuccess) return e;
    return expand_index(index, layout, workspace, status, ScatterAction<false>{values, 1.0f, out}, stream);
  });
}

int thinwire_cuda_sparse_gather(const void* index, int index_form, std::int64_t count, std::int64_t kept, const float* x, float* list, void* workspace,
                                std::uint32_t* status, int ordinal, void* stream) {
  if (!valid(count, kept, index_form)) return cudaErrorInvalidValue;
  if (count == 0) return cudaSuccess;
  return on_device(ordinal, [&] {
    const GatherAction action{value_list(list, false), 1.0f, x};
    return expand_index(index, IndexLayout(index_form, count, kept), workspace, status, action, stream);
  });
}
