// A thin RAII layer over HDF5's serial C interface. Errors are exceptions that name the file and the object;
// HDF5's own error printing is off. Row-major, little-endian, readable by plain h5py:
// f16 is stored as IEEE half (h5py: float16), bf16 as a 16-bit float with an 8-bit exponent (h5py: float32).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/device/tensor.h"
#include "results/hdf5/table.h"

namespace thinwire::h5 {

/// HDF5's hid_t, without its header.
using Id = std::int64_t;

/// Owns one HDF5 identifier.
class Handle {
 public:
  using Closer = int (*)(Id);
  Handle() = default;
  Handle(Id id, Closer closer) : id_(id), close_(closer) {}
  Handle(Handle&& other) noexcept : id_(other.id_), close_(other.close_) { other.id_ = -1; }
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Handle() { close(); }
  Id get() const { return id_; }
  /// Returns HDF5's status; further calls do nothing.
  int close() {
    const Id id = id_;
    id_ = -1;
    return id >= 0 ? close_(id) : 0;
  }

 private:
  Id id_ = -1;
  Closer close_ = nullptr;
};

/// What a dataset holds. `dtype` is empty for strings, compounds and element types thinwire does not know.
struct DatasetInfo {
  std::optional<DType> dtype;
  std::vector<std::int64_t> extents;
  bool is_table = false;
  bool is_text = false;
  std::int64_t elements() const;
};

/// How a dataset is stored. Compression needs chunks; chunk extents are chosen here.
struct Storage {
  int deflate = 0;          ///< 0 (contiguous) to 9; with the shuffle filter
  bool appendable = false;  ///< first axis may grow by append()
};

/// A group of a file: datasets, attributes, sub-groups. Paths are relative ("weights/qkv") and may be nested;
/// missing groups on the way are made. Reading what does not exist, has another type or is damaged throws
/// CorruptData naming file and object; failing writes throw RuntimeFailure (disk full, permissions).
class Group {
 public:
  bool has(const std::string& path) const;
  /// Names of the direct members, sorted.
  std::vector<std::string> names() const;
  bool is_group(const std::string& path) const;
  Group group(const std::string& path) const;
  Group create_group(const std::string& path) const;
  std::string file_name() const { return file_name_; }
  std::string path() const { return path_; }

  // Tensors. Replaces a dataset of the same name. Host views only.
  void write(const std::string& name, ConstTensorView values, Storage storage = {}) const;
  /// Adds rows (first axis) to an appendable dataset; makes it when missing.
  void append(const std::string& name, ConstTensorView rows, Storage storage = {.appendable = true}) const;
  DatasetInfo info(const std::string& name) const;
  /// The whole dataset in its stored type (at most Shape::max_rank axes).
  Tensor read(const std::string& name) const;
  /// Into a view of equal element count; HDF5 converts between numeric types.
  void read_into(const std::string& name, TensorView out) const;
  /// Rows [first, first + count) of the first axis, converted to the view's type.
  void read_rows(const std::string& name, std::int64_t first, std::int64_t count, TensorView out) const;
  template <typename T>
  void write_vector(const std::string& name, std::span<const T> values, Storage storage = {}) const {
    write(name, ConstTensorView(values.data(), Shape{static_cast<std::int64_t>(values.size())}), storage);
  }
  /// Any dataset, flattened and converted to T.
  template <typename T>
  std::vector<T> read_vector(const std::string& name) const {
    std::vector<T> values(static_cast<std::size_t>(info(name).elements()));
    read_into(name, TensorView(values.data(), Shape{static_cast<std::int64_t>(values.size())}));
    return values;
  }

  // Text: a 1-D dataset of variable-length UTF-8 strings.
  void write_strings(const std::string& name, std::span<const std::string> values) const;
  std::vector<std::string> read_strings(const std::string& name) const;

  // Tables: 1-D compounds of i64, f64 and fixed-length UTF-8 strings (numpy: int64, float64, S<n>).
  void write_table(const std::string& name, const results::Table& table,
                   Storage storage = {.deflate = 4}) const;
  results::Table read_table(const std::string& name) const;

  // Attributes of `object` ("" = this group). Setting replaces.
  void set_attribute(const std::string& object, const std::string& name, std::string_view value) const;
  void set_attribute(const std::string& object, const std::string& name, const char* value) const {
    set_attribute(object, name, std::string_view(value));
  }
  void set_attribute(const std::string& object, const std::string& name, std::int64_t value) const;
  void set_attribute(const std::string& object, const std::string& name, int value) const {
    set_attribute(object, name, std::int64_t{value});
  }
  void set_attribute(const std::string& object, const std::string& name, double value) const;
  bool has_attribute(const std::string& object, const std::string& name) const;
  std::string text_attribute(const std::string& object, const std::string& name) const;
  std::int64_t int_attribute(const std::string& object, const std::string& name) const;
  double float_attribute(const std::string& object, const std::string& name) const;

 protected:
  Group(std::shared_ptr<Handle> file, Handle group, std::string file_name, std::string path)
      : file_(std::move(file)),
        group_(std::make_shared<Handle>(std::move(group))),
        file_name_(std::move(file_name)),
        path_(std::move(path)) {}
  std::string place(const std::string& name) const;

  std::shared_ptr<Handle> file_;
  std::shared_ptr<Handle> group_;
  std::string file_name_;
  std::string path_;
};

/// An open file; itself its root group. The file is closed when the last Group of it is gone, or by close().
class File : public Group {
 public:
  /// A new file, replacing an old one. `head` bytes in front are left to the caller: 0, or 512 and its doubles.
  static File create(const std::string& path, std::size_t head = 0);
  /// Throws CorruptData when the file is no HDF5 file or truncated, EnvironmentError when it cannot be read.
  static File open_read(const std::string& path);
  static File open_write(const std::string& path);
  /// A file that lives in memory only, until its bytes are taken by image(): the caller writes them, so that
  /// a full disk meets one plain write and not the library's cache. 512 bytes (or a larger power of two) of
  /// anything may precede them in a file: HDF5 and h5py look for their own head there too.
  static File create_in_memory();
  std::vector<std::byte> image();
  /// Flushes and closes; throws RuntimeFailure when data did not reach the disk. Groups of it become invalid.
  void close();

 private:
  using Group::Group;
};

/// Version of the loaded HDF5 library, "1.10.8".
std::string library_version();

}  // namespace thinwire::h5
