// Streams through the program `zstd` (package zstd of the distribution).
#pragma once

#include <functional>
#include <string>

#include "results/files/tar.h"

namespace thinwire::sweep {

/// What `fill` gives to its sink becomes the compressed file `path`, written in place: publish it afterwards.
/// Throws EnvironmentError when there is no zstd, RuntimeFailure when it fails (disk full), with its message.
void compress_to(const std::string& path, const std::function<void(const results::ByteSink&)>& fill);

/// `use` reads the decompressed content. Throws CorruptData with zstd's message when the file is cut or
/// changed (also when `use` stops at such a place), EnvironmentError when there is no zstd or no such file.
void decompress(const std::string& path, const std::function<void(const results::ByteSource&)>& use);

}  // namespace thinwire::sweep
