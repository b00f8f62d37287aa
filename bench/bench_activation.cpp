// bench_activation: the activation-compression grid of Bian et al. on captured traffic: tensor-parallel partial
// sums (all-reduce inside each stage) and stage boundaries (activations forward, gradients back).
#include "bench/collective/activation_group.h"
#include "core/process/main_guard.h"

using namespace thinwire;
using namespace thinwire::bench;

int main(int argc, char** argv) {
  return guarded_main(argc, argv, [](int count, char** values) {
    BenchProgram program;
    program.name = "bench_activation";
    program.summary = "codecs on tensor- and pipeline-parallel activations against the dense baseline";
    program.options = {{"tp", "2", "tensor-parallel degree"},
                       {"pp", "2", "pipeline stages; tp x pp ranks are needed"},
                       {"batch", "8", "sequences per micro-batch"},
                       {"seq", "128", "tokens per sequence"},
                       {"hidden", "512", "width; captured traffic must have it"},
                       {"method", "", "short name for the record; default the codec's name"},
                       {"codec", "none", "codec expression, see --list"},
                       {"form", "fair", "fair | released"},
                       {"protocol", "automatic", "automatic | rounds | gather | two_shot, for tp_forward"},
                       {"comm-dtype", "f16", "type of the dense baseline: f16 | bf16 | f32"},
                       {"serial", "2", "repetitions with one rank at a time, when ranks outnumber cores"}};
    for (const auto& more : {input_options(), counted_repetitions_options()}) program.options.insert(program.options.end(), more.begin(), more.end());
    program.group_key = grouped_by({"tp", "pp", "batch", "seq", "hidden", "comm-dtype", "repetitions", "capture", "input", "generator"});
    program.run_group = [](BenchContext& context, std::span<const Cell> cells) { ActivationGroup(context, cells.front().parameters).run(cells); };
    return run_bench(count, values, program);
  });
}
