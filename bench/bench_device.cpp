// Encode and decode speed of codecs on a CUDA device against its copy rate: bench_device --help
#include "bench/device/device_bench.h"
#include "core/process/main_guard.h"

int main(int argc, char** argv) {
  return thinwire::guarded_main(argc, argv, [](int n, char** words) { return thinwire::bench::run_bench(n, words, thinwire::bench::device_bench()); });
}
