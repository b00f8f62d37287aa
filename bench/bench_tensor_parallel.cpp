// bench_tensor_parallel: a linear, an MLP or a Transformer layer split over all ranks in 1, 2, 2.5 or 3 dimensions: time of the forward and
// the backward pass, bytes per rank and collective, peak memory, what codecs lose, rate of the products (docs/tensor-parallel.md). Every mode
// computes the same thing from the same weights and inputs, and is held against one rank doing it alone before it is timed.
#include "bench/harness/bench_program.h"
#include "bench/tensor_parallel/mode_run.h"
#include "bench/tensor_parallel/split_bench.h"
#include "core/process/main_guard.h"

using namespace thinwire;
using namespace thinwire::bench;

int main(int argc, char** argv) {
  return guarded_main(argc, argv, [](int count, char** values) {
    BenchProgram program;
    program.name = "bench_tensor_parallel";
    program.summary = "a linear, an MLP or a Transformer layer split over the ranks in 1, 2, 2.5 or 3 dimensions";
    program.options = {{"mode", "all", "1d | 2d | 2.5d:depth=D | 3d | 3d:sides=XxYxZ; all: every grid that the ranks make"},
                       {"unit", "layer", "linear (hidden -> 4 hidden) | mlp | layer (a Transformer block)"},
                       {"batch", "8", "sequences, over all ranks"},
                       {"memory-mib", "0", "each mode at its largest batch whose buffers fit so many MiB on every rank, in place of --batch; 0: --batch"},
                       {"seq", "64", "tokens of a sequence"},
                       {"hidden", "256", "hidden size"},
                       {"heads", "8", "attention heads (layer)"},
                       {"comm-dtype", "f32", "f32 | f16 | bf16: type of dense transfers"},
                       {"gather", "again", "3-D: again | again-literally | keep what the backward pass needs gathered"},
                       {"codec", "none", "of activations, gradients, weights and weight gradients in flight (NAME:key=value+WRAPPER, --list)"}};
    program.options.push_back({"protocol", "", "of coded sums over ranks: gather | two_shot | rounds | automatic; empty: two_shot where the codec allows it"});
    for (const TrafficClass traffic : coded_classes)
      program.options.push_back({"compress." + name_of(traffic), "", "codec of this class alone, instead of --codec"});
    program.run_group = [](BenchContext& context, std::span<const Cell> cells) {
      for (const Cell& cell : cells) {
        context.start(cell);
        guarded(context, cell, [&] { run_split_cell(context, cell); });
      }
    };
    return run_bench(count, values, program);
  });
}
