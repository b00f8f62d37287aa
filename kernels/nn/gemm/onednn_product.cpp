#include "kernels/nn/gemm/onednn_product.h"

#include <omp.h>

#include <dnnl.hpp>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/device/placement.h"
#include "core/process/environment.h"

namespace thinwire::nn {

struct PackedWeights::Kept {
  struct Weight {
    dnnl::memory memory;
    std::int64_t scope = 0;  ///< in which it was packed last
  };
  std::map<std::pair<const float*, bool>, Weight> weights;  ///< by place, and whether it is multiplied transposed
  std::int64_t scope = 0, packed = 0;
};

namespace {

thread_local PackedWeights* current_weights = nullptr;

using Tag = dnnl::memory::format_tag;
using Type = dnnl::memory::data_type;

/// What a primitive is made for. `type` is the operands'; sums are f32, and so is C unless it is narrow.
struct Key {
  Type type;
  bool trans_a, trans_b, adds;
  std::int64_t m, n, k, lda, ldb, ldc;
  int threads;
  bool packs = false;           ///< B in the layout that the library chooses
  bool narrow = false, biased = false;  ///< C in bf16; f32 added to each of its rows before
  auto tied() const { return std::tie(type, trans_a, trans_b, adds, m, n, k, lda, ldb, ldc, threads, packs, narrow, biased); }
  bool operator<(const Key& other) const { return tied() < other.tied(); }
};

struct Product {
  dnnl::memory::desc a, b, bias, c;
  dnnl::matmul primitive;
};

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

/// op(matrix) of [rows, columns] whose stored rows are `stride` elements apart.
dnnl::memory::desc operand(Type type, bool transposed, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  return {{rows, columns}, type, transposed ? dnnl::memory::dims{1, stride} : dnnl::memory::dims{stride, 1}};
}

/// The references stay valid: entries are never taken out.
const Product& product_for(const Key& key) {
  static std::mutex guard;
  static std::map<Key, Product> cache;
  const std::lock_guard lock(guard);
  if (const auto found = cache.find(key); found != cache.end()) return found->second;
  const dnnl::memory::desc a = operand(key.type, key.trans_a, key.m, key.k, key.lda),
                           b = key.packs ? dnnl::memory::desc({key.k, key.n}, key.type, Tag::any) : operand(key.type, key.trans_b, key.k, key.n, key.ldb),
                           bias({1, key.n}, Type::f32, dnnl::memory::dims{key.n, 1}), c = operand(key.narrow ? Type::bf16 : Type::f32, false, key.m, key.n, key.ldc);
  dnnl::primitive_attr attributes;
  if (key.adds) {
    dnnl::post_ops operations;
    operations.append_sum(1.0f);
    attributes.set_post_ops(operations);
  }
  const dnnl::matmul::primitive_desc description(key.biased ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c), attributes, engine());
  return cache.emplace(key, Product{a, description.weights_desc(), bias, c, dnnl::matmul(description)}).first->second;
}

dnnl::stream& stream() {
  thread_local dnnl::stream own(engine());
  return own;
}

/// oneDNN's memory takes non-const pointers for inputs, too; it does not write to them.
dnnl::memory at(const dnnl::memory::desc& where, const void* data) { return {where, engine(), const_cast<void*>(data)}; }

/// `b_of` gives B's memory for the primitive; it may use oneDNN, too. `bias`: where the key says so.
template <typename BOf>
void multiply(const Key& key, const void* a, const BOf& b_of, void* c, const float* bias = nullptr) {
  try {
    const Product& p = product_for(key);
    std::unordered_map<int, dnnl::memory> arguments = {{DNNL_ARG_SRC, at(p.a, a)}, {DNNL_ARG_WEIGHTS, b_of(p)}, {DNNL_ARG_DST, at(p.c, c)}};
    if (key.biased) arguments.emplace(DNNL_ARG_BIAS, at(p.bias, bias));
    p.primitive.execute(stream(), arguments);
    stream().wait();
  } catch (const dnnl::error& e) {
    const bool bf16 = key.type == Type::bf16;
    throw RuntimeFailure(std::string("oneDNN could not multiply ") + (bf16 ? "bf16" : "f32") + " matrices of " + std::to_string(key.m) + " x " +
                         std::to_string(key.k) + " x " + std::to_string(key.n) + ": " + e.what() +
                         (bf16 ? ". Use compute type f32." : ". Use --product-library openblas."));
  }
}

unsigned isa() { return static_cast<unsigned>(dnnl::get_effective_cpu_isa()); }
/// cpu_isa values of oneDNN are bit sets that grow with the instruction set.
bool has(dnnl::cpu_isa least) { return (isa() & static_cast<unsigned>(least)) == static_cast<unsigned>(least); }

}  // namespace

namespace detail {

bool onednn_is_here() { return isa() != 0; }

std::string onednn_version() {
  if (!onednn_is_here()) return {};
  const dnnl_version_t* v = dnnl_version();
  return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

bool onednn_has_bf16() { return has(dnnl::cpu_isa::avx512_core); }

void gemm_f32_onednn(Transpose trans_a, Transpose trans_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t lda,
                     const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) {
  TW_ASSERT(beta == 0.0f || beta == 1.0f);
  multiply({Type::f32, trans_a == Transpose::yes, trans_b == Transpose::yes, beta == 1.0f, m, n, k, lda, ldb, ldc, omp_get_max_threads()}, a, [&](const Product& p) { return at(p.b, b); }, c);
}

namespace {

/// Of a dense bf16 product.
Key key_of(bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k, const Bf16Result& c, bool packs) {
  TW_ASSERT(c.beta == 0.0f || c.beta == 1.0f);
  TW_ASSERT(c.narrow != nullptr ? c.wide == nullptr && c.beta == 0.0f : c.bias == nullptr);
  return {Type::bf16, ta, tb, c.beta == 1.0f, m, n, k, ta ? m : k, tb ? k : n, n, omp_get_max_threads(), packs, c.narrow != nullptr, c.bias != nullptr};
}
void* data_of(const Bf16Result& c) { return c.narrow != nullptr ? static_cast<void*>(c.narrow) : c.wide; }

}  // namespace

void gemm_bf16(Transpose trans_a, Transpose trans_b, std::int64_t m, std::int64_t n, std::int64_t k, const BFloat16* a, const BFloat16* b,
               const Bf16Result& c) {
  const Key key = key_of(trans_a == Transpose::yes, trans_b == Transpose::yes, m, n, k, c, false);
  multiply(key, a, [&](const Product& p) { return at(p.b, b); }, data_of(c), c.bias);
}

void gemm_bf16_packed(Transpose trans_w, std::int64_t m, std::int64_t n, std::int64_t k, const BFloat16* a,
                      const std::function<const BFloat16*()>& round_weight, const float* w, PackedWeights& weights, const Bf16Result& c) {
  const bool tw = trans_w == Transpose::yes;
  const std::int64_t ldw = tw ? k : n;
  const Key key = key_of(false, tw, m, n, k, c, true);
  PackedWeights::Kept& kept = *weights.kept;
  const auto weight = [&](const Product& p) {
    PackedWeights::Kept::Weight& own = kept.weights[{w, tw}];
    const bool fits = own.memory && own.memory.get_desc() == p.b;
    if (fits && own.scope == kept.scope) return own.memory;
    if (!fits) own.memory = dnnl::memory(p.b, engine());
    dnnl::memory from = at(operand(Type::bf16, tw, k, n, ldw), round_weight());
    dnnl::reorder(from, own.memory).execute(stream(), from, own.memory);
    stream().wait();
    own.scope = kept.scope;
    ++kept.packed;
    return own.memory;
  };
  multiply(key, a, weight, data_of(c), c.bias);
}

}  // namespace detail

PackedWeights::PackedWeights() : kept(std::make_unique<Kept>()) {}
PackedWeights::~PackedWeights() = default;
std::int64_t PackedWeights::packed() const { return kept->packed; }
std::int64_t PackedWeights::bytes() const {
  std::int64_t sum = 0;
  for (const auto& [place, weight] : kept->weights) sum += weight.memory ? static_cast<std::int64_t>(weight.memory.get_desc().get_size()) : 0;
  return sum;
}

PackedWeightsScope::PackedWeightsScope(PackedWeights& weights) : outer_(std::exchange(current_weights, &weights)) {
  PackedWeights::Kept& kept = *weights.kept;
  std::erase_if(kept.weights, [&](const auto& entry) { return entry.second.scope < kept.scope; });  // not used in the one before
  ++kept.scope;
}
PackedWeightsScope::~PackedWeightsScope() { current_weights = outer_; }
PackedWeights* PackedWeightsScope::current() { return current_weights; }

std::string why_no_bf16_gemm() {
  if (!placement().on_host()) return {};  // every device that a module accepts multiplies bf16
  if (has(dnnl::cpu_isa::avx512_core_bf16)) return {};  // which every processor with AMX has, too
  if (!detail::onednn_is_here()) return "oneDNN is not here (packaging/stand_in.sh took its place in this bundle)";
  if (detail::onednn_has_bf16() && Environment::get("THINWIRE_SLOW_BF16").value_or("") == "1") return {};
  return "it has neither AVX512_BF16 nor AMX, without which bf16 products are slower than f32";
}

}  // namespace thinwire::nn
