// tensor_parallel.C15: gradients of token-sliced training against those of the whole model in one go. The stages of a pipeline run in this
// process by the schedule's own lists of instructions, so that all gradients are at hand; the executor of train_gpt is held against the
// single device by models.training.test_token_sliced_training.
#include <cstdio>
#include <deque>
#include <map>
#include <memory>

#include "core/random.h"
#include "experiments/claims/claim.h"
#include "models/gpt/gpt.h"
#include "models/parallel/schedule/schedule.h"
#include "models/parallel/schedule/token_slices.h"

namespace thinwire::claims {
namespace {

constexpr double bound = 1e-10;
constexpr int micro_batches = 2, sequences = 2, seq = 24;
using Gradients = std::map<std::string, std::vector<double>>;

GptConfig model_config() {
  GptConfig c;
  c.vocab = 31, c.hidden = 24, c.layers = 2, c.heads = 3, c.max_seq = seq, c.dropout = 0.1, c.seed = 15;
  return c;
}

std::vector<Batch> data() {
  const Random random(15, "token slices");
  std::vector<Batch> all;
  for (int m = 0; m < micro_batches; ++m) {
    Batch b(sequences, seq, m * sequences);
    for (int i = 0; i < sequences * seq; ++i) {
      const auto index = static_cast<std::uint64_t>(m * 1000 + i);
      b.ints("tokens").push_back(static_cast<std::int32_t>(random.below(2 * index, 31)));
      b.ints("targets").push_back(static_cast<std::int32_t>(random.below(2 * index + 1, 31)));
    }
    all.push_back(b);
  }
  return all;
}

void add_gradients(Gpt<double>& part, Gradients& all) {
  for (const Parameter<double>* p : part.parameters()) {
    std::vector<double>& sum = all[p->name()];
    sum.resize(static_cast<std::size_t>(p->elements()));
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += p->g()[i];  // the tied table has a copy on two stages
  }
}

Gradients whole(const std::vector<Batch>& batches) {
  Gpt<double> model(model_config());
  model.zero_gradients();
  Gpt<double>::Activations saved;
  for (const Batch& batch : batches) {
    model.forward(batch, 0, true, 1.0 / micro_batches, saved);
    model.backward(batch, saved);
  }
  Gradients all;
  add_gradients(model, all);
  return all;
}

/// K stages; four of two layers: embedding, a layer each, head.
class Stages {
 public:
  Stages(int count, const std::vector<int>& slices, const std::vector<Batch>& batches) : batches_(batches), schedule_(make_schedule("terapipe", count, micro_batches, 1, static_cast<int>(slices.size()))), slices_(slices) {
    for (int s = 0; s < count; ++s) {
      const ModelPart part = count == 2 ? ModelPart{s, 1, s == 0, s == 1} : ModelPart{s <= 1 ? 0 : s - 1, s == 0 || s == 3 ? 0 : 1, s == 0, s == 3};
      stages_.push_back(std::make_unique<Stage>(part));
      stages_.back()->model.zero_gradients();
    }
  }

  Gradients run() {
    std::vector<std::size_t> next(stages_.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t s = 0; s < stages_.size(); ++s)
        while (next[s] < schedule_.stage[s].size() && step(static_cast<int>(s), schedule_.stage[s][next[s]])) ++next[s], moved = true;
    }
    Gradients all;
    for (const auto& stage : stages_) add_gradients(stage->model, all);
    return all;
  }

 private:
  struct Stage {
    explicit Stage(const ModelPart& part) : model(model_config(), part) {}
    Gpt<double> model;
    std::map<std::pair<int, int>, Gpt<double>::Activations> live;  ///< by micro-batch and slice
    std::map<std::pair<int, int>, Tensor> gradient;
    std::map<int, PrefixCache> prefix;                             ///< by micro-batch
  };

  PassContext pass_of(const Instruction& i) const {
    PassContext pass{sequences, slices_[static_cast<std::size_t>(i.slice)]};
    pass.first_sample = batches_[static_cast<std::size_t>(i.micro)].first_sample;
    pass.micro = i.micro, pass.slice = i.slice;
    if (slices_.size() > 1) pass.length = seq;
    for (int n = 0; n < i.slice; ++n) pass.first_token += slices_[static_cast<std::size_t>(n)];
    return pass;
  }
  Batch tokens_of(const Instruction& i, const PassContext& pass) const {
    const Batch& all = batches_[static_cast<std::size_t>(i.micro)];
    Batch part(sequences, pass.seq, all.first_sample);
    for (int b = 0; b < sequences; ++b)
      for (std::int64_t t = 0; t < pass.seq; ++t) {
        const auto at = static_cast<std::size_t>(b * seq + pass.first_token + t);
        part.ints("tokens").push_back(all.ints("tokens")[at]);
        part.ints("targets").push_back(all.ints("targets")[at]);
      }
    return part;
  }

  /// False where a message is still missing.
  bool step(int number, const Instruction& i) {
    Stage& stage = *stages_[static_cast<std::size_t>(number)];
    const std::pair<int, int> item{i.micro, i.slice};
    const PassContext pass = pass_of(i);
    const auto arrives = [&](bool forward, Tensor& into) {
      auto& road = messages_[{i.peer, forward}];
      if (road.empty()) return false;
      into = std::move(road.front());
      road.pop_front();
      return true;
    };
    const auto leaves = [&](bool forward, const Tensor& tensor) {
      Tensor copy(tensor.shape(), DType::f64);
      std::copy_n(data_of<double>(tensor), tensor.elements(), copy.as<double>().data());
      messages_[{number, forward}].push_back(std::move(copy));
    };
    switch (i.kind) {
      case InstructionKind::receive_forward:
        return arrives(true, stage.live[item].input);
      case InstructionKind::receive_backward:
        return arrives(false, stage.gradient[item]);
      case InstructionKind::send_forward:
        leaves(true, stage.model.output(stage.live[item]));
        return true;
      case InstructionKind::send_backward:
        leaves(false, stage.gradient[item]);
        return true;
      case InstructionKind::forward:
        stage.live[item].prefix = &stage.prefix[i.micro];
        stage.model.forward(pass, tokens_of(i, pass), static_cast<double>(pass.seq) / seq / micro_batches, stage.live[item]);
        return true;
      case InstructionKind::backward:
        stage.model.backward(tokens_of(i, pass), stage.live[item], stage.gradient[item]);
        return true;
      default:  // of lowered schedules alone, which this is not
        return false;
    }
  }

  const std::vector<Batch>& batches_;
  const Schedule schedule_;
  const std::vector<int> slices_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::map<std::pair<int, bool>, std::deque<Tensor>> messages_;  ///< by sender and direction
};

double distance(const Gradients& a, const Gradients& b) {
  double difference = 0, norm = 0;
  for (const auto& [name, exact] : b)
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const double d = a.at(name)[i] - exact[i];
      difference += d * d, norm += exact[i] * exact[i];
    }
  return std::sqrt(difference / norm);
}

Finding measure(JudgeContext&) {
  const std::vector<Batch> batches = data();
  const Gradients reference = whole(batches);
  Finding found;
  Table table{"distance of the gradients", {"stages", "slices", "relative L2"}, {}};
  double worst = 0;
  for (const int stages : {2, 4})
    for (const char* cut : {"1", "2", "4", "24", "12,8,4", "1,22,1", "3,7,5,9"}) {
      const std::vector<int> slices = parse_slices(cut, seq);
      const double d = distance(Stages(stages, slices, batches).run(), reference);
      worst = std::max(worst, std::isnan(d) ? INFINITY : d);
      table.rows.push_back({"K = " + std::to_string(stages) + ", " + format_slices(slices), {static_cast<double>(stages), static_cast<double>(slices.size()), d}});
    }
  found.measures = {{"largest relative distance of all gradients", worst, no_number, no_number, bound, "relative L2", "worst"}};
  char text[160];
  std::snprintf(text, sizeof text, "%zu cuts over 2 and 4 stages, with dropout: at most %.1e from the unsliced model (1e-10 allowed)", table.rows.size(), worst);
  found.note = text;
  found.tables.push_back(std::move(table));
  return found;
}

const bool registered = register_claim({.id = "tensor_parallel.C15",
                                        .statement = "TeraPipe equals unsliced training.",
                                        .provenance = "read: the authors' code takes one synchronous optimizer step over all slices",
                                        .basis = Basis::exact,
                                        .rule = {.settings = {{"model", "2 layers, dropout 0.1, f64"}, {"stages", "2 and 4"}, {"slices", "one, equal and unequal ones, 7 cuts of 24 tokens"}},
                                                 .quantities = {{"worst", "relative L2 distance of all gradients from those of the whole model in one go, the largest of all cuts"}},
                                                 .constants = {{"bound", bound, "relative L2: rounding of float64"}},
                                                 .clauses = {{Verdict::pass, "worst <= bound"}},
                                                 .otherwise = Verdict::fail},
                                        .measure = measure});

}  // namespace
}  // namespace thinwire::claims
