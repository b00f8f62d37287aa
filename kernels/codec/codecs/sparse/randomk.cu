// CUDA implementation of kernels/codec/codecs/sparse/randomk.cpp. Fair form: positions from the message's key, so none are sent. Released form: positions in the
// order drawn, and sent.
#include "kernels/codec/codecs/sparse/randomk_entries.h"
#include "kernels/codec/payload/wire_values_kernels.cuh"
#include "kernels/sparse/drawn_positions_kernels.cuh"
#include "kernels/sparse/random_positions_kernels.cuh"

using namespace thinwire;
using namespace thinwire::cuda;

THINWIRE_CUDA_ENTRY(thinwire_cuda_randomk_gather, thinwire_cuda_randomk_gather_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_randomk_scatter, thinwire_cuda_randomk_scatter_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_randomk_released_encode, thinwire_cuda_randomk_released_encode_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_randomk_released_decode, thinwire_cuda_randomk_released_decode_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_randomk_released_gather, thinwire_cuda_randomk_released_gather_fn);
THINWIRE_CUDA_ENTRY(thinwire_cuda_randomk_released_scatter, thinwire_cuda_randomk_released_scatter_fn);

namespace {

bool valid(std::int64_t count, std::int64_t kept) { return count >= 0 && count < (std::int64_t{1} << 32) && kept >= 0 && kept <= count; }

template <typename Action>
cudaError_t expand(std::int64_t count, std::int64_t kept, std::uint64_t seed, std::uint64_t random_stream, std::uint32_t* status, const Action& action,
                   void* stream) {
  if (count == 0) return cudaSuccess;
  const auto elements = static_cast<std::uint64_t>(count);
  const RandomSelection selection{seed, random_stream, elements, static_cast<std::uint64_t>(kept), Random(seed, random_stream).below(0, elements)};
  return launch(random_expand<Action>, ceil_divide(count, random_block), random_threads, stream, selection, status, action);
}

// A workspace of randomk_workspace_bytes: a bit per element, then the positions in the order drawn.
struct Drawing {
  std::uint32_t *seen, *drawn;
  std::size_t seen_bytes;
  Drawing(void* workspace, std::int64_t count) : seen(static_cast<std::uint32_t*>(workspace)), seen_bytes(static_cast<std::size_t>((count + 31) / 32) * 4) {
    drawn = seen + seen_bytes / 4;
  }
  cudaError_t clear(void* stream) const { return cudaMemsetAsync(seen, 0, seen_bytes, static_cast<cudaStream_t>(stream)); }
  cudaError_t draw(std::int64_t count, std::int64_t kept, std::uint64_t seed, std::uint64_t random_stream, void* stream) const {
    if (const auto e = clear(stream); e != cudaSuccess) return e;
    return launch(draw_in_order, kept > 0 ? 1 : 0, draw_threads, stream, seed, random_stream, count, kept, seen, drawn);
  }
};

cudaError_t zeros(float* out, std::int64_t count, void* stream) {
  return cudaMemsetAsync(out, 0, static_cast<std::size_t>(count) * sizeof(float), static_cast<cudaStream_t>(stream));
}

}  // namespace

int thinwire_cuda_randomk_gather(const float* x, std::int64_t count, std::int64_t kept, std::uint64_t seed, std::uint64_t random_stream, float factor,
                                 int half_values, int scan, void* list, std::uint32_t* status, int ordinal, void* stream) {
  if (!valid(count, kept)) return cudaErrorInvalidValue;
  const RandomGather action{value_list(list, half_values != 0), factor, x, scan != 0, aligned(x, 16)};
  return on_device(ordinal, [&] { return expand(count, kept, seed, random_stream, status, action, stream); });
}

int thinwire_cuda_randomk_scatter(const void* list, int half_values, std::int64_t count, std::int64_t kept, std::uint64_t seed,
                                  std::uint64_t random_stream, float factor, float* out, int add, std::uint32_t* status, int ordinal, void* stream) {
  if (!valid(count, kept)) return cudaErrorInvalidValue;
  const ValueList values = value_list(list, half_values != 0);
  return on_device(ordinal, [&] {
    if (add) return expand(count, kept, seed, random_stream, status, RandomScatter<true>{values, factor, out, aligned(out, 16)}, stream);
    return expand(count, kept, seed, random_stream, status, RandomScatter<false>{values, factor, out, aligned(out, 16)}, stream);
  });
}

int thinwire_cuda_randomk_released_encode(const float* x, std::int64_t count, std::int64_t kept, std::uint64_t seed, std::uint64_t random_stream, float factor,
                                          int half_values, void* payload, void* workspace, std::uint32_t* status, int ordinal, void* stream) {
  if (!valid(count, kept)) return cudaErrorInvalidValue;
  if (count == 0) return cudaSuccess;
  const Drawing drawing(workspace, count);
  auto* index = static_cast<std::uint8_t*>(payload) + kept * (half_values ? 2 : 4);
  return on_device(ordinal, [&] {
    if (const auto e = drawing.draw(count, kept, seed, random_stream, stream); e != cudaSuccess) return e;
    if (const auto e = map(CheckFinite{x, status}, count, aligned(x, 16), stream); e != cudaSuccess) return e;
    return map(TakeDrawn{drawing.drawn, x, factor, value_list(payload, half_values != 0), index, status}, kept, false, stream);
  });
}

int thinwire_cuda_randomk_released_decode(const void* payload, int half_values, std::int64_t count, std::int64_t kept, float* out, int add_to, void* workspace,
                                          std::uint32_t* status, int ordinal, void* stream) {
  if (!valid(count, kept)) return cudaErrorInvalidValue;
  if (count == 0) return cudaSuccess;
  const Drawing drawing(workspace, count);
  const auto* index = static_cast<const std::uint8_t*>(payload) + kept * (half_values ? 2 : 4);
  return on_device(ordinal, [&] {
    if (const auto e = drawing.clear(stream); e != cudaSuccess) return e;
    if (add_to == 0)
      if (const auto e = zeros(out, count, stream); e != cudaSuccess) return e;
    return map(PutReceived{index, value_list(payload, half_values != 0), count, out, add_to != 0, drawing.seen, status}, kept, false, stream);
  });
}

int thinwire_cuda_randomk_released_gather(const float* x, std::int64_t count, std::int64_t kept, std::uint64_t seed, std::uint64_t random_stream, float* list,
                                          void* workspace, int ordinal, void* stream) {
  if (!valid(count, kept)) return cudaErrorInvalidValue;
  const Drawing drawing(workspace, count);
  return on_device(ordinal, [&] {
    if (const auto e = drawing.draw(count, kept, seed, random_stream, stream); e != cudaSuccess) return e;
    return map(GatherDrawn{drawing.drawn, x, list}, kept, false, stream);
  });
}

int thinwire_cuda_randomk_released_scatter(const float* list, std::int64_t count, std::int64_t kept, std::uint64_t seed, std::uint64_t random_stream,
                                           float factor, float* out, void* workspace, int ordinal, void* stream) {
  if (!valid(count, kept)) return cudaErrorInvalidValue;
  const Drawing drawing(workspace, count);
  return on_device(ordinal, [&] {
    if (const auto e = drawing.draw(count, kept, seed, random_stream, stream); e != cudaSuccess) return e;
    if (const auto e = zeros(out, count, stream); e != cudaSuccess) return e;
    return map(ScatterDrawn{drawing.drawn, list, factor, out}, kept, false, stream);
  });
}
