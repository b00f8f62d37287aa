// Encode and decode speed of codecs against memcpy: bench_codec --help
#include "bench/codec/codec_bench.h"
#include "core/process/main_guard.h"

int main(int argc, char** argv) {
  return thinwire::guarded_main(argc, argv, [](int n, char** words) { return thinwire::bench::run_bench(n, words, thinwire::bench::codec_bench()); });
}
