// Runs that are saved and resumed, and what they end with: for the tests of checkpoints.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "models/data/batches.h"
#include "models/training/checkpoint/checkpoint.h"
#include "tests/collectives/world.h"
#include "tests/models/training/parity_cases.h"
#include "tests/support/temporary_folder.h"

namespace thinwire::testing {

inline std::string scratch_file() {
  std::int64_t pid = getpid();
  world().broadcast(&pid, sizeof pid, 0)->wait();
  return std::filesystem::temp_directory_path().string() + "/thinwire-resume-" + std::to_string(pid) + ".h5";
}

struct Outcome {
  std::vector<double> losses;
  std::vector<std::byte> state;  ///< of all slots of this rank
};

inline void take(ParallelTrainer& trainer, int steps, Outcome& to) {
  for (int s = 0; s < steps; ++s) to.losses.push_back(trainer.step().loss);
}
inline void finish(ParallelTrainer& trainer, Outcome& to) {
  to.losses.push_back(trainer.validate());
  for (const StateSlot& slot : trainer.state_slots()) {
    const TensorView view = slot.value;
    if (view.elements() == 0) continue;
    // Padding of the vocabulary trains nothing and is no part of a checkpoint.
    const std::int64_t rows = slot.layout.name() == "embedding.token" ? std::clamp<std::int64_t>(53 - slot.layout.rows().begin - slot.first_row, 0, view.shape().rows())
                                                                      : view.shape().rows();
    const std::size_t at = to.state.size(), bytes = static_cast<std::size_t>(rows * view.shape().columns()) * size_of(view.dtype());
    to.state.resize(at + bytes);
    const PlacementScope there(view.device());
    copy_and_wait(to.state.data() + at, view.data(), bytes);
  }
}

/// Empty when equal on all ranks; else what differs.
inline std::string difference(const Outcome& a, const Outcome& b) {
  std::string what;
  if (a.losses != b.losses) what = "losses";
  if (a.state != b.state) what += " weights or moments";
  float mine = what.empty() ? 0 : 1, any = 0;
  world().all_reduce(&mine, &any, 1, DType::f32, ReduceOp::max)->wait();
  return any > 0 && what.empty() ? "another rank" : what;
}

/// On windows of the text, drawn without end; of a few that come again where a codec remembers samples.
inline std::unique_ptr<ParallelTrainer> trainer_on(const TrainConfig& c, const Corpus& text) {
  const bool again = std::ranges::any_of(c.compress, [&](const auto& rule) { return compresses(rule.second.codec) && make_codec(rule.second.codec, c.form).codec->traits().by_sample; });
  const Epochs epochs = again ? Epochs{.windows = 2 * c.global_batch, .global_batch = c.global_batch} : Epochs{};
  return ParallelTrainer::make(world(), c, text_data(text, c.model.seed, epochs));
}

inline Outcome straight(const TrainConfig& c, const Corpus& text, int steps) {
  Outcome o;
  const auto trainer = trainer_on(c, text);
  take(*trainer, steps, o);
  finish(*trainer, o);
  return o;
}

/// A run of this configuration does not go on from the file: UsageError with each of these parts, and no step is taken for done.
inline void expect_not_resumed(const TrainConfig& c, const Corpus& text, const std::string& path, std::initializer_list<const char*> parts) {
  const auto trainer = ParallelTrainer::make(world(), c, text);
  const std::string why = message_of<UsageError>([&] { load_checkpoint(world(), *trainer, c, path); });
  for (const char* part : parts) EXPECT_NE(why.find(part), std::string::npos) << why;
  EXPECT_EQ(trainer->steps_taken(), 0);
}

/// `after` steps, and what validation and state are then, by a trainer of these settings that goes on from the file, which is removed.
inline void go_on(const TrainConfig& c, const Corpus& text, int after, const std::string& path, Outcome& to) {
  const auto trainer = trainer_on(c, text);
  load_checkpoint(world(), *trainer, c, path);
  take(*trainer, after, to);
  finish(*trainer, to);
  world().barrier();
  if (world().rank() == 0) std::filesystem::remove(path);
}

/// `before` steps, saved; `after` more by a trainer of the settings `resumed` that goes on from the file.
inline Outcome interrupted(const TrainConfig& c, const Corpus& text, int before, int after, const std::string& path, const TrainConfig& resumed) {
  Outcome o;
  {
    const auto trainer = trainer_on(c, text);
    take(*trainer, before, o);
    save_checkpoint(world(), *trainer, c, path);
  }
  go_on(resumed, text, after, path, o);
  return o;
}

/// The difference of `before + after` steps, which save after `before`, and of a trainer that goes on from there: a quarter fewer steps than a run that saves nothing and an interrupted one.
inline std::string difference_from_the_middle(const TrainConfig& c, const Corpus& text, int before, int after, const std::string& path) {
  Outcome whole, resumed;
  {
    const auto trainer = trainer_on(c, text);
    take(*trainer, before, whole);
    save_checkpoint(world(), *trainer, c, path);
    resumed.losses = whole.losses;
    take(*trainer, after, whole);
    finish(*trainer, whole);
  }
  go_on(c, text, after, path, resumed);
  return difference(whole, resumed);
}

}  // namespace thinwire::testing
