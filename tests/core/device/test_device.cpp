// labels: unit
// Buffers on the host, and the device module's ways of not being there. Kernels: tests/gpu.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/clock.h"
#include "core/device/device_abi.h"
#include "core/device/device_module.h"
#include "core/process/environment.h"
#include "core/device/tensor.h"

namespace thinwire {
namespace {

TEST(Buffer, GrowsOnlyAndThenStaysWhereItIs) {
  Buffer buffer;
  EXPECT_EQ(buffer.data(), nullptr);
  buffer.reserve(1000);
  const std::byte* first = buffer.data();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0u);
  for (std::size_t bytes : {1000u, 1u, 999u, 0u}) {
    buffer.reserve(bytes);
    EXPECT_EQ(buffer.data(), first) << "a steady state must not allocate";
  }
  EXPECT_EQ(buffer.capacity(), 1000u);
  buffer.reserve(5000);
  EXPECT_EQ(buffer.capacity(), 5000u);
}

TEST(Buffer, MovesLeaveTheOtherEmptyOrSwapped) {
  Buffer a(64), b;
  const std::byte* p = a.data();
  b = std::move(a);
  EXPECT_EQ(b.data(), p);
  Buffer c(std::move(b));
  EXPECT_EQ(c.data(), p);
  EXPECT_EQ(b.data(), nullptr);  // NOLINT(bugprone-use-after-move): the moved-from state is specified
  EXPECT_EQ(b.capacity(), 0u);
}

TEST(HostBackend, CopiesAndOrdersEventsOnTheMonotonicClock) {
  DeviceBackend& host = device_backend(DeviceKind::host);
  Stream stream = host.create_stream(0);
  const int from[3] = {1, 2, 3};
  int to[3] = {};
  Event before = host.create_event(0), after = host.create_event(0);
  const std::int64_t outside_before = now_ns();
  host.record(before, stream);
  const std::int64_t inside_before = now_ns();
  host.copy(to, from, sizeof from, stream);
  while (now_ns() < inside_before + 1000) {
  }
  const std::int64_t inside_after = now_ns();
  host.record(after, stream);
  const std::int64_t outside_after = now_ns();
  host.synchronize(stream);
  EXPECT_EQ(to[2], 3);
  EXPECT_TRUE(host.finished(after));
  // However long a loaded machine takes: the events lie between these readings of the clock.
  EXPECT_GE(host.elapsed_ms(before, after), static_cast<double>(inside_after - inside_before) * 1e-6);
  EXPECT_LE(host.elapsed_ms(before, after), static_cast<double>(outside_after - outside_before) * 1e-6);
  EXPECT_EQ(why_unavailable(DeviceKind::host), "");
}

#if !defined(__SANITIZE_ADDRESS__)  // its allocator ends the program instead of returning null
TEST(HostBackend, AnImpossibleAllocationSaysHowMuchWasAsked) {
  try {
    Buffer(std::size_t{1} << 60);
    FAIL();
  } catch (const RuntimeFailure& e) {
    EXPECT_NE(std::string(e.what()).find("1152921504606846976 bytes"), std::string::npos) << e.what();
  }
}
#endif

// Sets THINWIRE_CUDA_MODULE for one scope and returns why the module cannot be had ("" = it opened).
std::string reason_with_module(const std::string& path) {
  const auto old = Environment::cuda_module();
  setenv("THINWIRE_CUDA_MODULE", path.c_str(), 1);
  std::string reason;
  try {
    DeviceModule module;
  } catch (const EnvironmentError& e) {
    reason = e.what();
  }
  if (old) setenv("THINWIRE_CUDA_MODULE", old->c_str(), 1);
  else unsetenv("THINWIRE_CUDA_MODULE");
  return reason;
}

std::filesystem::path scratch_folder() {
  const auto folder = std::filesystem::temp_directory_path() / ("thinwire-device-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  return folder;
}

TEST(DeviceModule, AMissingFileIsReportedWithThePathAndTheRemedy) {
  const std::string reason = reason_with_module("/nonexistent/libthinwire_cuda.so");
  EXPECT_NE(reason.find("/nonexistent/libthinwire_cuda.so"), std::string::npos) << reason;
  EXPECT_NE(reason.find("THINWIRE_CUDA_MODULE"), std::string::npos) << reason;
}

TEST(DeviceModule, AFileThatIsNoLibraryIsRefused) {
  const auto path = scratch_folder() / "text.so";
  std::ofstream(path) << "not a library\n";
  EXPECT_NE(reason_with_module(path).find("does not load"), std::string::npos);
  std::filesystem::remove_all(path.parent_path());
}

TEST(DeviceModule, AModuleOfAnotherBuildIsRefusedBeforeAnyOtherCall) {
  if (std::system("c++ --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "no C++ compiler on the path to make a stale module";
  const auto folder = scratch_folder();
  std::ofstream(folder / "stale.cpp") << "extern \"C\" void* thinwire_cuda_find(const char*, const char** type) { return *type = \"FdvE\", (void*)type; }\n";
  const std::string command = "c++ -shared -fPIC -o " + (folder / "stale.so").string() + " " + (folder / "stale.cpp").string();
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  const std::string reason = reason_with_module(folder / "stale.so");
  EXPECT_NE(reason.find("`thinwire_cuda_device_count` as double ()"), std::string::npos) << reason;
  EXPECT_NE(reason.find("this program calls it as int (int*, char const**): rebuild"), std::string::npos) << reason;
  std::filesystem::remove_all(folder);
}

TEST(DeviceModule, TheBuiltModuleOpensAndNamesWhatIsMissing) {
  const std::string path = std::string(std::getenv("THINWIRE_BUILD_DIR") ? std::getenv("THINWIRE_BUILD_DIR") : ".") +
                           "/lib/libthinwire_cuda.so";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "the CUDA module was not built (" << path << ")";
  const std::string reason = reason_with_module(path);
  if (reason.empty()) return;  // a device is here; tests/gpu use it
  EXPECT_NE(reason.find("the CUDA module opens, but "), std::string::npos) << reason;
  EXPECT_TRUE(reason.find("driver") != std::string::npos || reason.find("no CUDA device") != std::string::npos) << reason;
}

TEST(DeviceModule, UnavailabilityIsTheSameSentenceEverywhere) {
  const std::string reason = why_unavailable(DeviceKind::cuda);
  if (reason.empty()) GTEST_SKIP() << "a CUDA device is available";
  try {
    Tensor tensor(Shape{4}, DType::f32, {DeviceKind::cuda, 0});
    FAIL() << "a tensor was made on a device that is not there";
  } catch (const EnvironmentError& e) {
    EXPECT_NE(std::string(e.what()).find(reason), std::string::npos) << e.what();
  }
  EXPECT_THROW(device_function<thinwire_cuda_copy_fn>("thinwire_cuda_copy"), EnvironmentError);
}

}  // namespace
}  // namespace thinwire
