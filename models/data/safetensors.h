// Files of Hugging Face's safetensors: 8-byte little-endian header length, JSON {name: {dtype, shape, data_offsets}}, data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/data/tensor_file.h"

namespace thinwire {

/// A file whose header is read and checked once; tensors are read as they are asked for. Errors as of load_tensor_file.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);
  /// Of the floating-point tensors.
  std::vector<std::string> names() const;
  bool has(const std::string& name) const;
  /// Of a tensor that is there.
  Shape shape(const std::string& name) const;
  FileTensor load(const std::string& name) const;
  const std::string& path() const { return path_; }

 private:
  struct Entry {
    std::string name, kind;
    std::vector<std::int64_t> extents;
    std::uint64_t begin = 0, end = 0;  ///< bytes behind the header
  };
  const Entry& entry(const std::string& name) const;
  std::string path_;
  std::uint64_t data_ = 0;  ///< offset of the first data byte
  std::vector<Entry> entries_;
};

struct NamedTensor {
  std::string name;
  std::vector<std::int64_t> extents;
  std::vector<float> values;
};
/// As F32, in this order. EnvironmentError when it cannot be written.
void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors);

}  // namespace thinwire
