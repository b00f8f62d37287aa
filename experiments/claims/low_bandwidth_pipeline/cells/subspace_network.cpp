#include "experiments/claims/low_bandwidth_pipeline/cells/subspace_network.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/random.h"
#include "models/data/corpus.h"

namespace thinwire::claims::low_bandwidth_pipeline {
namespace {

GptConfig config_of(const SubspaceSizes& s) {
  GptConfig c;
  c.vocab = byte_vocabulary, c.hidden = s.hidden, c.layers = s.layers, c.heads = s.heads, c.max_seq = s.seq, c.seed = s.seed;
  return c;
}

Doubles normal(std::int64_t count, std::uint64_t seed, const char* name) {
  const Random random(seed, name);
  Doubles x(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = random.normal(i);
  return x;
}

/// The columns of a matrix [rows, columns] made orthonormal in turn; twice, for the digits that the first time loses.
void orthonormalise(Doubles& m, std::size_t rows, std::size_t columns) {
  for (int again = 0; again < 2; ++again)
    for (std::size_t c = 0; c < columns; ++c) {
      for (std::size_t before = 0; before < c; ++before) {
        double common = 0;
        for (std::size_t r = 0; r < rows; ++r) common += m[r * columns + c] * m[r * columns + before];
        for (std::size_t r = 0; r < rows; ++r) m[r * columns + c] -= common * m[r * columns + before];
      }
      double size = 0;
      for (std::size_t r = 0; r < rows; ++r) size += m[r * columns + c] * m[r * columns + c];
      for (std::size_t r = 0; r < rows; ++r) m[r * columns + c] /= std::sqrt(size);
    }
}

}  // namespace

SubspaceNetwork::SubspaceNetwork(const SubspaceSizes& sizes, SubspaceForm form) : sizes_(sizes), form_(form), model_(config_of(sizes)) {
  basis_ = normal(sizes.hidden * sizes.rank, sizes.seed, "basis");
  orthonormalise(basis_, static_cast<std::size_t>(sizes.hidden), static_cast<std::size_t>(sizes.rank));
  fixed_ = normal(byte_vocabulary * sizes.hidden, sizes.seed, "fixed");
  spanned_["embedding.token"].table = true, spanned_["embedding.position"];
  for (std::int64_t l = 0; l + 1 < sizes.layers; ++l)
    for (const char* part : {".attention.projection", ".mlp.projection"})
      for (const char* what : {".weight", ".bias"}) spanned_["layer" + std::to_string(l) + part + what];
  for (auto& [name, s] : spanned_) {
    Parameter<double>& p = model_.parameter(name);
    s.z = normal(p.elements() / sizes.hidden * sizes.rank, sizes.seed, name.c_str());
    for (double& z : s.z) z *= s.table ? 0.3 : 0.05;
    expand(s.z, s.table, p.w());
  }
  model_.at_boundaries([this](int layer, const PassContext& pass, Tensor& gradient) {
    double* g = data_of<double>(gradient);
    if (layer == 1) seen_.boundary_gradient.assign(g, g + gradient.elements());
    if (!coded_) return;
    const Doubles coordinates = project(g, pass.rows());
    expand(coordinates, false, g);
  });
}

Doubles SubspaceNetwork::project(const double* x, std::int64_t rows) const {
  const auto h = static_cast<std::size_t>(sizes_.hidden), k = static_cast<std::size_t>(sizes_.rank);
  Doubles z(static_cast<std::size_t>(rows) * k);
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r)
    for (std::size_t i = 0; i < h; ++i)
      for (std::size_t j = 0; j < k; ++j) z[r * k + j] += x[r * h + i] * basis_[i * k + j];
  return z;
}

void SubspaceNetwork::expand(const Doubles& z, bool table, double* x) const {
  const auto h = static_cast<std::size_t>(sizes_.hidden), k = static_cast<std::size_t>(sizes_.rank);
  for (std::size_t r = 0; r < z.size() / k; ++r)
    for (std::size_t i = 0; i < h; ++i) {
      double sum = table ? fixed_[r * h + i] : 0;
      for (std::size_t j = 0; j < k; ++j) sum += z[r * k + j] * basis_[i * k + j];
      x[r * h + i] = sum;
    }
}

void SubspaceNetwork::code(const std::vector<std::int32_t>& tokens, double* x) const {
  const auto h = static_cast<std::size_t>(sizes_.hidden);
  const auto add = [&](double sign) {
    for (std::size_t r = 0; r < tokens.size(); ++r)
      for (std::size_t i = 0; i < h; ++i) x[r * h + i] += sign * fixed_[static_cast<std::size_t>(tokens[r]) * h + i];
  };
  add(-1);
  expand(project(x, static_cast<std::int64_t>(tokens.size())), false, x);
  add(1);
}

double SubspaceNetwork::outside(const std::vector<std::int32_t>& tokens, const double* x) const {
  const auto h = static_cast<std::size_t>(sizes_.hidden);
  Doubles kept(x, x + tokens.size() * h);
  code(tokens, kept.data());
  double most = 0;
  for (std::size_t r = 0; r < tokens.size(); ++r) {
    double lost = 0, size = 0;
    for (std::size_t i = r * h; i < (r + 1) * h; ++i) lost += (x[i] - kept[i]) * (x[i] - kept[i]), size += x[i] * x[i];
    most = std::max(most, std::sqrt(lost / size));
  }
  return most;
}

SubspacePass SubspaceNetwork::pass(const Batch& batch, bool coded) {
  coded_ = coded, seen_ = {};
  const std::vector<std::int32_t>& tokens = batch.ints("tokens");
  model_.zero_gradients();
  model_.place({batch.batch, batch.seq, true, static_cast<std::uint64_t>(steps_), batch.first_sample}, batch, saved_);
  for (std::size_t unit = 0; unit < model_.units().size(); ++unit) {
    model_.forward_unit(unit, 1.0, saved_);
    const int layer = model_.units()[unit].layer;
    if (layer < 0 || layer + 1 >= sizes_.layers) continue;
    double* x = data_of<double>(saved_.blocks[static_cast<std::size_t>(layer)].output);
    seen_.off_span = std::max(seen_.off_span, outside(tokens, x));
    if (coded) code(tokens, x);
    if (layer + 2 == sizes_.layers) seen_.last_boundary.assign(x, x + tokens.size() * static_cast<std::size_t>(sizes_.hidden));
  }
  seen_.loss = read_number(saved_.head.loss);
  model_.backward(batch, saved_);
  model_.join_table_gradients();
  return seen_;
}

std::map<std::string, Doubles> SubspaceNetwork::gradients() const {
  std::map<std::string, Doubles> all;
  for (const Parameter<double>* p : model_.parameters()) {
    const bool spanned = spanned_.contains(p->name());
    all[p->name()] = spanned ? project(p->g(), p->elements() / sizes_.hidden) : Doubles(p->g(), p->g() + p->elements());
    if (p->name() == "embedding.token") all["fixed"] = Doubles(p->g(), p->g() + p->elements());
  }
  return all;
}

void SubspaceNetwork::update(const Update& step) {
  ++steps_;
  for (Parameter<double>* p : model_.parameters()) {
    const auto found = spanned_.find(p->name());
    const std::int64_t rows = p->elements() / sizes_.hidden;
    if (found == spanned_.end() || form_ == SubspaceForm::constrained) step(p->name(), Doubles(p->g(), p->g() + p->elements()), p->w());
    if (found == spanned_.end()) continue;
    Spanned& s = found->second;
    if (form_ == SubspaceForm::reparametrised) {
      step(p->name(), project(p->g(), rows), s.z.data());
    } else {
      Doubles w(p->w(), p->w() + p->elements());
      if (s.table) std::ranges::transform(w, fixed_, w.begin(), std::minus());
      s.z = project(w.data(), rows);
    }
    expand(s.z, s.table, p->w());
  }
}

void SubspaceNetwork::descend(double rate) {
  update([&](const std::string&, const Doubles& gradient, double* weight) {
    for (std::size_t i = 0; i < gradient.size(); ++i) weight[i] -= rate * gradient[i];
  });
}

void SubspaceNetwork::adamw(double rate) {
  update([&](const std::string& name, const Doubles& gradient, double* weight) {
    auto& [m, v] = moments_[name];
    m.resize(gradient.size()), v.resize(gradient.size());
    nn::adamw_step<double>({}, 0, rate, steps_, 1, static_cast<std::int64_t>(gradient.size()), gradient.data(), weight, m.data(), v.data());
  });
}

std::map<std::string, Doubles> SubspaceNetwork::weights() const {
  std::map<std::string, Doubles> all;
  for (const Parameter<double>* p : model_.parameters()) all[p->name()] = Doubles(p->w(), p->w() + p->elements());
  return all;
}

double distance(const std::map<std::string, Doubles>& a, const std::map<std::string, Doubles>& b) {
  double apart = 0, size = 0;
  for (const auto& [name, x] : b) {
    const Doubles& other = a.at(name);
    TW_ASSERT(other.size() == x.size(), name);
    for (std::size_t i = 0; i < x.size(); ++i) apart += (x[i] - other[i]) * (x[i] - other[i]), size += x[i] * x[i];
  }
  return std::sqrt(apart / size);
}

}  // namespace thinwire::claims::low_bandwidth_pipeline
