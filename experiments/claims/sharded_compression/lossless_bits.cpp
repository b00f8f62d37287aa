// sharded_compression.C21a: the exponent window gives every bit back, and how much smaller normal numbers become. Weights and gradients of a training: C21b.
#include <cmath>
#include <cstring>
#include <limits>

#include "core/half.h"
#include "core/random.h"
#include "experiments/claims/context.h"
#include "experiments/claims/sharded_compression/cells/messages.h"

namespace thinwire::claims {
namespace {

using namespace sharded_compression;

constexpr std::int64_t count = 1 << 17;

struct Sent {
  double ratio = 0;
  int changed = 0;  ///< bytes that came back otherwise
};

template <typename T>
Sent send(const std::vector<T>& x, const char* codec) {
  CodecStack stack = make_codec(codec);
  const Shape shape{1, static_cast<std::int64_t>(x.size())};
  std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
  payload.resize(stack.codec->encode(ConstTensorView(x.data(), shape), {}, payload));
  std::vector<T> out(x.size());
  stack.codec->decode(payload, {}, TensorView(out.data(), shape));
  Sent sent{static_cast<double>(sizeof(T) * x.size()) / static_cast<double>(payload.size()), 0};
  const std::span<const std::byte> a = std::as_bytes(std::span(x)), b = std::as_bytes(std::span(out));
  for (std::size_t i = 0; i < a.size(); ++i) sent.changed += a[i] != b[i];
  return sent;
}

std::vector<BFloat16> every_bf16() {
  std::vector<BFloat16> x;
  for (int bits = 0; bits < 1 << 16; ++bits) x.push_back({static_cast<std::uint16_t>(bits)});
  return x;
}
std::vector<float> special_f32() {
  using Limits = std::numeric_limits<float>;
  std::vector<float> x;
  for (const float v : {Limits::quiet_NaN(), Limits::signaling_NaN(), Limits::infinity(), Limits::denorm_min(), Limits::min(), Limits::max(), 0.0f, 1.0f, 1 + Limits::epsilon()})
    for (const float sign : {1.0f, -1.0f}) x.push_back(std::copysign(v, sign));
  return x;
}
std::vector<BFloat16> random_bf16() {
  const Random random(21, "bits");
  std::vector<BFloat16> x;
  for (std::uint64_t i = 0; i < count; ++i) x.push_back({static_cast<std::uint16_t>(random.bits32(i))});
  return x;
}
std::vector<float> random_f32() {
  const Random random(21, "bits");
  std::vector<float> x(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint32_t bits = random.bits32(i);
    std::memcpy(&x[i], &bits, sizeof bits);
  }
  return x;
}
std::vector<BFloat16> normal_bf16() {
  std::vector<BFloat16> x;
  for (const float v : normal_values(count, "initial matrix", 0.02)) x.push_back(to_bfloat16(v));
  return x;
}

Finding measure(JudgeContext&) {
  Finding found;
  Table table{"lossless", {"times smaller", "bytes changed"}, {}};
  int changed = 0;
  double least = INFINITY, most = 0, random = 0;
  for (const char* codec : {"lossless", "lossless:window=top"}) {
    const auto add = [&](const std::string& name, const Sent& sent) {
      table.rows.push_back({name + ", " + codec, {sent.ratio, static_cast<double>(sent.changed)}});
      changed += sent.changed;
      return sent.ratio;
    };
    add("every bf16 number", send(every_bf16(), codec));
    add("f32: NaN, infinity, denormals", send(special_f32(), codec));
    add("random bits of f32", send(random_f32(), codec));
    random = std::max(random, add("random bits of bf16", send(random_bf16(), codec)));
    const double normal = add("normal numbers of bf16", send(normal_bf16(), codec));
    least = std::min(least, normal), most = std::max(most, normal);
  }
  found.measures = {{"bytes that came back otherwise", static_cast<double>(changed), no_number, no_number, 0, "", "changed"},
                    {"normal bf16 numbers, times smaller, least of both windows", least, no_number, no_number, 1.38, "ratio", "least"},
                    {"normal bf16 numbers, times smaller, most", most, no_number, no_number, 1.45, "ratio", "most"},
                    {"control: random bits, times smaller", random, no_number, no_number, 1, "ratio", "random"}};
  found.tables = {std::move(table)};
  return found;
}

const bool registered = register_claim(
    {.id = "sharded_compression.C21a",
     .statement = "Lossless coding of exponents gives every bit back, and makes normal bf16 numbers 1.38 to 1.45 times smaller.",
     .provenance = "read: abstract of 2604.27844; derived (codec)",
     .basis = Basis::exact,
     .rule = {.settings = {{"codec", "lossless, the best window and that below the largest exponent"},
                           {"tensors", "every bf16 bit pattern, special f32 numbers, random bits of both types, N(0, .02) in bf16"}},
              .quantities = {{"changed", "bytes that came back otherwise"},
                             {"least", "times smaller, N(0, .02) in bf16, the least of both windows"},
                             {"most", "the most"},
                             {"random", "times smaller, random bits of bf16"}},
              .constants = {{"lower", 1.38, "ratio"}, {"upper", 1.45, "ratio"}, {"nothing", 1, "ratio: random bits have no redundancy"}},
              .clauses = {{Verdict::invalid, "random > nothing"}, {Verdict::pass, "changed == 0 && least >= lower && most <= upper"}},
              .otherwise = Verdict::fail},
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
