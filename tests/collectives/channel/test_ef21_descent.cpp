// labels: mpi
// ranks: 3
// timeout: 120
// EF21 as an optimizer: distributed gradient descent as `sgd:momentum=0` with a codec in its sum does it: x -= gamma mean_r decoded_r. On three quadratics on which descent with Top-1 diverges from every step size
// (Beznosikov et al., "On Biased Compression for Distributed Learning", arXiv 2002.12410, example 1), `+ef21` falls as EF21's theorem under the PL condition says (arXiv 2106.05203; its bound
// recollected): f(x_t) <= (1 - gamma mu)^t (f(x_0) + gamma/theta G_0), G_0 the mean square error of the first messages.
#include "tests/collectives/world.h"

namespace thinwire {
namespace {

using namespace testing;

// f_r = <a_r, x>^2 + |x|^2 / 4;  f, their mean, has the Hessian (2/3) sum a a^T + 1/2: eigenvalues 7/6 and 103/6. All have their least value 0 at x = 0.
constexpr float a[3][3] = {{-3, 2, 2}, {2, -3, 2}, {2, 2, -3}};
constexpr double mu = 7.0 / 6, smooth = 103.0 / 6, smooth_of_one = 2 * 17 + 0.5;

using Vector = std::vector<double>;

Vector gradient_of(int r, const Vector& x) {
  double product = 0;
  for (std::size_t i = 0; i < 3; ++i) product += static_cast<double>(a[r][i]) * x[i];
  Vector g(3);
  for (std::size_t i = 0; i < 3; ++i) g[i] = 2 * product * static_cast<double>(a[r][i]) + x[i] / 2;
  return g;
}

double value(const Vector& x) {
  double f = 0;
  for (const auto& row : a) {
    double product = 0;
    for (std::size_t i = 0; i < 3; ++i) product += static_cast<double>(row[i]) * x[i];
    f += product * product / 3;
  }
  for (const double v : x) f += v * v / 4;
  return f;
}

/// f(x_t), t = 0 ... steps, from (1, 1, 1).
std::vector<double> descend(const char* codec, double gamma, int steps) {
  Channel channel(world(), {.traffic = TrafficClass::dp_gradient, .codec = codec, .protocol = Protocol::gather, .comm_dtype = DType::f32, .average = true});
  Vector x(3, 1.0);
  std::vector<double> values = {value(x)};
  for (int t = 0; t < steps; ++t) {
    const Vector own = gradient_of(world().rank(), x);
    const std::vector<float> g(own.begin(), own.end());
    std::vector<float> mean(3);
    MessageKey key;
    key.tensor = hash_name("gradient");
    key.step = t;
    channel.all_reduce({g.data(), Shape{1, 3}}, {mean.data(), Shape{1, 3}}, key).wait();
    for (std::size_t i = 0; i < 3; ++i) x[i] -= gamma * static_cast<double>(mean[i]);
    values.push_back(value(x));
  }
  return values;
}

TEST(Ef21Descent, FallsAsTheTheoremSaysWhereTopKDiverges) {
  const double alpha = 1.0 / 3, theta = 1 - std::sqrt(1 - alpha), beta = (1 - alpha) / theta;
  const double gamma = std::min(1 / (smooth + smooth_of_one * std::sqrt(2 * beta / theta)), theta / (2 * mu));
  constexpr int steps = 2000;

  const std::vector<double> plain = descend("topk:count=1,values=f32", gamma, 300);
  // On the diagonal each rank sends -11/2 of its own element: x grows by 1 + 11 gamma / 6.
  EXPECT_NEAR(plain.back() / plain.front(), std::pow(1 + 11 * gamma / 6, 600), 0.01 * std::pow(1 + 11 * gamma / 6, 600));

  // f + gamma / theta times the mean square error of the first messages, which are Top-1 of the first gradients.
  double error = 0;
  for (int r = 0; r < 3; ++r) {
    const Vector g = gradient_of(r, Vector(3, 1.0));
    double largest = 0;
    for (const double v : g) error += v * v / 3, largest = std::max(largest, v * v / 3);
    error -= largest;
  }
  const std::vector<double> fed = descend("topk:count=1,values=f32+ef21", gamma, steps);
  const double start = fed.front() + gamma / theta * error;
  for (int t = 0; t <= steps; ++t) EXPECT_LE(fed[static_cast<std::size_t>(t)], std::pow(1 - gamma * mu, t) * start * 1.001) << t;
  EXPECT_LT(fed.back(), 1e-4 * fed.front());
}

}  // namespace
}  // namespace thinwire
