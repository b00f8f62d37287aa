// The papers' own numbers (results/published/*.csv), each with where it is from.
#pragma once

#include <string>
#include <vector>

#include "experiments/claims/context.h"

namespace thinwire::claims {

struct PublishedNumber {
  std::string paper, artifact, row, column;  ///< "3-D (arXiv 2105.14450)", "weak scaling (Table 1)", "1-D, 64 GPUs", "forward time"
  double value = no_number;                  ///< NaN where the file holds words
  std::string unit;
  std::string provenance, source;            ///< read, second-hand or recollected
};

class Published {
 public:
  /// `file` of results/published, beside the programs or in the source tree. EnvironmentError where it is not there, CorruptData.
  static Published open(const JudgeContext& context, const std::string& file);
  explicit Published(std::vector<PublishedNumber> numbers) : numbers_(std::move(numbers)) {}

  /// The number of that place; `paper` is the beginning of its name. CorruptData where there is none. Any provenance: say it.
  const PublishedNumber& at(const std::string& paper, const std::string& artifact, const std::string& row, const std::string& column) const;
  /// Its value, only where it was read in the source: a recollected number is no paper's. CorruptData otherwise.
  double read(const std::string& paper, const std::string& artifact, const std::string& row, const std::string& column) const;
  /// Distinct rows of an artifact, in the file's order.
  std::vector<std::string> rows(const std::string& paper, const std::string& artifact) const;

 private:
  std::vector<PublishedNumber> numbers_;
};

}  // namespace thinwire::claims
