// A result folder as one file: FILE.tar.zst with the study, the machine, job scripts, logs, records, figures,
// the source, and the SHA-256 of each. What is in it: docs/archiving.md.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace thinwire::sweep {

/// Version of the archives' layout.
inline constexpr int archive_version = 2;  // 2: sealed (archive_seal.h)

struct ArchiveOptions {
  std::string out;            ///< result folder
  std::string study;          ///< empty: the one that was run in `out`
  std::string source;         ///< git checkout for the source of the records' commits; empty: that which this
                              ///< program was built from
  bool with_capture = false;  ///< also OUT/capture.h5 (gigabytes; its hash is recorded either way)
};

struct ArchiveReport {
  std::string path, sha256;
  std::size_t files = 0, cells = 0, missing = 0;
  std::uint64_t bytes = 0;           ///< of the archive
  std::vector<std::string> remarks;  ///< what is not in it, and why
};

/// Writes `path`; it appears complete and checked, or not at all, and is byte for byte the same when nothing
/// changed in the folder. Throws UsageError when the folder holds no study or several, CorruptData naming a
/// damaged record, EnvironmentError (no zstd, no right), RuntimeFailure (disk full).
ArchiveReport write_archive(const std::string& path, const ArchiveOptions& options);

/// Unpacks into `folder`, which must not exist: all members, or the `wanted` ones. Nothing is ever written
/// outside. Throws CorruptData when the archive is damaged, has a member with an unsafe name, or differs from
/// its inventory in any way; the message is "PATH: damaged: WHAT; fetch it anew" and nothing stays.
void unpack_archive(const std::string& path, const std::string& folder,
                    const std::function<bool(const std::string& name)>& wanted = {});

struct CheckReport {
  std::size_t files = 0, records = 0, planned = 0, missing = 0;
  std::vector<std::string> problems;  ///< empty: all is well
};
/// An archive: every member against the inventory, every record opened, the study expanded to the recorded
/// cells. A result folder: its records, its collected file, and its study when there is one. Throws like
/// unpack_archive; what it can go on from is a problem.
CheckReport check_archive(const std::string& path);
CheckReport check_result_folder(const std::string& out);

/// For `sweep run --from ARCHIVE`: puts the study into `out` (and the capture, and the machine profile as archived_machine.toml, where
/// the archive has them), unless it is there already, and returns its path. Throws UsageError when `out`
/// belongs to another study.
std::string study_from_archive(const std::string& archive, const std::string& out);

}  // namespace thinwire::sweep
