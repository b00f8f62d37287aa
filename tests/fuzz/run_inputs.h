// Inputs for a target, one after the other in a process of their own: one that kills it is told and kept like one that throws, and the rest are read all the same.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/fuzz/target.h"

namespace thinwire::fuzz {

struct Report {
  std::uint64_t read = 0, refused = 0;  ///< inputs that gave a result, and those that gave an error
  std::vector<std::string> findings;    ///< what went wrong, and where the input lies
};

/// Input number i, from 0; none: that was all. Asked in the other process.
using Inputs = std::function<std::optional<std::string>(std::uint64_t i)>;

/// Inputs that go wrong are written to `keep` (a folder, made when it is needed) as TARGET-i. After `most_findings` of them the rest is left. Not where a sanitizer watches memory:
/// a process may have 4 GiB, so that a length that nobody checked is a finding.
Report run_inputs(const Target& target, const Inputs& inputs, const std::string& keep, std::size_t most_findings = 5);

}  // namespace thinwire::fuzz
