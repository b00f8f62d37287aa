// labels: mpi
// ranks: 1,3
// The product library of a job: whose word counts, that ranks agree, and that two choices never share a record.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <set>

#include "bench/harness/product_choice.h"
#include "collectives/world.h"
#include "core/process/blas_kernels.h"
#include "kernels/nn/gemm/product_library.h"
#include "results/files/tuned_products.h"
#include "support/machine_variable.h"
#include "support/mpi_support.h"
#include "support/temporary_folder.h"

namespace thinwire::bench {
namespace {

using testing::MachineVariable;
using testing::message_of;
using testing::TemporaryFolder;

TEST(ProductChoice, TheCommandLineCountsBeforeTheMachineFileAndWithoutEitherThereIsNone) {
  unsetenv("THINWIRE_MACHINE");
  EXPECT_EQ(product_library_of_command(""), "");
  EXPECT_EQ(product_library_of_command("openblas:large_nn=onednn,kernels=Haswell"), "openblas:kernels=Haswell,large_nn=onednn");
  const TemporaryFolder folder;
  const MachineVariable machine(folder.write("m.toml", results::to_toml({"openblas:large_tn=onednn", results::processor_name(), "", 1})));
  EXPECT_EQ(product_library_of_command(""), "openblas:large_tn=onednn");
  EXPECT_EQ(product_library_of_command("onednn"), "onednn");
  EXPECT_THROW((void)product_library_of_command("mkl"), UsageError);
  const MachineVariable damaged(folder.write("damaged.toml", results::to_toml({"openblas:large=onednn", results::processor_name(), "", 1})));
  EXPECT_NE(message_of<UsageError>([] { (void)product_library_of_command(""); }).find("did you mean"), std::string::npos);
}

results::Parameters with(const std::string& library) {
  results::Parameters parameters;
  parameters.set("hidden", 64);
  if (!library.empty()) parameters.set(results::product_library_parameter, library);
  return parameters;
}

TEST(ProductChoice, EachChoiceIsAnIdentityOfItsOwnAndNoneIsTheOldOne) {
  std::set<std::string> ids;
  for (const char* library : {"", "openblas", "openblas:kernels=SkylakeX", "openblas:kernels=Haswell", "onednn", "openblas:large_nn=onednn"})
    ids.insert(results::cell_id("train_gpt", 2, "shm", with(library)));
  EXPECT_EQ(ids.size(), 6u);
  // As it was before there were choices: SHA-256 of {"link":"shm","parameters":{"hidden":64},"program":"train_gpt","ranks":2}.
  EXPECT_EQ(results::cell_id("train_gpt", 2, "shm", with("")), "43e03f35f2809a3603b91b2535f26df78285739a4138325bcc370dc16d34e0d0");
}

TEST(ProductChoice, TheCellsOfALaunchSayItAndMustAgree) {
  const TemporaryFolder folder;
  const MachineVariable ignored(folder.write("m.toml", results::to_toml({"onednn", results::processor_name(), "", 1})));
  Launch launch;
  EXPECT_EQ(product_library_of(launch), "");
  launch.cells = {{"a", with("")}, {"b", with("")}};
  EXPECT_EQ(product_library_of(launch), "") << "a launch file says all there is to say";
  launch.cells = {{"a", with("onednn")}, {"b", with("onednn")}};
  EXPECT_EQ(product_library_of(launch), "onednn");
  launch.cells.push_back({"c", with("")});
  EXPECT_THROW((void)product_library_of(launch), UsageError);
}

TEST(ProductChoice, RanksThatDifferAreNamedOnAllRanks) {
  Communicator& world = testing::world();
  EXPECT_NO_THROW(require_one_choice("", world));
  EXPECT_NO_THROW(require_one_choice("openblas:kernels=SkylakeX", world));
  if (world.size() < 2) GTEST_SKIP() << "SKIPPED: one rank agrees with itself";
  const std::string mine = world.rank() == 1 ? "onednn" : "";
  const std::string message = message_of<EnvironmentError>([&] { require_one_choice(mine, world); });
  EXPECT_NE(message.find("rank 1"), std::string::npos) << message;
  EXPECT_NE(message.find("THINWIRE_MACHINE"), std::string::npos) << message;
  EXPECT_FALSE(message_of<EnvironmentError>([&] { require_one_choice(world.rank() == 0 ? "onednn" : "", world); }).empty());
}

/// What a refusal of these kernels says, in a process whose OPENBLAS_CORETYPE is `variable`.
std::string refusal_of(const std::string& kernels, const std::string& variable) {
  const char* had = std::getenv("OPENBLAS_CORETYPE");
  const std::string kept = had == nullptr ? "" : had;
  setenv("OPENBLAS_CORETYPE", variable.c_str(), 1);
  char name[] = "test";
  char* argv[] = {name, nullptr};
  const std::string message = message_of<EnvironmentError>([&] { take_product_library("openblas:kernels=" + kernels, argv); });
  had == nullptr ? unsetenv("OPENBLAS_CORETYPE") : setenv("OPENBLAS_CORETYPE", kept.c_str(), 1);
  return message;
}

TEST(ProductChoice, KernelsThatTheLibraryDoesNotKnowAreRefused) {
  if (blas_kernels_in_use().empty()) GTEST_SKIP() << "SKIPPED: another BLAS than OpenBLAS";
  // As in the process that was started anew with them and got others all the same.
  const std::string message = refusal_of("Z80", "Z80");
  EXPECT_NE(message.find("Z80"), std::string::npos) << message;
  EXPECT_NE(message.find("doctor --tune"), std::string::npos) << message;
  EXPECT_EQ(nn::product_library(), nn::ProductLibrary()) << "a refused choice was taken";
}

TEST(ProductChoice, KernelsThatTheProcessorCannotRunAreRefusedBeforeTheLibraryTakesThem) {
  if (blas_kernels_in_use().empty()) GTEST_SKIP() << "SKIPPED: another BLAS than OpenBLAS";
  if (features_of_this_processor().avx512_fp16) GTEST_SKIP() << "SKIPPED: this processor runs all kernels that are known";
  const std::string message = refusal_of("SapphireRapids", "");  // not started anew, which would end this process
  EXPECT_NE(message.find("SapphireRapids"), std::string::npos) << message;
  EXPECT_EQ(nn::product_library(), nn::ProductLibrary()) << "a refused choice was taken";
}

}  // namespace
}  // namespace thinwire::bench
