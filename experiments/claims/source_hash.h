// Hashes of the sources of claims, as they were when the program was built.
#pragma once

#include <map>
#include <set>
#include <source_location>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/sha256.h"

namespace thinwire::claims {

using SourceHashes = std::map<std::string, std::string>;

/// SHA-256 by path in the repository ("experiments/claims/optimus_cc/telescoping.cpp"), of headers, too.
const SourceHashes& source_hashes();

/// One over those of several files, in whatever order; std::logic_error for a path that is none.
inline std::string hash_of_sources(const std::vector<std::string>& files, const SourceHashes& hashes = source_hashes()) {
  std::string text;
  for (const std::string& file : std::set<std::string>(files.begin(), files.end())) {
    const auto found = hashes.find(file);
    if (found == hashes.end()) throw std::logic_error(file + " is no source of experiments/claims");
    text += found->second + "\n";
  }
  return sha256_hex(text);
}

/// The path in the repository of a file of experiments/claims.
inline std::string source_of(std::source_location where) {
  const std::string file = where.file_name();
  const std::size_t folder = file.rfind("experiments/claims/");
  return folder == std::string::npos ? file : file.substr(folder);
}

}  // namespace thinwire::claims
