#include "collectives/communicator/local_reduce.h"

#include <algorithm>
#include <string>
#include <type_traits>

#include "kernels/convert.h"

namespace thinwire {
namespace {

template <typename T>
T combine(T a, T b, ReduceOp op) {
  if (op == ReduceOp::max) return std::max(a, b);
  if constexpr (std::is_integral_v<T>) {
    using Wide = std::uint64_t;  // unsigned: overflow wraps instead of being undefined
    if (op == ReduceOp::bit_or) return static_cast<T>(static_cast<Wide>(a) | static_cast<Wide>(b));
    return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
  } else {
    return a + b;
  }
}

template <typename T>
void reduce_typed(void* accumulator, const void* x, std::int64_t elements, ReduceOp op) {
  T* a = static_cast<T*>(accumulator);
  const T* b = static_cast<const T*>(x);
  for (std::int64_t i = 0; i < elements; ++i) a[i] = combine(a[i], b[i], op);
}

template <typename T>
void accumulate_typed(void* accumulator, const void* x, std::int64_t elements) {
  const auto n = static_cast<std::size_t>(elements);
  accumulate(std::span<T>(static_cast<T*>(accumulator), n), std::span<const T>(static_cast<const T*>(x), n));
}

}  // namespace

bool can_reduce(DType dtype, ReduceOp op) {
  const bool sixteen_bit_float = dtype == DType::f16 || dtype == DType::bf16;
  switch (op) {
    case ReduceOp::sum:
      return true;
    case ReduceOp::max:
      return !sixteen_bit_float;
    case ReduceOp::bit_or:
      return !sixteen_bit_float && dtype != DType::f32 && dtype != DType::f64;
  }
  return false;
}

void reduce_into(void* accumulator, const void* x, std::int64_t elements, DType dtype, ReduceOp op) {
  if (elements == 0) return;
  if (!can_reduce(dtype, op)) {
    throw UsageError("reductions of " + std::string(name_of(dtype)) +
                     " know no such operator; use sum, or an integer type");
  }
  const auto bytes = static_cast<std::size_t>(elements);
  switch (dtype) {
    case DType::f16:
      return accumulate_typed<Half>(accumulator, x, elements);
    case DType::bf16:
      return accumulate_typed<BFloat16>(accumulator, x, elements);
    case DType::f32:
      if (op == ReduceOp::sum) return accumulate_typed<float>(accumulator, x, elements);
      return reduce_typed<float>(accumulator, x, elements, op);
    case DType::u8: {
      const std::span<std::uint8_t> a(static_cast<std::uint8_t*>(accumulator), bytes);
      const std::span<const std::uint8_t> b(static_cast<const std::uint8_t*>(x), bytes);
      if (op == ReduceOp::max) return maximum_into(a, b);
      if (op == ReduceOp::bit_or) return bit_or_into(a, b);
      return reduce_typed<std::uint8_t>(accumulator, x, elements, op);
    }
    case DType::f64:
      return reduce_typed<double>(accumulator, x, elements, op);
    case DType::i8:
      return reduce_typed<std::int8_t>(accumulator, x, elements, op);
    case DType::u16:
      return reduce_typed<std::uint16_t>(accumulator, x, elements, op);
    case DType::i32:
      return reduce_typed<std::int32_t>(accumulator, x, elements, op);
    case DType::i64:
      return reduce_typed<std::int64_t>(accumulator, x, elements, op);
  }
}

}  // namespace thinwire
