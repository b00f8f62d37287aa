// labels: unit
// Section [products] of a machine file, and who may use it.
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/error.h"
#include "results/files/tuned_products.h"
#include "support/machine_variable.h"
#include "support/temporary_folder.h"

namespace thinwire::results {
namespace {

using testing::MachineVariable;
using testing::message_of;
using testing::TemporaryFolder;

TEST(TunedProducts, ComeBackAsTheyWereWritten) {
  const TemporaryFolder folder;
  const TunedProducts products{"openblas:kernels=SkylakeX,large_nn=onednn", "A \"quoted\" \\ processor\t, model 1", "OpenBLAS 0; oneDNN 0", 4};
  const auto back = read_tuned_products(folder.write("m.toml", to_toml(products) + "[link.shm]\ngbps = 4\n"));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->library, products.library);
  EXPECT_EQ(back->processor, products.processor);
  EXPECT_EQ(back->versions, products.versions);
  EXPECT_EQ(back->threads, products.threads);
  EXPECT_FALSE(read_tuned_products(folder.write("links.toml", "[link.shm]\ngbps = 4\n")));
}

TEST(TunedProducts, DamagedFilesAreRefusedByNameWithTheMend) {
  const TemporaryFolder folder;
  const std::string good = "library = \"openblas\"\nprocessor = \"p\"\n";
  for (const std::string& bad : {std::string("[products\n"), std::string("products = 1\n"), std::string("[products]\nlibrary = \"openblas\"\n"),
                                 std::string("[products]\nprocessor = \"p\"\n"), "[products]\n" + good + "speed = 1\n", "[products]\n" + good + "threads = 0\n",
                                 "[products]\n" + good + "threads = \"many\"\n", std::string("[products]\nlibrary = 1\nprocessor = \"p\"\n"), std::string("[products]\nlibrary = \"\"\n")}) {
    const std::string message = message_of<UsageError>([&] { (void)read_tuned_products(folder.write("bad.toml", bad)); });
    EXPECT_NE(message.find("bad.toml"), std::string::npos) << bad;
    EXPECT_NE(message.find("doctor --tune"), std::string::npos) << bad;
  }
  EXPECT_THROW((void)read_tuned_products(folder.path() + "/none.toml"), EnvironmentError);
}

TEST(TunedProducts, WithoutTheVariableThereIsNoChoice) {
  unsetenv("THINWIRE_MACHINE");
  EXPECT_EQ(tuned_library_of_this_machine(), "");
  const MachineVariable empty("");
  EXPECT_EQ(tuned_library_of_this_machine(), "");
}

TEST(TunedProducts, AreThisProcessorsOrRefused) {
  const TemporaryFolder folder;
  EXPECT_FALSE(processor_name().empty());
  const MachineVariable mine(folder.write("m.toml", to_toml({"onednn", processor_name(), "", 1})));
  EXPECT_EQ(tuned_library_of_this_machine(), "onednn");
  {
    const MachineVariable others(folder.write("others.toml", to_toml({"onednn", "another " + processor_name(), "", 1})));
    const std::string message = message_of<UsageError>([] { (void)tuned_library_of_this_machine(); });
    EXPECT_NE(message.find("another " + processor_name()), std::string::npos) << message;
    EXPECT_NE(message.find("doctor --tune"), std::string::npos) << message;
    EXPECT_NE(message.find("unset THINWIRE_MACHINE"), std::string::npos) << message;
  }
  const MachineVariable links(folder.write("links.toml", "[link.shm]\ngbps = 4\n"));
  EXPECT_NE(message_of<UsageError>([] { (void)tuned_library_of_this_machine(); }).find("no [products]"), std::string::npos);
}

}  // namespace
}  // namespace thinwire::results
