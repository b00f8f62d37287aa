// labels: mpi
// ranks: 1,2,4
// timeout: 120
// Every kind of model that declares a geometry is what it declares: units, parameters, sizes on each rank, part by part, split in one dimension
// and on grids. Its arithmetic is that of the closed forms.
#include "models/parallel/tensor/tensor_grid.h"
#include "models/training/parallel_trainer.h"
#include "tests/models/stage/geometry_oracle.h"
#include "tests/support/temporary_folder.h"

namespace thinwire {
namespace {

using namespace testing;

ModelConfig sizes() {
  ModelConfig c;
  c.vocab = 53, c.hidden = 16, c.layers = 4, c.heads = 4, c.max_seq = 12, c.seed = 3;
  return c;
}
constexpr PassShape pass{.batch = 4, .seq = 8};

struct NamedPart {
  const char* name;
  ModelPart part;
};
const std::vector<NamedPart> parts = {{"whole", {}}, {"first", {0, 1, true, false}}, {"middle", {1, 2, false, false}}, {"last", {3, 1, false, true}}};

TEST(Geometry, OfEveryKindIsThatOfTheStageThatIsMade) {
  std::string compared;
  for (const bool sequence_parallel : {false, true}) {
    TensorRanks ranks(sequence_parallel);
    ComputeClock clock;
    const StageRuntime<double> runtime{&ranks.get(), nullptr, &clock, false};
    const TensorSplit split = TensorSplit::one_d(world().size(), world().rank(), sequence_parallel);
    std::vector<std::string> models = {"gpt:head=own"};
    for (const ModelKind& kind : model_kinds())
      if (kind.geometry) models.push_back(kind.name);
    for (const std::string& model : models) {
      for (const NamedPart& one : parts) {
        const std::string what = model + ", " + one.name;
        std::unique_ptr<Stage<double>> stage;
        try {
          stage = make_stage<double>(model, sizes(), one.part, runtime);
        } catch (const UsageError&) {  // what cannot be made is not declared either
          EXPECT_THROW((void)model_geometry(model, sizes(), one.part, split), UsageError) << what;
          continue;
        }
        const Geometry declared = model_geometry(model, sizes(), one.part, split);
        expect_as_declared(*stage, declared, pass, what);
        // A sum that has no name gets no weights of a codec that is trained with the model.
        for (std::size_t u = 0; u < stage->units().size(); ++u) {
          if (!declared.units[u].recomputed || declared.units[u].tensor_sums == 0) continue;
          EXPECT_EQ(stage->units()[u].summed.size(), static_cast<std::size_t>(declared.units[u].tensor_sums)) << what << ", " << stage->units()[u].name;
        }
        compared += what + "; ";
      }
    }
  }
  EXPECT_NE(compared.find("gpt, whole; gpt, first; gpt, middle; gpt, last"), std::string::npos) << compared;
}

TEST(Geometry, OfAGptOnEveryGridIsThatOfTheStageThatIsMade) {
  for (const GridShape& shape : grids_of(world().size())) {
    if (shape.kind == GridKind::one_d) continue;
    ComputeClock clock;
    TensorGrid<double> grid(world(), shape, {}, clock);
    for (const NamedPart& one : parts) {
      const auto stage = make_stage<double>("gpt", sizes(), one.part, {nullptr, &grid, &clock, false});
      expect_as_declared(*stage, model_geometry("gpt", sizes(), one.part, {shape, world().rank()}), pass, shape.describe() + ", " + one.name);
      EXPECT_THROW((void)make_stage<double>("gpt:head=own", sizes(), one.part, {nullptr, &grid, &clock, false}), UsageError);
      EXPECT_THROW((void)model_geometry("gpt:head=own", sizes(), one.part, {shape, world().rank()}), UsageError);
    }
  }
}

TEST(Geometry, ArithmeticOfAGptIsTheClosedForm) {
  const ModelConfig c = sizes();
  const double b = 4, s = 8, h = 16, v = 53;
  for (const DeclaredUnit& unit : model_geometry("gpt", c).units) {
    const double expected = unit.layer < 0 ? 0 : unit.layer < c.layers ? 24 * b * s * h * h + 4 * b * s * s * h : 2 * b * s * h * v;
    EXPECT_EQ(unit.flops(pass), expected) << unit.name;
    EXPECT_EQ(unit.attention_flops(pass), unit.recomputed ? 4 * b * s * s * h : 0) << unit.name;
  }
  GptConfig own = c;
  own.own_head = true;
  EXPECT_EQ(own.parameters(), GptConfig(c).parameters() + 53 * 16);
  EXPECT_EQ(GptConfig(c).parameters(), (53 + 12) * 16 + 4 * (12 * 16 * 16 + 13 * 16) + 2 * 16);
  EXPECT_EQ(training_flops_per_token(model_geometry("gpt", c), 8), 6 * static_cast<double>(GptConfig(c).parameters() - 12 * 16) + 12.0 * 4 * 16 * 8);
}

// What a kind does not declare nobody makes up.
TEST(Geometry, AKindThatDeclaresNoneIsRefusedByName) {
  static const RegisterModel undeclared({"undeclared", "a test's", nullptr, nullptr});
  EXPECT_NE(message_of<UsageError>([] { (void)model_geometry("undeclared:x=1", sizes()); }).find("--model undeclared:x=1 declares no geometry"), std::string::npos);
  TrainConfig config;
  config.model_kind = "undeclared";
  EXPECT_NE(message_of<UsageError>([&] { (void)estimate_memory(config, {}); }).find("declares no geometry"), std::string::npos);
  EXPECT_THROW((void)model_geometry("gpt:x=1", sizes()), UsageError) << "options that the model refuses";
}

}  // namespace
}  // namespace thinwire
