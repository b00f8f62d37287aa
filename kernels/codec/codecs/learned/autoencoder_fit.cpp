#include "kernels/codec/codecs/learned/autoencoder_fit.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/random.h"
#include "kernels/matrix/product.h"

namespace thinwire {
namespace {

// Adam (Kingma and Ba, 2015) with the usual constants.
struct Adam {
  explicit Adam(std::size_t n) : m(n, 0.0f), v(n, 0.0f) {}
  void step(std::vector<float>& w, const std::vector<float>& g, double rate, std::int64_t t) {
    constexpr float b1 = 0.9f, b2 = 0.999f, epsilon = 1e-12f;
    const float scale = static_cast<float>(rate * std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t)));
    for (std::size_t i = 0; i < w.size(); ++i) {
      m[i] = b1 * m[i] + (1 - b1) * g[i];
      v[i] = b2 * v[i] + (1 - b2) * g[i] * g[i];
      w[i] -= scale * m[i] / (std::sqrt(v[i]) + epsilon);
    }
  }
  std::vector<float> m, v;
};

// Rows of all samples, split into training and held-out ones.
struct Rows {
  std::vector<const float*> training, held_out;
};

Rows split(std::span<const ConstTensorView> samples) {
  Rows rows;
  std::int64_t index = 0;
  for (const ConstTensorView& s : samples) {
    const std::int64_t h = s.shape().columns();
    for (std::int64_t r = 0; r < s.shape().rows(); ++r, ++index)
      (index % 8 == 7 ? rows.held_out : rows.training).push_back(s.as<float>().data() + r * h);
  }
  if (rows.held_out.empty()) rows.held_out = rows.training;
  return rows;
}

class Refiner {
 public:
  Refiner(std::int64_t h, std::int64_t e, std::vector<float>& encoder, std::vector<float>& decoder)
      : h_(h), e_(e), encoder_(encoder), decoder_(decoder) {}

  // Batch X -> difference X E^T D^T - X; the code stays in code_.
  void reconstruct(std::span<const float* const> rows) {
    count_ = static_cast<std::int64_t>(rows.size());
    x_.resize(static_cast<std::size_t>(count_ * h_));
    code_.resize(static_cast<std::size_t>(count_ * e_));
    difference_.resize(x_.size());
    for (std::int64_t r = 0; r < count_; ++r) std::memcpy(x_.data() + r * h_, rows[static_cast<std::size_t>(r)], static_cast<std::size_t>(h_) * sizeof(float));
    matrix_product(Op::plain, Op::transposed, count_, e_, h_, x_.data(), encoder_.data(), code_.data());
    matrix_product(Op::plain, Op::transposed, count_, h_, e_, code_.data(), decoder_.data(), difference_.data());
    for (std::size_t i = 0; i < x_.size(); ++i) difference_[i] -= x_[i];
  }

  double relative_error(const std::vector<const float*>& rows) {
    double wrong = 0, all = 0;
    constexpr std::size_t block = 1024;
    for (std::size_t first = 0; first < rows.size(); first += block) {
      reconstruct(std::span(rows).subspan(first, std::min(block, rows.size() - first)));
      for (float d : difference_) wrong += double{d} * d;
      for (float x : x_) all += double{x} * x;
    }
    return all > 0 ? std::sqrt(wrong / all) : std::sqrt(wrong);
  }

  // Gradients of the mean squared difference (up to a factor that Adam does not see).
  void gradients(std::vector<float>& encoder_gradient, std::vector<float>& decoder_gradient) {
    travel_.resize(code_.size());
    matrix_product(Op::transposed, Op::plain, h_, e_, count_, difference_.data(), code_.data(), decoder_gradient.data());
    matrix_product(Op::plain, Op::plain, count_, e_, h_, difference_.data(), decoder_.data(), travel_.data());
    matrix_product(Op::transposed, Op::plain, e_, h_, count_, travel_.data(), x_.data(), encoder_gradient.data());
  }

 private:
  std::int64_t h_, e_, count_ = 0;
  std::vector<float>&encoder_, &decoder_;
  std::vector<float> x_, code_, difference_, travel_;
};

}  // namespace

AutoencoderFit refine_autoencoder(std::span<const ConstTensorView> samples, std::int64_t width, std::int64_t steps, std::uint64_t seed,
                                  std::vector<float>& encoder, std::vector<float>& decoder) {
  const std::int64_t h = samples[0].shape().columns();
  const Rows rows = split(samples);
  Refiner refiner(h, width, encoder, decoder);
  AutoencoderFit fit;
  fit.start_error = refiner.relative_error(rows.held_out);
  const std::vector<float> start_encoder = encoder, start_decoder = decoder;

  Adam adam_e(encoder.size()), adam_d(decoder.size());
  std::vector<float> gradient_e(encoder.size()), gradient_d(decoder.size());
  const Random random(seed, "autoencoder mini-batches");
  const std::size_t batch = std::min<std::size_t>(256, rows.training.size());
  std::vector<const float*> drawn(batch);
  // A hundredth of the weights' own scale per step, decaying to zero.
  double square = 0;
  for (float w : encoder) square += double{w} * w;
  const double rate = 0.01 * std::sqrt(square / static_cast<double>(encoder.size()));
  for (std::int64_t t = 1; t <= steps; ++t) {
    for (std::size_t i = 0; i < batch; ++i)
      drawn[i] = rows.training[random.below(static_cast<std::uint64_t>(t) * batch + i, rows.training.size())];
    refiner.reconstruct(drawn);
    refiner.gradients(gradient_e, gradient_d);
    const double step = rate * (1 - static_cast<double>(t - 1) / static_cast<double>(steps));
    adam_e.step(encoder, gradient_e, step, t);
    adam_d.step(decoder, gradient_d, step, t);
  }
  fit.end_error = refiner.relative_error(rows.held_out);
  if (!(fit.end_error < fit.start_error)) {
    fit.kept_start = true;
    encoder = start_encoder;
    decoder = start_decoder;
  }
  return fit;
}

}  // namespace thinwire
