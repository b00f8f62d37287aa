// labels: mpi
// ranks: 2
// What a cell of a sweep saved when it was asked to end early: it goes on from there, but not by another build of its program.
#include <gtest/gtest.h>

#include "bench/training/train_resume.h"
#include "models/data/corpus.h"
#include "results/files/files.h"
#include "tests/models/training/parity_run.h"
#include "tests/support/temporary_folder.h"

namespace thinwire::bench {
namespace {

using testing::world;

TEST(TrainResume, GoesOnUnlessAnotherBuildSaved) {
  const Corpus text = Corpus::from_text(testing::parity_text(), "resume");
  TrainConfig config;
  config.mesh = {1, 2, 1};
  config.model.layers = 2, config.model.hidden = 16, config.model.heads = 2;
  config.seq = 8, config.micro_batch = 1, config.global_batch = 2, config.steps = 4;
  config.check();
  const testing::TemporaryFolder of_first;  // rank 0 writes steps and checkpoint
  const auto begun = ParallelTrainer::make(world(), config, text);
  TrainResume saved(of_first.path(), "cell");
  begun->step(), begun->step();
  saved.save(world(), *begun, config, {}, {}, {});
  const auto loaded = [&](std::int64_t& steps) {
    const auto trainer = ParallelTrainer::make(world(), config, text);
    TrainResume resume(of_first.path(), "cell");
    std::map<std::int64_t, double> validation;
    TrainResume::Metrics metrics;
    const std::string told = resume.load(world(), *trainer, config, validation, metrics);
    steps = trainer->steps_taken();
    return told;
  };
  std::int64_t steps = -1;
  EXPECT_NE(loaded(steps).find("goes on after step 2"), std::string::npos);
  EXPECT_EQ(steps, 2);
  for (const bool older : {false, true}) {  // an older program did not say which build saved
    if (world().rank() == 0) {
      const std::string path = of_first.path() + "/cell.steps.json";
      std::string json = results::read_file(path);
      const std::size_t at = json.find("\"code\":\"");
      ASSERT_NE(at, std::string::npos) << json;
      older ? json.replace(at, 8, "\"kode\":\"") : json.replace(at + 8, 4, json.compare(at + 8, 4, "0000") == 0 ? "1111" : "0000");
      results::write_file_atomically(path, json);
    }
    world().barrier();
    EXPECT_NE(loaded(steps).find("saved by another build"), std::string::npos);
    EXPECT_EQ(steps, 0) << "the cell starts anew";
    world().barrier();
  }
}

}  // namespace
}  // namespace thinwire::bench
