// What a capture was made from, as one line: a capture of equal configuration need not be made again.
#pragma once

#include <string>

#include "models/capture/capture_run.h"

namespace thinwire {

/// Every option that changes what is captured, and the hash of the text; not the file's place. Equal lines mean
/// equal captures of one version of the code.
std::string capture_configuration(const CaptureRunOptions& options, const std::string& corpus_hash);

/// Whether `path` is a complete, readable capture of this configuration. False for a missing or damaged file.
bool holds_capture(const std::string& path, const std::string& configuration);

}  // namespace thinwire
