#include "bench/codec/codec_parts_table.h"

#include <omp.h>

#include <vector>

#include "bench/harness/options.h"
#include "bench/harness/timing.h"
#include "core/clock.h"
#include "core/formulas.h"
#include "core/statistics.h"
#include "kernels/codec/codec_parts.h"
#include "kernels/codec/registry.h"
#include "kernels/memory_rate.h"

namespace thinwire::bench {

void print_codec_parts(std::FILE* to, const CellParameters& p, std::span<const std::string> codecs, ConstTensorView x) {
  std::fprintf(to, "\n# Parts of a message of %lld bytes, threads: %d; bound: bytes read and written at twice the rate of memcpy\n%-40s %-12s %12s %12s %10s\n", static_cast<long long>(x.bytes()),
               omp_get_max_threads(), "codec", "part", "(us)", "moved (B)", "of bound");
  for (const std::string& expression : codecs) {
    CodecStack stack = make_codec(expression, parse_form(p.text("form")));
    Tensor out(x.shape());
    auto* has_parts = stack.codec->as<Parts>();
    const std::vector<CodecPart> parts = has_parts ? has_parts->parts(x, out.view()) : std::vector<CodecPart>();
    if (parts.empty()) {
      std::fprintf(to, "%-40s names no parts of this message\n", expression.c_str());
      continue;
    }
    std::vector<std::vector<double>> times(parts.size());
    std::vector<double> memory;
    for (RepetitionLoop loop(stop_rule(p)); loop.next();) {
      double all = 0;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const Stopwatch watch;
        parts[i].run();
        const double us = static_cast<double>(watch.elapsed_ns()) * 1e-3;
        all += us;
        if (!loop.warming_up()) times[i].push_back(us);
      }
      loop.add(all);
      if (!loop.warming_up() && (memory.size() < 3 || loop.repetition() % 8 == 0)) memory.push_back(measure_memory_rate(x.bytes(), 0, 0.0).gb_per_s);
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const double us = median(times[i]);
      std::fprintf(to, "%-40s %-12s %12.1f %12.0f %10.3f\n", expression.c_str(), parts[i].name.c_str(), us, parts[i].read + parts[i].written,
                   bound_fraction(parts[i].read, parts[i].written, median(memory), us));
    }
  }
  std::fflush(to);
}

}  // namespace thinwire::bench
