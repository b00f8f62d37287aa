// bf16 products through oneDNN. Creating a primitive costs up to 3 ms, so they are kept by shape.
#include <dnnl.hpp>
#include <map>
#include <mutex>
#include <tuple>

#include "core/device/placement.h"
#include "kernels/nn/gemm/gemm.h"

namespace thinwire::nn {
namespace {

using Key = std::tuple<bool, bool, std::int64_t, std::int64_t, std::int64_t, bool>;

struct Product {
  dnnl::memory::desc a, b, c;
  dnnl::matmul primitive;
};

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

const Product& product_for(const Key& key) {
  static std::mutex guard;
  static std::map<Key, Product> cache;
  const std::lock_guard lock(guard);
  if (const auto found = cache.find(key); found != cache.end()) return found->second;
  const auto [trans_a, trans_b, m, n, k, accumulate] = key;
  using Tag = dnnl::memory::format_tag;
  using Type = dnnl::memory::data_type;
  const dnnl::memory::desc a({m, k}, Type::bf16, trans_a ? Tag::ba : Tag::ab);
  const dnnl::memory::desc b({k, n}, Type::bf16, trans_b ? Tag::ba : Tag::ab);
  const dnnl::memory::desc c({m, n}, Type::f32, Tag::ab);
  dnnl::primitive_attr attributes;
  if (accumulate) {
    dnnl::post_ops operations;
    operations.append_sum(1.0f);
    attributes.set_post_ops(operations);
  }
  const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, b, c), attributes, engine());
  return cache.emplace(key, Product{a, b, c, dnnl::matmul(description)}).first->second;
}

}  // namespace

namespace detail {

bool onednn_has_bf16() {
  // cpu_isa values of oneDNN are bit sets that grow with the instruction set.
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto least = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  return (isa & least) == least;
}

void gemm_bf16(Transpose trans_a, Transpose trans_b, std::int64_t m, std::int64_t n, std::int64_t k,
               const BFloat16* a, const BFloat16* b, float beta, float* c) {
  TW_ASSERT(beta == 0.0f || beta == 1.0f);
  try {
    const Product& p =
        product_for({trans_a == Transpose::yes, trans_b == Transpose::yes, m, n, k, beta == 1.0f});
    thread_local dnnl::stream stream(engine());
    // oneDNN's memory takes non-const pointers for inputs, too; it does not write to them.
    p.primitive.execute(stream, {{DNNL_ARG_SRC, dnnl::memory(p.a, engine(), const_cast<BFloat16*>(a))},
                                 {DNNL_ARG_WEIGHTS, dnnl::memory(p.b, engine(), const_cast<BFloat16*>(b))},
                                 {DNNL_ARG_DST, dnnl::memory(p.c, engine(), c)}});
    stream.wait();
  } catch (const dnnl::error& e) {
    throw RuntimeFailure("oneDNN could not multiply bf16 matrices of " + std::to_string(m) + " x " +
                         std::to_string(k) + " x " + std::to_string(n) + ": " + e.what() +
                         ". Use compute type f32.");
  }
}

}  // namespace detail

std::string why_no_bf16_gemm() {
  if (!placement().on_host()) return {};  // every device that a module accepts multiplies bf16
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto amx = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_amx);
  if ((isa & amx) == amx) return {};
  if (isa == 0) return "oneDNN is not here (packaging/stand_in.sh took its place in this bundle)";
  return "it has no AMX matrix unit, without which bf16 products are slower than f32";
}

}  // namespace thinwire::nn
