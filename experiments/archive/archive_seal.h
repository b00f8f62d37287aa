// The last bytes of an archive file: a SHA-256 over all bytes before them, so that no bit of the file is without meaning.
// zstd's own check sum covers the content only. Its frame header has bits that change nothing, a back reference may point at another
// copy of the same bytes, and frames may be appended; all of that decompresses without complaint.
#pragma once

#include <string>

namespace thinwire::sweep {

/// Appends the seal: a skippable frame (RFC 8878, section 3.1.2), which `zstd -d` passes over. Throws RuntimeFailure (disk full).
void seal_archive(const std::string& path);

/// Reads the whole file. Throws CorruptData when it does not end in the seal of the bytes before it: any cut, any changed and any
/// added byte. EnvironmentError when it cannot be read.
void check_archive_seal(const std::string& path);

}  // namespace thinwire::sweep
