// Device twin of kernels/codec/randomk.cpp, fair form: positions from the message's key, so none are sent.
#include "kernels/sparse/random_positions_kernels.cuh"

using namespace thinwire;
using namespace thinwire::cuda;

THINWIRE_CUDA_ENTRY thinwire_cuda_randomk_gather_fn thinwire_cuda_randomk_gather;
THINWIRE_CUDA_ENTRY thinwire_cuda_randomk_scatter_fn thinwire_cuda_randomk_scatter;

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
