#include "models/capture/capture_configuration.h"

#include <filesystem>
#include <sstream>

#include "core/error.h"
#include "models/capture/capture_reader.h"
#include "results/hdf5/hdf5.h"

namespace thinwire {

std::string capture_configuration(const CaptureRunOptions& options, const std::string& corpus_hash) {
  std::ostringstream line;
  line.precision(17);
  const GptConfig& m = options.model;
  line << "schema=" << capture_schema_version << " vocab=" << m.vocab << " hidden=" << m.hidden << " layers=" << m.layers
       << " heads=" << m.heads << " max_seq=" << m.max_seq << " dropout=" << m.dropout << " seed=" << m.seed
       << " compute=" << (m.compute == nn::ComputeType::f32 ? "f32" : "bf16");
  const TrainerOptions& t = options.trainer;
  line << " adamw=" << t.adamw.beta1 << ',' << t.adamw.beta2 << ',' << t.adamw.epsilon << ',' << t.adamw.weight_decay
       << " schedule=" << t.schedule.peak << ',' << t.schedule.min_lr << ',' << t.schedule.warmup << " max_norm=" << t.max_norm;
  const CapturePlanOptions& p = options.plan;
  line << " shapes=";
  for (const CaptureShape& s : p.shapes) line << s.batch << 'x' << s.seq << ';';
  line << " tensor_ranks=";
  for (int ranks : p.tensor_ranks) line << ranks << ';';
  line << " base_steps=" << p.base_steps << " other_steps=" << p.other_steps << " replicas=" << p.replicas
       << " pipeline_micro=" << p.pipeline_micro << " other_micro=" << p.other_micro << " loss_scale=" << p.loss_scale << " max_mib=" << p.max_mib
       << " early_step=" << options.early_step << " late_step=" << options.late_step
       << " tokens_per_step=" << options.tokens_per_step << " corpus=" << corpus_hash;
  return line.str();
}

bool holds_capture(const std::string& path, const std::string& configuration) {
  if (!std::filesystem::exists(path)) return false;
  try {
    const CaptureReader complete(path);
    const h5::File file = h5::File::open_read(path);
    return file.has_attribute("", "configuration") && file.text_attribute("", "configuration") == configuration;
  } catch (const Error&) {  // damaged, or of another version: made anew
    return false;
  }
}

}  // namespace thinwire
