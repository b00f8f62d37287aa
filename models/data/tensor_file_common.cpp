#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/half.h"
#include "models/data/tensor_file_formats.h"

namespace thinwire::detail {

Shape merged_shape(const std::vector<std::int64_t>& e) {
  std::size_t leading = e.size() > 4 ? e.size() - 3 : 0;
  std::int64_t first = 1;
  for (std::size_t i = 0; i < leading; ++i) first *= e[i];
  switch (e.size()) {
    case 0:
      return Shape{1};
    case 1:
      return Shape{e[0]};
    case 2:
      return Shape{e[0], e[1]};
    case 3:
      return Shape{e[0], e[1], e[2]};
    case 4:
      return Shape{e[0], e[1], e[2], e[3]};
    default:
      return Shape{first, e[leading], e[leading + 1], e[leading + 2]};
  }
}

std::uint64_t file_bytes(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    throw EnvironmentError("Input '" + path +
                           "' cannot be read: it does not exist or is no regular file. Check the path.");
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) throw EnvironmentError("Input '" + path + "' cannot be read. Check that you may read it.");
  return size;
}

std::vector<unsigned char> read_bytes(const std::string& path, std::uint64_t begin, std::uint64_t count) {
  std::ifstream file(path, std::ios::binary);
  std::vector<unsigned char> bytes(static_cast<std::size_t>(count));
  if (!file.seekg(static_cast<std::streamoff>(begin)) || !file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(count)))
    throw EnvironmentError("Input '" + path + "' cannot be read. Check that you may read it.");
  return bytes;
}

std::vector<unsigned char> read_bytes(const std::string& path) { return read_bytes(path, 0, file_bytes(path)); }

std::int64_t element_size(const std::string& kind) {
  if (kind == "F16" || kind == "BF16") return 2;
  if (kind == "F32") return 4;
  return kind == "F64" ? 8 : 0;
}

namespace {
template <typename Stored, typename Convert>
void widen_all(const unsigned char* from, std::int64_t count, float* to, const Convert& convert) {
  for (std::int64_t i = 0; i < count; ++i) {
    Stored value;
    std::memcpy(&value, from + i * static_cast<std::int64_t>(sizeof value),
                sizeof value);  // data may be unaligned
    to[i] = convert(value);
  }
}
}  // namespace

void widen(const std::string& kind, const unsigned char* from, std::int64_t count, float* to) {
  if (kind == "F32")
    widen_all<float>(from, count, to, [](float x) { return x; });
  else if (kind == "F64")
    widen_all<double>(from, count, to, [](double x) { return static_cast<float>(x); });
  else if (kind == "F16")
    widen_all<std::uint16_t>(from, count, to, [](std::uint16_t x) { return to_float(Half{x}); });
  else
    widen_all<std::uint16_t>(from, count, to, [](std::uint16_t x) { return to_float(BFloat16{x}); });
}

}  // namespace thinwire::detail
