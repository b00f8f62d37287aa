// Shared by the hdf5*.cpp files: HDF5's types behind our handles, and its error stack as text.
#pragma once

#include <hdf5.h>

#include <string>
#include <type_traits>

#include "results/hdf5/hdf5.h"

namespace thinwire::h5::detail {

static_assert(std::is_same_v<hid_t, std::int64_t> || sizeof(hid_t) == sizeof(Id), "Id stands for hid_t");

/// Before anything else of HDF5: turns its error printing off (once per thread: its thread-safe build keeps
/// one stack per thread) and its clean-up at exit.
void quiet();

/// The innermost cause of the last failure, from HDF5's error stack. Every call of HDF5, closing a handle
/// included, clears that stack: no temporary handle may die between the failure and this.
std::string last_error();
/// Whether that cause is a full disk, a quota or a limit on the size of files.
bool is_full_disk(const std::string& cause);
/// Why writing failed: EnvironmentError for missing rights, else RuntimeFailure (disk full is said plainly).
[[noreturn]] void fail_write(const std::string& place, const std::string& doing);
[[noreturn]] void fail_read(const std::string& place, const std::string& doing);

inline Handle type_handle(hid_t id) {
  return Handle(id, [](Id i) -> int { return H5Tclose(i); });
}
inline Handle space_handle(hid_t id) {
  return Handle(id, [](Id i) -> int { return H5Sclose(i); });
}
inline Handle property_handle(hid_t id) {
  return Handle(id, [](Id i) -> int { return H5Pclose(i); });
}
inline Handle dataset_handle(hid_t id) {
  return Handle(id, [](Id i) -> int { return H5Dclose(i); });
}
inline Handle attribute_handle(hid_t id) {
  return Handle(id, [](Id i) -> int { return H5Aclose(i); });
}

/// The HDF5 type of an element type; file and memory agree (little-endian machines).
Handle type_of(DType dtype);
/// Fixed-length (NUL-padded) or variable-length (size 0) UTF-8 text.
Handle text_type(std::size_t size);
/// Creation properties with intermediate groups made on the way.
Handle link_properties();
/// Opens a dataset or throws CorruptData.
Handle open_dataset(const Group& group, Id id, const std::string& name);

}  // namespace thinwire::h5::detail
