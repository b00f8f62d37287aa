#include "experiments/claims/optimus_cc/cells/boundary_probe.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "experiments/claims/kept/kept.h"
#include "experiments/claims/optimus_cc/cells/rule_arms.h"
#include "models/training/boundary_compression.h"
#include "models/data/batches.h"
#include "models/data/corpus.h"

namespace thinwire::claims::optimus_cc {
namespace {

using Values = std::vector<float>;
using nlohmann::json;

constexpr int window = 30;  ///< training steps at a checkpoint: 210 pairs of 8 micro-batches, 240 sends
const std::vector<std::string> probed_by = {"experiments/claims/optimus_cc/cells/boundary_probe.cpp", "experiments/claims/optimus_cc/cells/boundary_probe.h"};

TrainConfig probe_config(int seed, int steps) {
  TrainConfig c;
  c.model.vocab = byte_vocabulary, c.model.hidden = 128, c.model.layers = 4, c.model.heads = 4, c.model.max_seq = 64;
  c.model.seed = static_cast<std::uint64_t>(seed);
  c.mesh.pp = probe_stages;
  c.seq = 64, c.micro_batch = 8, c.global_batch = 64, c.steps = steps;
  c.trainer.schedule.peak = 0.003;  // as the arms of training claims
  c.trainer.schedule.total = steps;
  c.comm_dtype = DType::f32;
  c.compress[TrafficClass::pp_backward].codec = "powersgd:rank=2+lep";
  return c;
}

/// The same with messages of the last stage alone compressed.
TrainConfig last_boundary(TrainConfig c, const char* codec) {
  c.compress[TrafficClass::pp_backward].codec = codec;
  c.compress[TrafficClass::pp_backward].stages = std::to_string(probe_stages - 1);
  return c;
}

struct Moments {
  double dot = 0, aa = 0, bb = 0, a = 0, b = 0;
};
template <typename A, typename B>
Moments moments(const A& a, const B& b) {
  Moments m;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = a[i], y = b[i];
    m.dot += x * y, m.aa += x * x, m.bb += y * y, m.a += x, m.b += y;
  }
  return m;
}
double norm(const Values& x) { return std::sqrt(moments(x, x).aa); }

ErrorPair pair_of(const Values& error, const Values& now, const Values& next) {
  Values difference(now.size());
  for (std::size_t i = 0; i < now.size(); ++i) difference[i] = now[i] - next[i];
  const Moments m = moments(error, difference);
  const auto n = static_cast<double>(error.size());
  return {m.dot / std::sqrt(m.aa * m.bb), m.a / n, m.b / n, std::abs(m.a / n) / std::sqrt(m.aa / n), std::abs(m.b / n) / std::sqrt(m.bb / n)};
}

Values copy_of(const Tensor& x) {
  const auto values = x.as<float>();
  return {values.begin(), values.end()};
}

/// The activations of probe_activations(), of the micro-batch whose backward pass runs.
std::vector<Values> activations_of(const Gpt<float>::Activations& a) {
  const auto& before = a.blocks[probe_boundary - 1];
  return {copy_of(before.output), copy_of(a.blocks[probe_boundary - 2].output), copy_of(before.normed1), copy_of(before.context), copy_of(before.normed2)};
}

/// What a codec loses of a stream of messages, with what it lost added to the next message or not.
class Loss {
 public:
  Loss(const char* codec, bool propagates) : stack_(make_codec(codec)), propagates_(propagates) { key_.tensor = hash_name("probe"); }
  double of(ConstTensorView gradient) {
    const auto d = gradient.as<float>();
    error_.resize(d.size());
    Values message(d.begin(), d.end()), arrived(d.size());
    if (propagates_)
      for (std::size_t i = 0; i < d.size(); ++i) message[i] += error_[i];
    ++key_.step;
    payload_.resize(stack_.codec->max_payload_bytes(gradient.shape()));
    const std::size_t bytes = stack_.codec->encode({message.data(), gradient.shape()}, key_, payload_);
    stack_.codec->decode({payload_.data(), bytes}, key_, {arrived.data(), gradient.shape()});
    for (std::size_t i = 0; i < d.size(); ++i) error_[i] = message[i] - arrived[i];
    return norm(error_) / norm(message);
  }

 private:
  CodecStack stack_;
  bool propagates_;
  MessageKey key_;
  Values error_;
  std::vector<std::byte> payload_;
};

/// Looks at the last boundary's messages while the model trains. The error of a message is followed from the first step on:
/// M_i = d_i + e_{i-1}, e_i = M_i - arrived.
class MessageProbe {
 public:
  explicit MessageProbe(const Trainer<float>& trainer) : trainer_(trainer) {}
  void begin(Checkpoint& into) {
    into.pairs.assign(probe_activations().size(), {});
    into_ = &into;
    losses_.clear();
    for (const bool propagates : {true, false})
      for (const char* codec : {"powersgd:rank=2", "powersgd:rank=2,warm_start=false"}) losses_.emplace_back(codec, propagates);
  }
  void end() { into_ = nullptr; }

  void see(const BoundaryMessage& message) {
    if (message.boundary != probe_boundary) return;
    const auto d = message.gradient.as<float>(), arrived = message.arrived.as<float>();
    const Values before = error_;
    error_.resize(d.size());
    Values sent(d.begin(), d.end());
    for (std::size_t i = 0; i < d.size(); ++i) sent[i] += error_[i], error_[i] = sent[i] - arrived[i];
    if (into_ == nullptr) return;
    const Moments control = moments(error_, sent);
    into_->control = std::max(into_->control, std::abs(control.dot / std::sqrt(control.aa * control.bb) - std::sqrt(control.aa / control.bb)));
    std::vector<Values> now = activations_of(trainer_.activations());
    if (message.micro > 0)
      for (std::size_t k = 0; k < now.size(); ++k) into_->pairs[k].push_back(pair_of(before, inputs_[k], now[k]));
    inputs_ = std::move(now);
    for (std::size_t k = 0; k < losses_.size(); ++k) into_->lost[k].push_back(losses_[k].of(message.gradient));
  }

 private:
  const Trainer<float>& trainer_;
  Checkpoint* into_ = nullptr;
  Values error_;
  std::vector<Values> inputs_;  ///< activations of the micro-batch before
  std::vector<Loss> losses_;
};

std::vector<Batch> batches(const BatchSampler& sampler, const TrainConfig& c, std::int64_t step) {
  std::vector<Batch> list;
  for (std::int64_t first = 0; first < c.global_batch; first += c.micro_batch)
    list.push_back(sampler.batch(static_cast<std::uint64_t>(step), first, c.micro_batch, c.seq));
  return list;
}

/// C11. A backward pass is linear in the gradient that enters a boundary, so the error of the gradients behind it is the backward pass of
/// the message's error: what arrived minus what was sent. Nothing is lost to cancellation.
void measure_gradients(Gpt<float>& model, const TrainConfig& config, const BatchSampler& sampler, std::int64_t first_step, Checkpoint& into) {
  const std::vector<ProbeMatrix> matrices = probe_matrices();
  into.gradient_error.assign(matrices.size(), {});
  const TrainConfig with = last_boundary(config, "powersgd:rank=2+lep"), without = last_boundary(config, "powersgd:rank=2");
  BoundaryCompression arms[] = {BoundaryCompression(with), BoundaryCompression(without)};
  Gpt<float>::Activations saved;
  Values exact;
  const double share = 1.0 / static_cast<double>(config.micro_batches());
  for (int n = -1; n < probe_mini_batches; ++n) {  // the first one only gives both arms a start
    const std::vector<Batch> micro_batches = batches(sampler, config, first_step + n + 1);
    std::vector<std::vector<Values>> errors(2);
    // The arms take turns over a micro-batch, so its forward pass is run once; each sums its own gradients.
    for (auto& arm : errors)
      for (const ProbeMatrix& m : matrices) arm.emplace_back(static_cast<std::size_t>(model.parameter(m.name).elements()), 0.0f);
    for (const Batch& batch : micro_batches) {
      model.forward(batch, static_cast<std::uint64_t>(first_step + n + 1), true, share, saved);
      for (std::size_t arm = 0; arm < 2; ++arm) {
        model.at_boundaries([&](int layer, const PassContext& pass, Tensor& gradient) {
          if (layer != probe_boundary) return;
          exact = copy_of(gradient);
          arms[arm].exchange(layer, pass, gradient);
          const auto arrived = gradient.as<float>();
          for (std::size_t i = 0; i < exact.size(); ++i) arrived[i] -= exact[i];
        });
        model.zero_gradients();
        model.backward(batch, saved);
        for (std::size_t k = 0; k < matrices.size(); ++k) {
          const float* g = model.parameter(matrices[k].name).g();
          for (std::size_t i = 0; i < errors[arm][k].size(); ++i) errors[arm][k][i] += g[i];
        }
      }
    }
    if (n < 0) continue;
    for (std::size_t k = 0; k < matrices.size(); ++k) into.gradient_error[k].push_back(norm(errors[0][k]) / norm(errors[1][k]));
  }
  model.zero_gradients();
}

ProbedSeed probe(int seed, int steps) {
  const TrainConfig config = probe_config(seed, steps);
  const Corpus corpus = Corpus::python_standard_library();
  const BatchSampler training(corpus.training(), config.model.seed, "data.training");
  Gpt<float> model(config.model);
  Trainer<float> trainer(model, config.trainer);
  BoundaryCompression boundaries(config);
  MessageProbe messages(trainer);
  boundaries.watch([&](const BoundaryMessage& m) { messages.see(m); });
  ProbedSeed result;
  result.seed = seed;
  result.unigram = corpus.unigram_entropy();
  for (const int percent : probe_percent) {
    const std::int64_t at = static_cast<std::int64_t>(steps) * percent / 100;
    model.at_boundaries(boundaries.hook());
    const auto train_to = [&](std::int64_t end) {
      while (trainer.steps_taken() < end) result.loss = trainer.step(batches(training, config, trainer.steps_taken())).loss;
    };
    train_to(at);
    Checkpoint& now = result.checkpoints.emplace_back();
    now.step = at;
    // Data that no training step uses.
    measure_gradients(model, config, training, 1'000'000 + at * 1000, now);
    model.at_boundaries(boundaries.hook());
    messages.begin(now);
    train_to(trainer.steps_taken() + window);
    messages.end();
    for (auto& lost : now.lost) lost.erase(lost.begin(), lost.end() - probe_sends);  // the sends before gave all of them a start
    std::fprintf(stderr, "boundary probe: seed %d, %d %% of %d steps, loss %.3f\n", seed, percent, steps, result.loss);
  }
  return result;
}

// ---- kept by seed ----

template <typename A>
void to_and_fro(A&& visit, ErrorPair& p) {
  visit(p.cosine), visit(p.mean_error), visit(p.mean_difference), visit(p.error_ratio), visit(p.difference_ratio);
}

json to_json(const ProbedSeed& s) {
  json j = {{"seed", s.seed}, {"loss", s.loss}, {"unigram", s.unigram}, {"checkpoints", json::array()}};
  for (const Checkpoint& c : s.checkpoints) {
    json pairs = json::array();
    for (const auto& of_activation : c.pairs) {
      json list = json::array();
      for (ErrorPair p : of_activation) to_and_fro([&](double v) { list.push_back(v); }, p);
      pairs.push_back(list);
    }
    j["checkpoints"].push_back({{"step", c.step}, {"pairs", pairs}, {"control", c.control}, {"gradient_error", c.gradient_error}, {"lost", c.lost}});
  }
  return j;
}

ProbedSeed from_json(const json& j) {
  ProbedSeed s;
  s.seed = j.at("seed"), s.loss = j.at("loss"), s.unigram = j.at("unigram");
  for (const json& c : j.at("checkpoints")) {
    Checkpoint& to = s.checkpoints.emplace_back();
    to.step = c.at("step"), to.control = c.at("control");
    for (const json& list : c.at("pairs")) {
      auto& of_activation = to.pairs.emplace_back(list.size() / 5);
      auto value = list.begin();
      for (ErrorPair& p : of_activation) to_and_fro([&](double& v) { v = *value++; }, p);
    }
    to.gradient_error = c.at("gradient_error").get<std::vector<std::vector<double>>>();
    for (std::size_t k = 0; k < to.lost.size(); ++k) to.lost[k] = c.at("lost").at(k).get<std::vector<double>>();
  }
  return s;
}

}  // namespace

const std::vector<std::string>& probe_activations() {
  static const std::vector<std::string> names = {"input of the last stage", "input of layer 2", "input of layer 2's qkv", "input of layer 2's attention projection",
                                                 "input of layer 2's mlp"};
  return names;
}

std::vector<ProbeMatrix> probe_matrices() {
  std::vector<ProbeMatrix> list;
  for (int layer = 0; layer < probe_boundary; ++layer)
    for (const char* linear : {"attention.qkv", "attention.projection", "mlp.expand", "mlp.projection"})
      list.push_back({"layer" + std::to_string(layer) + "." + linear + ".weight", layer});
  return list;
}

std::vector<ProbedSeed> probed_seeds(const JudgeContext& context, int seeds) {
  std::vector<ProbedSeed> list;
  for (int seed = 1; seed <= seeds; ++seed) {
    const Kept file = {"optimus_cc.boundary_probe", "seed" + std::to_string(seed) + "-steps" + std::to_string(context.steps()), 1,
                       "the boundary probe of seed " + std::to_string(seed) + " (a training in this process, minutes)", probed_by};
    kept_json(
        context, file, [&] { return to_json(probe(seed, context.steps())); }, [&](const json& j) { list.push_back(from_json(j)); });
  }
  return list;
}

Rule probe_rule() {
  const TrainConfig c = probe_config(1, 300);
  const auto text = [](std::int64_t n) { return std::to_string(n); };
  std::string looked_at;
  for (const int percent : probe_percent) looked_at += (looked_at.empty() ? "" : ", ") + std::to_string(percent);
  Rule rule;
  rule.settings = {{"pp", text(c.mesh.pp)},
                   {"layers", text(c.model.layers)},
                   {"hidden", text(c.model.hidden)},
                   {"heads", text(c.model.heads)},
                   {"seq", text(c.seq)},
                   {"micro-batch", text(c.micro_batch)},
                   {"global-batch", text(c.global_batch)},
                   {"comm-dtype", "f32"},
                   {"learning-rate", digits(c.trainer.schedule.peak)},
                   {"compress.pp_backward", c.compress.at(TrafficClass::pp_backward).codec},
                   {"steps", "300 (1000 in the profile full)"},
                   {"looked at", "the messages of the last boundary, after " + looked_at + " % of the steps"}};
  rule.quantities = {{"learned", "entropy of the text's single bytes less the training loss at the end, least of the seeds, nats per token"}};
  rule.clauses = {{Verdict::unstable, "learned <= 0"}};
  return rule;
}

Measure learned_measure(const std::vector<ProbedSeed>& seeds) {
  double least = no_number;
  for (const ProbedSeed& s : seeds) least = std::fmin(least, s.unigram - s.loss);
  return {"control: unigram entropy - training loss at the end, least of the seeds", least, no_number, no_number, no_number, "nats per token", "learned"};
}

}  // namespace thinwire::claims::optimus_cc
