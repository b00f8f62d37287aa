// The targets behind libFuzzer's interface (https://llvm.org/docs/LibFuzzer.html): THINWIRE_FUZZ_TARGET names the one that is fuzzed; `fuzz --list` lists them,
// `fuzz --write-seeds FOLDER` writes their seeds to FOLDER/TARGET. Built where THINWIRE_FUZZ is on (scripts/fuzz.sh).
// With GCC the engine is clang's all the same: its library is linked, and the coverage that GCC reports is counted here.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/fuzz/target.h"

#ifndef __clang__
// libFuzzer reads whatever counters lie in this section. A place of the program is a counter by its address; two places may share one.
constexpr int counter_bits = 17;
__attribute__((section("__libfuzzer_extra_counters"))) std::uint8_t place_counters[1 << counter_bits];

extern "C" __attribute__((no_sanitize_coverage)) void __sanitizer_cov_trace_pc() {
  const auto place = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  ++place_counters[place * 0x9e3779b97f4a7c15ull >> (64 - counter_bits)];
}
// Comparisons of floating-point numbers, which libFuzzer does not look at.
extern "C" __attribute__((no_sanitize_coverage)) void __sanitizer_cov_trace_cmpf(float, float) {}
extern "C" __attribute__((no_sanitize_coverage)) void __sanitizer_cov_trace_cmpd(double, double) {}
#endif

namespace thinwire::fuzz {
namespace {

const Target* chosen = nullptr;

void write_seeds(const std::string& folder) {
  for (const Target& target : targets()) {
    std::filesystem::create_directories(folder + "/" + target.name);
    int count = 0;
    for (const std::string& seed : target.seeds()) std::ofstream(folder + "/" + target.name + "/seed-" + std::to_string(count++), std::ios::binary) << seed;
  }
}

}  // namespace
}  // namespace thinwire::fuzz

using thinwire::fuzz::chosen;

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  for (int i = 1; i < *argc; ++i) {
    if (std::strcmp((*argv)[i], "--list") == 0) {
      for (const thinwire::fuzz::Target& target : thinwire::fuzz::targets()) std::printf("%-18s %s\n", target.name.c_str(), target.help.c_str());
      std::exit(0);
    }
    if (std::strcmp((*argv)[i], "--write-seeds") == 0 && i + 1 < *argc) {
      thinwire::fuzz::write_seeds((*argv)[i + 1]);
      std::exit(0);
    }
  }
  const char* const name = std::getenv("THINWIRE_FUZZ_TARGET");
  try {
    chosen = &thinwire::fuzz::target(name != nullptr ? name : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "THINWIRE_FUZZ_TARGET: %s\n", error.what());
    std::exit(2);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  try {
    thinwire::fuzz::read_input(*chosen, input);
  } catch (const thinwire::fuzz::Finding& finding) {
    std::fprintf(stderr, "%s: %s\n", chosen->name.c_str(), finding.what());
    std::abort();
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

/// Mutations of libFuzzer's own, behind the first line where the target says that it stays.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned int /*seed*/) {
  if (!chosen->first_line_stays) return LLVMFuzzerMutate(data, size, most);
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t head = input.size() - thinwire::fuzz::split_first_line(input).second.size();
  if (head == 0 || head >= most || data[head - 1] != '\n') return LLVMFuzzerMutate(data, size, most);
  return head + LLVMFuzzerMutate(data + head, size - head, most - head);
}
