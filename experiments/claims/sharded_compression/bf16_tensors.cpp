// sharded_compression.C16: ZeRO++'s codes of bf16 tensors. Values are read in their own type; the control is the released reading, in which kernels take the bits for f16
// whatever the tensor is (docs/papers/sharded_compression.md, "Defects of the released code").
#include <cmath>

#include "core/half.h"
#include "experiments/claims/context.h"
#include "experiments/claims/sharded_compression/cells/messages.h"

namespace thinwire::claims {
namespace {

using namespace sharded_compression;

constexpr std::size_t count = 1 << 17;
constexpr const char *weight_codec = "group:bits=8,range=full,group=4096", *gradient_codec = "group:bits=4,range=full,group=128";

std::vector<BFloat16> bf16_of(const Values& x) {
  std::vector<BFloat16> narrow;
  for (const float v : x) narrow.push_back(to_bfloat16(v));
  return narrow;
}
Values own_values(const std::vector<BFloat16>& x) {
  Values wide;
  for (const BFloat16 v : x) wide.push_back(to_float(v));
  return wide;
}
Values misread(const std::vector<BFloat16>& x) {
  Values wide;
  for (const BFloat16 v : x) wide.push_back(to_float(Half{v.bits}));
  return wide;
}

/// Through the codec in the tensor's own type.
Values through(const char* codec, const std::vector<BFloat16>& x) {
  CodecStack stack = make_codec(codec);
  const Shape shape{1, static_cast<std::int64_t>(x.size())};
  std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
  payload.resize(stack.codec->encode(ConstTensorView(x.data(), shape), {}, payload));
  Values out(x.size());
  stack.codec->decode(payload, {}, TensorView(out.data(), shape));
  return out;
}

double norm(const Values& x) {
  double squares = 0;
  for (const float v : x) squares += double{v} * v;
  return std::sqrt(squares);
}

Finding measure(JudgeContext&) {
  const std::vector<BFloat16> weights = bf16_of(normal_values(count, "weights", 0.02));
  std::vector<Values> gradients;
  std::vector<BFloat16> first;
  for (int r = 0; r < 4; ++r) {
    const std::vector<BFloat16> gradient = bf16_of(normal_values(count, "gradient " + std::to_string(r), 1e-6));
    if (r == 0) first = gradient;
    gradients.push_back(own_values(gradient));
  }
  const double weight_error = relative_error(through(weight_codec, weights), own_values(weights));
  const double gradient_error = relative_error(two_level_sum(gradients, {gradient_codec, gradient_codec}), exact_sum(gradients));
  const double weight_growth = norm(misread(weights)) / norm(own_values(weights)), gradient_growth = norm(misread(first)) / norm(own_values(first));
  Finding found;
  found.measures = {{"weights of N(0, .02), 8 bits: relative error", weight_error, no_number, no_number, 0.012, "", "weights"},
                    {"gradients of N(0, 1e-6), 4 bits on both hops: relative error", gradient_error, no_number, no_number, 0.25, "", "gradients"},
                    {"control: norm of the weights read as f16 over their own", weight_growth, no_number, no_number, 54, "x", "weight_growth"},
                    {"control: the same of the gradients", gradient_growth, no_number, no_number, 3.2e5, "x", "gradient_growth"}};
  return found;
}

const bool registered = register_claim(
    {.id = "sharded_compression.C16",
     .statement = "Coding bf16 tensors in their own type is safe; read as f16 bits they explode.",
     .provenance = "derived; read: DeepSpeed issues (symptom)",
     .basis = Basis::exact,
     .rule = {.settings = {{"weights", std::string(weight_codec) + ", bf16 numbers of N(0, .02)"}, {"gradients", std::string(gradient_codec) + " on both hops of 2 x 2 ranks, bf16 numbers of N(0, 1e-6)"}},
              .quantities = {{"weights", "relative L2 error of coded weights"},
                             {"gradients", "relative L2 error of the sum of coded gradients"},
                             {"weight_growth", "norm of the weights with their bits read as f16, over their own norm"},
                             {"gradient_growth", "the same of a rank's gradients"}},
              .constants = {{"weight_bound", 0.012, "relative"}, {"gradient_bound", 0.25, "relative"}, {"weight_page", 54, "x"}, {"gradient_page", 3.2e5, "x"}, {"band", 1, "x"},
                            {"share", 0.02, "of it"}},
              .clauses = {{Verdict::invalid, "abs(weight_growth - weight_page) > band || abs(gradient_growth / gradient_page - 1) > share"},
                          {Verdict::pass, "weights <= weight_bound && gradients <= gradient_bound"}},
              .otherwise = Verdict::fail},
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
