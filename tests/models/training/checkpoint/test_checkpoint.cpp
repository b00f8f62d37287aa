// labels: mpi
// ranks: 1,2,4
// timeout: 600
// A checkpoint gives every element back on any layout, is there whole or not at all, and is refused with what differs. The trainer is
// a stand-in whose every element is a known function of its place in the global parameter.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "models/training/checkpoint/checkpoint.h"
#include "models/training/checkpoint/checkpoint_pieces.h"
#include "models/layers/embedding.h"
#include "results/hdf5/hdf5.h"
#include "tests/collectives/world.h"

namespace thinwire {
namespace {

using namespace testing;

constexpr std::int64_t vocab = 13, hidden = 8, layers = 4;

TrainConfig config_of(MeshShape mesh, bool sharded = false) {
  TrainConfig c;
  c.model.vocab = vocab, c.model.hidden = hidden, c.model.layers = layers, c.model.heads = 4, c.model.max_seq = 4;
  c.mesh = mesh;
  c.zero_stage = sharded ? 1 : 0;
  return c;
}

/// Holds shards like a trainer does; trains nothing.
class FakeTrainer final : public ParallelTrainer {
 public:
  enum Kind { weight, first, second, full };

  explicit FakeTrainer(const TrainConfig& c) : config_(c), mesh_(world(), c.mesh) {
    const MeshCoordinates at = mesh_.coordinates();
    const SplitGroup tensor{"tensor", c.mesh.tp, at.tp};
    const SplitGroups split = c.mesh.tp > 1 ? SplitGroups{tensor} : SplitGroups{};
    const bool ends = mesh_.first_stage() || mesh_.last_stage();
    if (ends) add(ParameterLayout("embedding.token", {padded_vocabulary(vocab, c.mesh.tp), hidden}, split, {}).padded_after(vocab), c.mesh.pp > 1 && !mesh_.first_stage(), false);
    if (mesh_.last_stage()) add(ParameterLayout("head.bias", {padded_vocabulary(vocab, c.mesh.tp)}, {}, split).padded_after(vocab));
    if (mesh_.first_stage()) add(ParameterLayout("embedding.position", {4, hidden}, {}, {}, split));
    for (std::int64_t l = at.pp * layers / c.mesh.pp; l < (at.pp + 1) * layers / c.mesh.pp; ++l) {
      const std::string name = "layer" + std::to_string(l) + ".";
      add(ParameterLayout(name + "column", {3 * hidden, hidden}, split, {}));
      add(ParameterLayout(name + "column.bias", {3 * hidden}, {}, split));
      add(ParameterLayout(name + "row", {hidden, 4 * hidden}, {}, split));
      add(ParameterLayout(name + "row.bias", {hidden}, {}, {}, split));
    }
  }

  /// Sets every element that exists to what `expected` says; padding stays 0.
  void fill() {
    each([](double& element, double expected, const std::string&) { element = expected; });
  }
  int wrong_elements() {
    int wrong = 0;
    each([&](double& element, double expected, const std::string& where) {
      if (element != expected && wrong++ < 3) ADD_FAILURE() << where << " is " << element << ", not " << expected;
    });
    return wrong;
  }

  std::vector<StateSlot> state_slots() override {
    std::vector<StateSlot> all;
    for (Held& h : held_) {
      const auto add = [&](const char* name, Kind kind, bool sharded) -> StateSlot& {
        StateSlot slot;
        slot.name = name, slot.layout = h.layout, slot.value = h.values[kind].view(), slot.copy = h.copy;
        if (sharded) slot.owner = Owner::sharded, slot.first_row = h.first_row;
        return all.emplace_back(slot);
      };
      add("weights", weight, false).sources = {h.sharded ? "weights" : "full_precision_weights", "weights"};
      if (h.sharded) add("full_precision_weights", full, true).sources = {"full_precision_weights", "weights"};
      add("first_moment", first, h.sharded);
      add("second_moment", second, h.sharded);
    }
    return all;
  }
  StepRecord step() override { return {}; }
  Evaluation evaluate() override { return {}; }
  std::int64_t steps_taken() const override { return steps; }
  void state_loaded(std::int64_t n, bool) override { steps = n; }
  std::map<std::string, double> update_numbers() const override { return {}; }
  void set_update_numbers(const std::map<std::string, double>&) override {}
  void set_compute(ComputeMode) override {}
  void drain_link(LinkDrain*) override {}
  ProcessMesh& mesh() override { return mesh_; }
  const std::string& corpus_hash() const override { return corpus; }
  std::map<std::string, std::vector<std::byte>> codec_state() const override { return codecs; }
  void load_codec_state(const std::map<std::string, std::vector<std::byte>>& state) override { codecs = state; }

  std::int64_t steps = 0;
  std::string corpus = std::string(64, 'a');
  std::map<std::string, std::vector<std::byte>> codecs;

 private:
  struct Held {
    ParameterLayout layout;
    std::int64_t first_row = 0;
    bool copy = false, sharded = false;
    Tensor values[4];
  };

  void add(ParameterLayout layout, bool copy = false, bool may_shard = true) {
    Held& h = held_.emplace_back();
    h.layout = std::move(layout), h.copy = copy;
    const Shape local = h.layout.local();
    Shape part = local;
    if (config_.zero_stage > 0 && may_shard && local.rank() == 2) {
      const RowBlock rows = shard_rows(local.rows(), mesh_.coordinates().dp, config_.mesh.dp);
      h.first_row = rows.first, h.sharded = true;
      part = {rows.count, local.columns()};
      h.values[full] = Tensor(part, DType::f64);
    }
    h.values[weight] = Tensor(local, DType::f64);
    for (const Kind moment : {first, second}) h.values[moment] = Tensor(part, DType::f64);
    for (Tensor& t : h.values) t.fill_zero();
  }

  template <typename Visit>
  void each(Visit&& visit) {
    for (Held& h : held_)
      for (int kind = 0; kind < 4; ++kind) {
        if (h.values[kind].elements() == 0) continue;
        const std::int64_t offset = kind == weight ? 0 : h.first_row * h.layout.columns().count;
        const auto values = h.values[kind].as<double>();
        for (std::size_t i = 0; i < values.size(); ++i) {
          const std::int64_t place = h.layout.global_index(static_cast<std::int64_t>(i) + offset);
          const bool padding = (h.layout.name() == "embedding.token" && place >= vocab * hidden) || (h.layout.name() == "head.bias" && place >= vocab);
          // Full-precision weights are what was sent, and a little more.
          const int base = kind == full ? static_cast<int>(weight) : kind;
          double expected = padding ? 0 : static_cast<double>(hash_name(h.layout.name()) % 1000) + static_cast<double>(place) * 1e-3 + base * 1e6;
          if (!padding && more_bits && (kind == full || (kind == weight && takes_truth && may_be_sharded(h)))) expected += 1e-9;
          visit(values[i], expected, h.layout.name() + " kind " + std::to_string(kind) + " element " + std::to_string(place));
        }
      }
  }
  static bool may_be_sharded(const Held& h) { return h.layout.name() != "embedding.token" && h.layout.global().rank() == 2; }

 public:
  bool more_bits = false;    ///< full-precision weights differ from what was sent
  bool takes_truth = false;  ///< and this trainer's weights are the full-precision ones

 private:
  TrainConfig config_;
  ProcessMesh mesh_;
  std::vector<Held> held_;
};

/// A folder of this test run, equal on all ranks; gone afterwards.
class Checkpoint : public ::testing::Test {
 protected:
  void SetUp() override {
    std::int64_t pid = getpid();
    world().broadcast(&pid, sizeof pid, 0)->wait();
    folder_ = std::filesystem::temp_directory_path().string() + "/thinwire-checkpoint-" + std::to_string(pid);
    path_ = folder_ + "/run.h5";
  }
  void TearDown() override {
    world().barrier();
    if (world().rank() == 0) std::filesystem::remove_all(folder_);
    world().barrier();
  }
  std::vector<MeshShape> factorings() const {
    std::vector<MeshShape> meshes;
    const int n = world().size();
    for (int tp = 1; tp <= n; ++tp)
      for (int pp = 1; tp * pp <= n; ++pp)
        if (n % (tp * pp) == 0) meshes.push_back({tp, pp, n / (tp * pp), "tp-pp-dp"});
    return meshes;
  }
  MeshShape tensor_mesh() const { return {world().size(), 1, 1, "tp-pp-dp"}; }
  TrainConfig f64(TrainConfig c) const {
    c.dtype = DType::f64;
    return c;
  }
  /// The message of the error that every rank must throw alike; empty when nothing is thrown.
  template <typename E, typename Body>
  std::string refusal(Body&& body) {
    std::string message;
    try {
      body();
    } catch (const E& e) {
      message = e.what();
    }
    char text[4096] = {};
    message.copy(text, sizeof text - 1);
    EXPECT_TRUE(equal_on_all_ranks(text, sizeof text)) << message;
    return message;
  }
  std::string folder_, path_;
};

void expect_words(const std::string& text, std::initializer_list<const char*> words) {
  for (const char* word : words) EXPECT_NE(text.find(word), std::string::npos) << "'" << word << "' is missing in: " << text;
}

TEST_F(Checkpoint, EveryElementComesBackOnEveryLayoutWhateverTheLayoutItWasSavedOn) {
  for (const MeshShape& from : factorings())
    for (const bool saved_sharded : {false, true}) {
      const TrainConfig c = f64(config_of(from, saved_sharded));
      FakeTrainer trainer(c);
      trainer.fill();
      trainer.steps = 17;
      save_checkpoint(world(), trainer, c, path_);
      for (const MeshShape& to : factorings())
        for (const bool loaded_sharded : {false, true}) {
          const TrainConfig other = f64(config_of(to, loaded_sharded));
          FakeTrainer fresh(other);
          const ResumeReport report = load_checkpoint(world(), fresh, other, path_);
          EXPECT_EQ(fresh.wrong_elements(), 0) << from.tp << from.pp << from.dp << saved_sharded << " to " << to.tp << to.pp << to.dp << loaded_sharded;
          EXPECT_EQ(fresh.steps_taken(), 17);
          EXPECT_EQ(report.steps, 17);
          EXPECT_EQ(report.codec_state, CodecStateUse::none);
        }
    }
}

TEST_F(Checkpoint, FullPrecisionWeightsOfAShardedOptimizerAreKeptApartAndAreTheTruthElsewhere) {
  const TrainConfig sharded = f64(config_of({1, 1, world().size(), "tp-pp-dp"}, true));
  FakeTrainer trainer(sharded), again(sharded);
  trainer.more_bits = again.more_bits = true;
  trainer.fill();
  save_checkpoint(world(), trainer, sharded, path_);
  load_checkpoint(world(), again, sharded, path_);
  EXPECT_EQ(again.wrong_elements(), 0);
  const TrainConfig whole = f64(config_of(tensor_mesh()));
  FakeTrainer other(whole);
  other.more_bits = other.takes_truth = true;
  load_checkpoint(world(), other, whole, path_);
  EXPECT_EQ(other.wrong_elements(), 0);
}

TEST_F(Checkpoint, TheFileHoldsEachParameterOnceAtItsOwnSize) {
  const TrainConfig c = f64(config_of(tensor_mesh()));
  FakeTrainer trainer(c);
  trainer.fill();
  save_checkpoint(world(), trainer, c, path_);
  const h5::File file = h5::File::open_read(path_);
  EXPECT_EQ(file.group("weights").names().size(), 3 + 4 * static_cast<std::size_t>(layers));
  EXPECT_EQ(file.info("weights/embedding.token").extents, (std::vector<std::int64_t>{vocab, hidden})) << "padding is no part of it";
  for (const char* kind : {"weights", "first_moment"}) EXPECT_EQ(file.info(std::string(kind) + "/head.bias").extents, std::vector<std::int64_t>{vocab}) << "nor of what is added to its products";
  EXPECT_EQ(file.info("second_moment/layer3.row").extents, (std::vector<std::int64_t>{hidden, 4 * hidden}));
  EXPECT_EQ(file.info("weights/layer0.column.bias").extents, (std::vector<std::int64_t>{3 * hidden}));
  EXPECT_FALSE(file.has("full_precision_weights"));
}

TEST_F(Checkpoint, AFileCutAnywhereOrChangedAnywhereIsRefused) {
  const TrainConfig c = f64(config_of(tensor_mesh()));
  FakeTrainer trainer(c), victim(c);
  trainer.fill();
  save_checkpoint(world(), trainer, c, path_);
  std::string bytes;
  {
    std::ifstream in(path_, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  const auto put = [&](const std::string& content) {
    world().barrier();
    if (world().rank() == 0) std::ofstream(path_, std::ios::binary | std::ios::trunc) << content;
    world().barrier();
  };
  const Random random(test_seed(), "damage");
  for (std::uint64_t i = 0; i < 40; ++i) {
    const std::size_t cut = i == 0 ? 0 : i == 1 ? 511 : i == 2 ? 512 : i == 3 ? bytes.size() - 1 : random.below(i, bytes.size());
    put(bytes.substr(0, cut));
    const std::string why = refusal<CorruptData>([&] { load_checkpoint(world(), victim, c, path_); });
    expect_words(why, {"run.h5", "ends after", "another checkpoint"});
    EXPECT_NE(why.find(std::to_string(cut) + " bytes"), std::string::npos) << why;
  }
  for (std::uint64_t i = 0; i < 40; ++i) {
    std::string changed = bytes;
    changed[512 + random.below(100 + i, bytes.size() - 512)] ^= static_cast<char>(1 << random.below(200 + i, 8));
    put(changed);
    expect_words(refusal<CorruptData>([&] { load_checkpoint(world(), victim, c, path_); }), {"run.h5", "check sum"});
  }
  put(bytes);
  load_checkpoint(world(), victim, c, path_);
  EXPECT_EQ(victim.wrong_elements(), 0);
}

TEST_F(Checkpoint, AnotherModelTextOrVersionIsRefusedWithBothValues) {
  const TrainConfig c = f64(config_of(tensor_mesh()));
  FakeTrainer trainer(c);
  trainer.fill();
  save_checkpoint(world(), trainer, c, path_);
  const auto why = [&](const auto& change) {
    TrainConfig other = c;
    change(other);
    FakeTrainer fresh(c);
    return refusal<UsageError>([&] { load_checkpoint(world(), fresh, other, path_); });
  };
  expect_words(why([](TrainConfig& o) { o.model.hidden = 16; }), {"hidden is 8 there, 16 here"});
  expect_words(why([](TrainConfig& o) { o.model.vocab = 14, o.model.layers = 5; }), {"vocab is 13 there, 14 here", "layers is 4 there, 5 here"});
  expect_words(why([](TrainConfig& o) { o.dtype = DType::f32; }), {"dtype is f64 there, f32 here"});
  expect_words(why([](TrainConfig& o) { o.model.seed = 9; }), {"seed is 1 there, 9 here"});
  {
    FakeTrainer fresh(c);
    fresh.corpus = std::string(64, 'b');
    expect_words(refusal<UsageError>([&] { load_checkpoint(world(), fresh, c, path_); }), {"text", "aaaa", "bbbb", "--text"});
  }
  // Of another version: the seal says so before anything else is read.
  world().barrier();
  if (world().rank() == 0) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    std::string head(64, '\0');
    file.read(head.data(), 64);
    file.seekp(static_cast<std::streamoff>(head.find("version=") + 8));
    file.put('7');
  }
  world().barrier();
  FakeTrainer fresh(c);
  expect_words(refusal<UsageError>([&] { load_checkpoint(world(), fresh, c, path_); }), {"version 7", "version 2"});
  EXPECT_NE(refusal<EnvironmentError>([&] { load_checkpoint(world(), fresh, c, folder_ + "/none.h5"); }), "");
}

TEST_F(Checkpoint, OtherSettingsOfTheOptimizerAreToldAndTaken) {
  TrainConfig c = f64(config_of(tensor_mesh()));
  FakeTrainer trainer(c);
  save_checkpoint(world(), trainer, c, path_);
  c.trainer.schedule.peak *= 2;
  c.steps *= 2;
  FakeTrainer fresh(c);
  const ResumeReport report = load_checkpoint(world(), fresh, c, path_);
  if (world().rank() == 0) {
    ASSERT_EQ(report.remarks.size(), 1u);
    expect_words(report.remarks[0], {"learning-rate is"});
  }
}

TEST_F(Checkpoint, CodecStateContinuesOnTheSameLayoutAndIsOtherwiseRefusedOrReset) {
  TrainConfig c = config_of(tensor_mesh());
  c.dtype = DType::f64;  // of the stand-in's tensors
  c.compress[TrafficClass::dp_gradient].codec = "topk:fraction=0.1+ef";
  FakeTrainer trainer(c);
  trainer.codecs = {{"dp_gradient", std::vector<std::byte>(1000, static_cast<std::byte>(world().rank() + 1))}, {"a/b", {}}};
  trainer.steps = 5;
  save_checkpoint(world(), trainer, c, path_);
  FakeTrainer again(c);
  EXPECT_EQ(load_checkpoint(world(), again, c, path_).codec_state, CodecStateUse::continued);
  EXPECT_EQ(again.codecs, trainer.codecs);

  const auto other_runs = [&] {
    std::vector<std::pair<TrainConfig, const char*>> runs(3, {c, ""});
    runs[0].first.compress[TrafficClass::dp_gradient].codec = "topk:fraction=0.2+ef", runs[0].second = "compress.dp_gradient is";
    runs[1].first.compress.clear(), runs[1].second = "none here";
    runs[2].first.mesh.order = "dp-tp-pp", runs[2].second = "order is tp-pp-dp there, dp-tp-pp here";
    return runs;
  }();
  for (auto [other, word] : other_runs) {
    FakeTrainer fresh(other);
    expect_words(refusal<UsageError>([&] { load_checkpoint(world(), fresh, other, path_); }), {word, "--codec-state reset"});
    EXPECT_EQ(fresh.steps_taken(), 0) << "a refused checkpoint leaves no trace";
    other.reset_codec_state = true;
    EXPECT_EQ(load_checkpoint(world(), fresh, other, path_).codec_state, CodecStateUse::reset);
    EXPECT_TRUE(fresh.codecs.empty());
    EXPECT_EQ(fresh.steps_taken(), 5);
  }
  // Asked for, it is done, also where nothing else is different.
  c.reset_codec_state = true;
  FakeTrainer same(c);
  EXPECT_EQ(load_checkpoint(world(), same, c, path_).codec_state, CodecStateUse::reset);
  EXPECT_TRUE(same.codecs.empty());
}

TEST_F(Checkpoint, AFailedSaveLeavesTheOldFileAndFailsOnAllRanks) {
  const TrainConfig c = f64(config_of(tensor_mesh()));
  FakeTrainer trainer(c), fresh(c);
  trainer.fill();
  save_checkpoint(world(), trainer, c, path_);
  // A folder in the place of the temporary file stands for any failure to write.
  if (world().rank() == 0) std::filesystem::create_directories(path_ + ".tmp/full");
  world().barrier();
  EXPECT_NE(refusal<Error>([&] { save_checkpoint(world(), trainer, c, path_); }), "");
  load_checkpoint(world(), fresh, c, path_);
  EXPECT_EQ(fresh.wrong_elements(), 0);
  world().barrier();
  // What a kill between writing and renaming leaves behind is no obstacle.
  if (world().rank() == 0) {
    std::filesystem::remove_all(path_ + ".tmp");
    std::ofstream(path_ + ".tmp") << "half of a file";
  }
  world().barrier();
  load_checkpoint(world(), fresh, c, path_);
  trainer.steps = 99;
  save_checkpoint(world(), trainer, c, path_);
  EXPECT_EQ(load_checkpoint(world(), fresh, c, path_).steps, 99);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".tmp"));
}

}  // namespace
}  // namespace thinwire
