// Data to train on. A dataset is seekable: which samples a step sees is a function of (seed, step, sample number) alone, so every way of sharing a
// global batch over replicas and micro-batches sees the same ones, and a run that is resumed goes on where it stood.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "models/data/batch.h"

namespace thinwire {

class Dataset {
 public:
  virtual ~Dataset() = default;
  /// Samples first_sample .. first_sample + count - 1 of the step's global batch, of `seq` positions each, with their weight.
  virtual Batch batch(std::uint64_t step, std::int64_t first_sample, std::int64_t count, std::int64_t seq) const = 0;
  /// Weight of samples 0 .. count - 1 of the step's global batch together.
  virtual double weight(std::uint64_t step, std::int64_t count, std::int64_t seq) const = 0;
  /// Samples of an epoch; 0: drawn without end.
  virtual std::int64_t samples() const = 0;
};

/// Number of the epoch that the step's first sample belongs to; 0 for data without epochs.
inline std::int64_t epoch_of(const Dataset& data, std::uint64_t step, std::int64_t global_batch) {
  return data.samples() == 0 ? 0 : static_cast<std::int64_t>(step) * global_batch / data.samples();
}

/// Validation data are drawn by this seed, whatever the run's own: losses of several seeds are means over one set.
inline constexpr std::uint64_t validation_seed = 1;

struct DataRequest {
  std::string options;  ///< of `NAME:options`, as the kind of data reads them
  std::string path;     ///< --text
  std::string vocabulary;  ///< --vocabulary
  std::uint64_t seed = 1;  ///< of the training data; validation goes by validation_seed
  std::int64_t global_batch = 1;  ///< samples of a step: what an epoch is counted by
};

/// Samples that a model is judged on as a whole, each once, by metrics of all its predictions together.
struct JudgedSet {
  std::string name;                  ///< "dev_matched"
  std::unique_ptr<Dataset> samples;  ///< in their order, one global batch a step; what fills up the last has no label
  std::vector<double> wanted;        ///< their labels: numbers of classes, or scores
  std::vector<std::string> metrics;  ///< of models/metrics
};

/// Both halves of some data, and who they are.
struct DataSource {
  std::unique_ptr<Dataset> training, validation;  ///< validation: null where there are sets to be judged on
  std::vector<JudgedSet> judged;                  ///< an evaluation goes over all of each
  std::int64_t vocabulary = 0;                    ///< ids of tokens are below it; 0: nobody says
  bool predicts_tokens = true;                    ///< losses are nats per token: e to the loss is a perplexity
  std::string hash;    ///< SHA-256: in every record and checkpoint
  std::string remark;  ///< for the report beside the validation loss; may be empty
  double unigram_entropy = std::numeric_limits<double>::quiet_NaN(), bigram_entropy = unigram_entropy;  ///< of the bytes of a text's training part, nats: in every record
};

/// A kind of data; its file registers it.
struct DataKind {
  std::string name, help;
  std::function<DataSource(const DataRequest&)> open;
  bool default_text = false;  ///< without a path it is of this machine's default text (Corpus::open)
};
struct RegisterData {
  explicit RegisterData(DataKind kind);
};
/// By name.
std::vector<DataKind> data_kinds();
/// Of `data`, NAME[:options]; false for a name that nothing has.
bool reads_default_text(const std::string& data);
/// `data`: NAME[:options]. UsageError listing what there is.
DataSource open_data(const std::string& data, const std::string& path, std::uint64_t seed, std::int64_t global_batch, const std::string& vocabulary = "");

}  // namespace thinwire
