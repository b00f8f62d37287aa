#include <algorithm>
#include <cctype>
#include <cstring>
#include <string_view>

#include "models/data/tensor_file_formats.h"

namespace thinwire::detail {
namespace {

[[noreturn]] void malformed(const std::string& path, const std::string& what) {
  throw CorruptData("npy file '" + path + "': " + what +
                    ". Write it again with numpy.save(file, array.astype('float32')).");
}

/// The text behind "'key':" in the header's dictionary, without leading blanks.
std::string_view value_of(std::string_view header, std::string_view key, const std::string& path) {
  for (const char quote : {'\'', '"'}) {
    const std::string quoted = quote + std::string(key) + quote;
    if (const std::size_t at = header.find(quoted); at != std::string_view::npos) {
      std::string_view rest = header.substr(at + quoted.size());
      while (!rest.empty() && (rest.front() == ' ' || rest.front() == ':')) rest.remove_prefix(1);
      return rest;
    }
  }
  malformed(path, "its header has no entry '" + std::string(key) + "'");
}

std::vector<std::int64_t> parse_shape(std::string_view text, const std::string& path) {
  const std::size_t close = text.find(')');
  if (text.empty() || text.front() != '(' || close == std::string_view::npos)
    malformed(path, "the shape in its header is no tuple");
  std::vector<std::int64_t> extents;
  std::int64_t number = 0;
  bool digits = false;
  for (char c : text.substr(1, close - 1)) {
    if (std::isdigit(static_cast<unsigned char>(c))) {
      number = number * 10 + (c - '0');
      digits = true;
      if (number > (std::int64_t{1} << 40)) malformed(path, "an extent in its header is absurdly large");
    } else if (c == ',') {
      if (!digits) malformed(path, "the shape in its header has an empty entry");
      extents.push_back(number);
      number = 0;
      digits = false;
    } else if (c != ' ') {
      malformed(path, std::string("the shape in its header holds '") + c + "'");
    }
  }
  if (digits) extents.push_back(number);
  return extents;
}

// NumPy has no bf16: ml_dtypes stores it as two opaque bytes (V2), others as the bit patterns of uint16, which only the user can tell from numbers.
std::string kind_of(std::string_view descr, bool as_bf16, const std::string& path) {
  const auto starts = [&](std::string_view text) { return descr.size() > 4 && descr.substr(1, 3) == text; };
  if (starts("<V2") || starts("|V2") || (as_bf16 && starts("<u2"))) return "BF16";
  if (as_bf16) malformed(path, "element type " + std::string(descr.substr(0, 6)) + " cannot be read as bf16 (<u2 and <V2 can)");
  if (starts("<u2")) malformed(path, "its elements are uint16; if they are the bits of bf16 numbers, name it as FILE.npy:bf16");
  if (starts("<f2")) return "F16";
  if (starts("<f4")) return "F32";
  if (starts("<f8")) return "F64";
  malformed(path, "element type " + std::string(descr.substr(0, 6)) + " is not one of <f2, <f4, <f8, <V2 (bf16)");
}

}  // namespace

FileTensor load_npy(const std::string& path, bool as_bf16) {
  const std::vector<unsigned char> bytes = read_bytes(path);
  const auto need = [&](std::size_t n, const char* what) {
    if (bytes.size() < n)
      malformed(path, std::string("it ends inside ") + what + " (" + std::to_string(bytes.size()) +
                          " bytes, at least " + std::to_string(n) + " needed)");
  };
  need(10, "the magic number");
  if (std::memcmp(bytes.data(), "\x93NUMPY", 6) != 0)
    malformed(path, "it does not start with the magic number of the npy format");
  const int major = bytes[6];
  if (major != 1 && major != 2) malformed(path, "format version " + std::to_string(major) + " is not 1 or 2");
  const std::size_t length_bytes = major == 1 ? 2 : 4, data_offset = 8 + length_bytes;
  need(data_offset, "the header length");
  std::size_t header_length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) header_length |= std::size_t{bytes[8 + i]} << (8 * i);
  need(data_offset + header_length, "the header");
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + data_offset, header_length);

  const std::string kind = kind_of(value_of(header, "descr", path), as_bf16, path);
  const std::vector<std::int64_t> extents = parse_shape(value_of(header, "shape", path), path);
  const bool fortran = value_of(header, "fortran_order", path).substr(0, 4) == "True";
  if (fortran && extents.size() > 2) malformed(path, "Fortran order is understood up to two axes only");
  const std::size_t available =
      (bytes.size() - data_offset - header_length) / static_cast<std::size_t>(element_size(kind));
  std::size_t count = 1;
  for (std::int64_t e : extents) {
    if (e != 0 && count > available / static_cast<std::size_t>(e) + 1)
      malformed(path, "the data end before the " + kind + " elements that its header promises");
    count *= static_cast<std::size_t>(e);
  }
  if (count > available)
    malformed(path, "the data end after " + std::to_string(available) + " of " + std::to_string(count) +
                        " elements");

  FileTensor out{path, kind, Tensor(merged_shape(extents))};
  std::vector<float> values(count);
  widen(kind, bytes.data() + data_offset + header_length, static_cast<std::int64_t>(count), values.data());
  const auto to = out.values.as<float>();
  if (count > 0 && fortran && extents.size() == 2) {  // a header may promise billions of rows of nothing
    const auto rows = static_cast<std::size_t>(extents[0]), columns = static_cast<std::size_t>(extents[1]);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < columns; ++c) to[r * columns + c] = values[c * rows + r];
  } else {
    std::copy(values.begin(), values.end(), to.begin());
  }
  return out;
}

}  // namespace thinwire::detail
