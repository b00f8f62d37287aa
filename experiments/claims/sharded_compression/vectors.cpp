// sharded_compression.C6: the worked examples of docs/papers/sharded_compression.md ("Worked examples", "Exponent window") through the codecs. Draws cannot be chosen
// here, so int4 is the nearest; FSDP's layouts do not exist here (rows are cut evenly and nothing is padded). Relative errors of distributions are C12 and C13, sums in
// bf16 C19.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "core/half.h"
#include "experiments/claims/context.h"
#include "experiments/claims/sharded_compression/cells/messages.h"
#include "kernels/codec/transformed_codec.h"

namespace thinwire::claims {
namespace {

using namespace sharded_compression;
using Reals = std::vector<double>;

struct Vector {
  std::string name;
  double farthest = 0;   ///< element from the page's
  double tolerance = 0;  ///< half a unit of the page's last digit, 1e-6 where it has six
};

double farthest(const Reals& x, const Reals& page) {
  if (x.size() != page.size()) return INFINITY;
  double most = 0;
  for (std::size_t i = 0; i < x.size(); ++i) most = std::max(most, std::abs(x[i] - page[i]));
  return most;
}
template <typename T>
Reals reals(const T& values) {
  Reals r;
  for (const auto v : values) r.push_back(static_cast<double>(v));
  return r;
}
Reals bytes_of(std::span<const std::byte> payload) {
  Reals r;
  for (const std::byte b : payload) r.push_back(std::to_integer<int>(b));
  return r;
}

void add_int4(std::vector<Vector>& vectors) {
  Wire wire("group:bits=4");
  const Values decoded = wire.arrives(Values{0.875f, -0.875f, 0.4375f, 0.0625f, 0.125f, -0.3125f, 0, 0.8125f}, {});
  Reals codes = reals(decoded);
  for (double& c : codes) c *= 8;
  vectors.push_back({"int4: codes", farthest(codes, {7, -7, 4, 0, 1, -2, 0, 6}), 1e-6});
  vectors.push_back({"int4: bytes behind the scale", farthest(bytes_of(wire.payload().subspan(4)), {0x79, 0x40, 0x1e, 0x06}), 0});
}

void add_hadamard(std::vector<Vector>& vectors) {
  CodecStack stack = make_codec("group:bits=8+hadamard:block=32");
  auto& rotation = dynamic_cast<Transform&>(*stack.codec);
  const auto through = [&](Values x, bool back) {
    const Shape shape{1, 32};
    if (back)
      rotation.restore(ConstTensorView(x.data(), shape), {}, TensorView(x.data(), shape));
    else
      rotation.transform(ConstTensorView(x.data(), shape), {}, TensorView(x.data(), shape));
    return x;
  };
  const auto without_root = [](Reals y) {
    for (double& v : y) v *= std::sqrt(32.0);
    return y;
  };
  Values x(32, 0);
  x[0] = 1, x[1] = 2, x[31] = -1;
  const Values y = through(x, false);
  vectors.push_back({"H of 32", farthest(without_root(reals(y)), {2, 0, 4, -2, 4, -2, 2, 0, 4, -2, 2, 0, 2, 0, 4, -2, 4, -2, 2, 0, 2, 0, 4, -2, 2, 0, 4, -2, 4, -2, 2, 0}), 1e-5});
  vectors.push_back({"H of 32: and back", farthest(reals(through(y, true)), reals(x)), 1e-6});
  Values peak(32, 1);
  peak[5] = 8;
  Reals sizes = without_root(reals(through(peak, false)));
  for (double& v : sizes) v = std::abs(v);
  Reals expected(32, 7);
  expected[0] = 39;
  vectors.push_back({"H of 32: an outlier", farthest(sizes, expected), 1e-5});
}

void add_two_levels(std::vector<Vector>& vectors) {
  std::vector<Values> gradients(4, Values(8));
  for (int r = 0; r < 4; ++r)
    for (int i = 0; i < 8; ++i) gradients[static_cast<std::size_t>(r)][static_cast<std::size_t>(i)] = static_cast<float>((7 * r + 3 * i) % 11 - 5);
  const auto divided = [&](const TwoLevels& form, double by) {
    Reals result = reals(two_level_sum(gradients, form));
    for (double& v : result) v /= by;
    return result;
  };
  vectors.push_back({"two levels, dense", farthest(divided({"none", "none"}, 4), {0, 0.25, 0.5, 0.75, -1.75, -1.5, 1.5, 1.75}), 0});
  vectors.push_back({"two levels, 8 bits inside and 4 across",
                     farthest(divided({"group:bits=8", "group:bits=4"}, 4), {0.001969, 0.212317, 0.571429, 0.714286, -1.716535, -1.501968, 1.501968, 1.716535}), 1e-6});
  vectors.push_back({"two levels, as ZeRO++ released it", farthest(divided({"group:bits=4,range=full", "group:bits=4,range=full"}, 2), {-0.523438, 0.132812, 0.4375, 0.875, -3.375, -3, 2.351562, 2.6875}),
                     1e-6});
}

// Both ends begin with equal weights: what is sent is how far they have moved.
void add_differences(std::vector<Vector>& vectors) {
  const Reals updates[3] = {{.010, -.004, .002, .001}, {.008, -.006, .001, -.002}, {-.009, .003, .004, .002}};
  const Reals codes[3] = {{7, -3, 1, 1}, {7, -5, 1, -2}, {-7, 2, 3, 1}};
  const double errors[3] = {.000571, .000429, .000571};
  Wire wire("group:bits=4+ef21");
  Reals moved(4, 0), copy(4, 0);
  MessageKey key;
  for (int t = 0; t < 3; ++t) {
    for (std::size_t i = 0; i < 4; ++i) moved[i] += updates[t][i];
    key.step = t;
    const Reals arrived = reals(wire.arrives(Values(moved.begin(), moved.end()), key));
    double step = 0;
    for (std::size_t i = 0; i < 4; ++i) step = std::max(step, std::abs(moved[i] - copy[i]) / 7);
    Reals sent(4);
    for (std::size_t i = 0; i < 4; ++i) sent[i] = (arrived[i] - copy[i]) / step;
    copy = arrived;
    const std::string at = "weight differences, update " + std::to_string(t + 1);
    vectors.push_back({at + ": codes", farthest(sent, codes[t]), 1e-4});
    vectors.push_back({at + ": largest error", std::abs(farthest(copy, moved) - errors[t]), 1e-6});
  }
}

void add_misread(std::vector<Vector>& vectors) {
  const auto misread = [](float x) { return static_cast<double>(to_float(Half{to_bfloat16(x).bits})); };
  vectors.push_back({"bf16 read as f16: 1", std::abs(misread(1) - 1.875), 0});
  vectors.push_back({"bf16 read as f16: .02", std::abs(misread(.02f) - 1.16), .005});
  vectors.push_back({"bf16 read as f16: 1e-8", std::abs(misread(1e-8f) - .193), .0005});
}

void add_exponents(std::vector<Vector>& vectors) {
  const std::vector<float> numbers = {0x1p-6f, -.0234375f, 0x1p-7f, 0x1p-5f, -0x1p-8f, 0x1p-10f, 0x1p-4f, 1e-7f};
  std::vector<BFloat16> x;
  Reals bits;
  for (const float v : numbers) x.push_back(to_bfloat16(v)), bits.push_back(x.back().bits);
  vectors.push_back({"exponent window: bf16", farthest(bits, {0x3c80, 0xbcc0, 0x3c00, 0x3d00, 0xbb80, 0x3a80, 0x3d80, 0x33d7}), 0});
  CodecStack stack = make_codec("lossless");
  const Shape shape{1, 8};
  std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
  payload.resize(stack.codec->encode(ConstTensorView(x.data(), shape), {}, payload));
  vectors.push_back({"exponent window: size", farthest({static_cast<double>(payload.size())}, {14}), 0});
  if (payload.size() != 14) return;
  const Reals bytes = bytes_of(payload);
  Reals codes(8);
  for (std::size_t i = 0; i < 8; ++i)
    for (std::size_t plane = 0; plane < 3; ++plane) codes[i] += (static_cast<int>(bytes[2 + plane]) >> i & 1) << plane;
  vectors.push_back({"exponent window: top and escape", farthest({bytes[1], bytes[13]}, {123, 103}), 0});
  vectors.push_back({"exponent window: codes", farthest(codes, {2, 2, 3, 1, 4, 6, 0, 7}), 0});
}

Finding measure(JudgeContext&) {
  std::vector<Vector> vectors;
  add_int4(vectors);
  add_hadamard(vectors);
  add_two_levels(vectors);
  add_differences(vectors);
  add_misread(vectors);
  add_exponents(vectors);
  Finding found;
  Table table{"worked examples", {"farthest from the page", "allowed"}, {}};
  int wrong = 0;
  for (const Vector& v : vectors) {
    table.rows.push_back({v.name, {v.farthest, v.tolerance}});
    if (v.farthest <= v.tolerance) continue;
    ++wrong;
    found.note += (found.note.empty() ? "" : "; ") + v.name;
  }
  found.measures = {{"worked examples", static_cast<double>(vectors.size()), no_number, no_number, no_number, ""}, {"of them wrong", static_cast<double>(wrong), no_number, no_number, 0, "", "wrong"}};
  found.tables = {std::move(table)};
  return found;
}

const bool registered = register_claim(
    {.id = "sharded_compression.C6",
     .statement = "The codecs reproduce the page's worked examples.",
     .provenance = "derived",
     .basis = Basis::exact,
     .rule = {.settings = {{"examples", "int4, H of 32, two levels (dense, 8/4, ZeRO++ as released), weight differences, bf16 read as f16, exponent window"}},
              .quantities = {{"wrong", "examples of which an element is farther from the page's than half a unit of its last digit, 1e-6 where it has six"}},
              .clauses = {{Verdict::pass, "wrong == 0"}},
              .otherwise = Verdict::fail},
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
