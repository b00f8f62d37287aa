// Captured traffic: the index of a capture and a tensor of each of its entries.
#include "core/error.h"
#include "models/capture/capture_reader.h"
#include "results/row.h"
#include "tests/fuzz/target.h"
#include "tests/fuzz/targets/hdf5_maker.h"

namespace thinwire::fuzz {
namespace {

void read(std::string_view input) {
  static const std::string path = as_file("capture.h5", "");
  make_hdf5(path, input);
  const CaptureReader reader(path);
  for (const CaptureTensor& tensor : reader.tensors()) {
    if (tensor.shape.elements() > 1 << 20) continue;
    if (tensor.steps.size() != tensor.losses.size()) throw Finding("another number of losses than of steps");
    if (!tensor.steps.empty()) reader.load(tensor, 0, 0);
  }
}

std::vector<std::string> seeds() {
  std::string text = "int . schema_version " + std::to_string(results::schema_version) + "\nint . capture_version " + std::to_string(capture_schema_version) + "\ntext . corpus ab\n";
  for (const char* name : {"seed", "hidden", "layers", "heads", "vocab"}) text += "int . " + std::string(name) + " 8\n";
  for (const char* name : {"loss_scale", "unigram_entropy", "bigram_entropy", "loss_early", "loss_late"}) text += "real . " + std::string(name) + " 1.5\n";
  text += "table captured_steps 1 step:i64=3 loss:f64=2.5\n";
  return {text +
          "table tensors 1 traffic:s12=pp_forward tensor:s12=boundary1 point:s6=early batch:i64=2 seq:i64=3 part_kind:s12=micro_batch parts:i64=1 rank:i64=3 extent0:i64=2 extent1:i64=3 "
          "extent2:i64=4 scale:f64=1 first_step:i64=3 steps:i64=1\n"
          "data traffic/pp_forward/boundary1/early/b2_s3/step3/micro0 f16 2x3x4\n"};
}

const bool registered = register_target({"capture", "capture.h5 of the benches", 3'000, read, seeds});

}  // namespace
}  // namespace thinwire::fuzz
