#include <unistd.h>

#include "results/hdf5/hdf5_internal.h"

namespace thinwire::h5::detail {

void quiet() {
  thread_local const bool done = [] {
    // Files are closed explicitly. HDF5's own clean-up at exit would try again to write what did not fit on a
    // full disk, and crash.
    H5dont_atexit();
    H5open();
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    return true;
  }();
  (void)done;
}

std::string last_error() {
  // Walked from the innermost call outwards: the first entry is the cause.
  std::string cause;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_UPWARD,
      [](unsigned n, const H5E_error2_t* entry, void* data) -> herr_t {
        if (n == 0 && entry->desc != nullptr) *static_cast<std::string*>(data) = entry->desc;
        return 0;
      },
      &cause);
  H5Eclear2(H5E_DEFAULT);
  return cause.empty() ? "no reason given by HDF5" : cause;
}

bool is_full_disk(const std::string& cause) {
  for (const char* sign : {"errno = 28,", "errno = 27,", "errno = 122,", "No space left"})  // ENOSPC, EFBIG, EDQUOT
    if (cause.find(sign) != std::string::npos) return true;
  return false;
}

void fail_write(const std::string& place, const std::string& doing) {
  const std::string cause = last_error();
  if (is_full_disk(cause))
    throw RuntimeFailure(place + ": cannot " + doing +
                         ": the disk is full; free some space or choose another folder");
  if (cause.find("errno = 13") != std::string::npos || cause.find("errno = 30") != std::string::npos ||
      cause.find("errno = 2,") != std::string::npos)
    throw EnvironmentError(place + ": cannot " + doing + ": no such folder or no right to write there (" +
                           cause + ")");
  throw RuntimeFailure(place + ": cannot " + doing + " (" + cause + ")");
}

void fail_read(const std::string& place, const std::string& doing) {
  throw CorruptData(place + ": cannot " + doing + " (" + last_error() +
                    "); the file may be damaged or of another kind");
}

}  // namespace thinwire::h5::detail
