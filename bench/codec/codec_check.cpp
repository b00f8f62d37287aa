#include "bench/codec/codec_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/half.h"
#include "kernels/codec/codecs/autoencoder.h"

namespace thinwire::bench {
namespace {

void require(bool holds, const CodecStack& stack, const std::string& what) {
  if (!holds) throw WrongResult(stack.expression.canonical() + ": " + what + "; the codec is not timed");
}

// decoded = clip(round_half_even(x / half(scale + 1e-6) * 2^(B-1))) / 2^(B-1) * scale, scale per column
// (papers' formula; see docs of the codec), in float64 but for the two f16 roundings that are part of it.
std::vector<double> quantized(const CodecStack& stack, std::span<const float> x, std::int64_t columns) {
  const double half = std::ldexp(1.0, static_cast<int>(stack.expression.codec.parameters.integer("bits")) - 1);
  const bool l2 = stack.expression.codec.parameters.choice("norm") == "l2";
  const std::int64_t rows = static_cast<std::int64_t>(x.size()) / columns;
  std::vector<double> out(x.size()), scale(static_cast<std::size_t>(columns), 0.0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    double& s = scale[i % static_cast<std::size_t>(columns)];
    s = l2 ? s + double{x[i]} * x[i] : std::max(s, std::abs(double{x[i]}));
  }
  for (double& s : scale) s = round_to_half(static_cast<float>(l2 ? 2 * std::sqrt(s / static_cast<double>(rows)) : s));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double s = scale[i % static_cast<std::size_t>(columns)];
    const double divisor = round_to_half(static_cast<float>(s) + 1e-6f);
    const double y = std::clamp(std::nearbyint(x[i] / divisor * half), -half, half - 1);
    out[i] = y / half * s;
  }
  return out;
}

std::vector<double> rounded(const CodecStack& stack, std::span<const float> x) {
  const bool half = stack.expression.codec.parameters.choice("to") == "f16";
  std::vector<double> out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) out[i] = half ? round_to_half(x[i]) : to_float(to_bfloat16(x[i]));
  return out;
}

std::vector<double> projected(Autoencoder& codec, std::span<const float> x, std::int64_t columns) {
  const std::int64_t rows = static_cast<std::int64_t>(x.size()) / columns, width = codec.width_for(columns);
  const auto encoder = codec.encoder(columns), decoder = codec.decoder(columns);
  std::vector<double> out(x.size(), std::nan(""));
  // Scalar products of a sample of rows: all of them would take longer than the whole bench.
  const std::int64_t step = std::max<std::int64_t>(1, rows / 64);
  std::vector<double> code(static_cast<std::size_t>(width));
  for (std::int64_t r = 0; r < rows; r += step) {
    const float* row = x.data() + r * columns;
    for (std::int64_t k = 0; k < width; ++k) {
      double sum = 0;
      for (std::int64_t j = 0; j < columns; ++j) sum += double{row[j]} * encoder[static_cast<std::size_t>(k * columns + j)];
      code[static_cast<std::size_t>(k)] = sum;
    }
    for (std::int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < width; ++k) sum += code[static_cast<std::size_t>(k)] * decoder[static_cast<std::size_t>(j * width + k)];
      out[static_cast<std::size_t>(r * columns + j)] = sum;
    }
  }
  return out;
}

// Relative L2 difference over the elements that the reference has (not NaN).
double difference(std::span<const float> out, const std::vector<double>& reference) {
  double wrong = 0, all = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (std::isnan(reference[i])) continue;
    wrong += (out[i] - reference[i]) * (out[i] - reference[i]);
    all += reference[i] * reference[i];
  }
  return all > 0 ? std::sqrt(wrong / all) : std::sqrt(wrong);
}

// Kept elements carry their own value; with `largest`, no other choice of as many elements loses less.
void check_sparse(const CodecStack& stack, std::span<const float> x, std::span<const float> out, bool largest) {
  std::vector<double> dropped_squares;
  double lost = 0;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (out[i] != 0) {
      ++kept;
      require(std::abs(double{out[i]} - x[i]) <= 0x1p-11 * std::abs(double{x[i]}) + 0x1p-24, stack,
              "element " + std::to_string(i) + " is " + std::to_string(x[i]) + " and came back as " + std::to_string(out[i]));
    } else {
      lost += double{x[i]} * x[i];
    }
  }
  if (!largest) return;
  dropped_squares.resize(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) dropped_squares[i] = double{x[i]} * x[i];
  const auto cut = dropped_squares.end() - static_cast<std::ptrdiff_t>(kept);
  std::nth_element(dropped_squares.begin(), cut, dropped_squares.end());
  double least = 0;
  for (auto it = dropped_squares.begin(); it != cut; ++it) least += *it;
  require(lost <= least * (1 + 1e-9) + 1e-30, stack, "it kept " + std::to_string(kept) + " elements that are not the largest");
}

// ||M||^2 = ||out||^2 + ||M - out||^2 for any result P P^T M (papers/optimus_cc.md section 8, vector 2).
void check_projection(const CodecStack& stack, std::span<const float> x, std::span<const float> out) {
  double all = 0, kept = 0, lost = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    all += double{x[i]} * x[i];
    kept += double{out[i]} * out[i];
    lost += (double{x[i]} - out[i]) * (double{x[i]} - out[i]);
  }
  require(std::abs(all - kept - lost) <= 1e-3 * all, stack, "its result is no orthogonal projection of its input");
}

std::string check_reference(CodecStack& stack, std::span<const float> x, std::span<const float> out, std::int64_t columns) {
  const std::string& name = stack.expression.codec.name;
  if (stack.codec->traits().lossless) {
    require(std::memcmp(x.data(), out.data(), x.size_bytes()) == 0, stack, "it calls itself lossless but changed the tensor");
    return "bit-equal";
  }
  const auto close = [&](const std::vector<double>& reference, double tolerance) {
    const double d = difference(out, reference);
    require(d <= tolerance, stack, "its result differs from the float64 reference by " + std::to_string(d) + " (relative L2), at most " + std::to_string(tolerance) + " is right");
  };
  if (name == "cast") {
    close(rounded(stack, x), 0);
    return "scalar rounding, exact";
  }
  if (name == "quantize") {
    // f32 against f64 quotients may fall on either side of a tie, rarely; the released form rounds every step to f16.
    close(quantized(stack, x, columns), stack.form == Form::released ? 0.05 : 1e-3);
    return "scalar formula in float64";
  }
  if (name == "topk" || name == "randomk") {
    check_sparse(stack, x, out, name == "topk");
    return name == "topk" ? "kept values, least lost energy" : "kept values";
  }
  if (name == "autoencoder") {
    const bool half = stack.expression.codec.parameters.choice("wire") == "f16";
    close(projected(dynamic_cast<Autoencoder&>(*stack.codec), x, columns), half ? 2e-3 : 1e-4);
    return "float64 products";
  }
  if (name == "powersgd") {
    check_projection(stack, x, out);
    return "orthogonality of the error";
  }
  return "none (structural checks only)";
}

}  // namespace

CodecCheck check_codec(CodecStack& stack, ConstTensorView x) {
  Codec& codec = *stack.codec;
  MessageKey key;
  key.tensor = hash_name("bench");
  key.pass = Pass::evaluate;
  std::vector<std::byte> payload(codec.max_payload_bytes(x.shape()));
  const std::size_t size = codec.encode(x, key, payload);
  require(size <= payload.size(), stack, "its payload of " + std::to_string(size) + " bytes exceeds the declared " + std::to_string(payload.size()));
  payload.resize(size);
  std::vector<float> out(static_cast<std::size_t>(x.elements()), -1.0f), again(out.size(), 1.0f);
  codec.decode(payload, key, TensorView(out.data(), x.shape()));
  codec.decode(payload, key, TensorView(again.data(), x.shape()));
  require(std::memcmp(out.data(), again.data(), out.size() * sizeof(float)) == 0, stack, "decoding twice gives two results");
  std::fill(again.begin(), again.end(), 1.0f);
  codec.decode_add(payload, key, TensorView(again.data(), x.shape()));
  double worst = 0;
  for (std::size_t i = 0; i < out.size(); ++i) worst = std::max(worst, std::abs(again[i] - (1.0 + out[i])) / (1 + std::abs(double{out[i]})));
  require(worst < 1e-4, stack, "decode_add is not out + decode");
  if (size > 0) {
    bool refused = false;
    try {
      codec.decode(std::span(payload).first(size - 1), key, TensorView(again.data(), x.shape()));
    } catch (const CorruptData&) {
      refused = true;
    }
    require(refused, stack, "it accepts a payload that lost its last byte");
  }
  CodecCheck check;
  check.payload_bytes = size;
  check.error = error_metrics(out, x.as<float>());
  check.reference = check_reference(stack, x.as<float>(), out, x.shape().columns());
  return check;
}

}  // namespace thinwire::bench
