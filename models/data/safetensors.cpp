#include <nlohmann/json.hpp>

#include "models/data/tensor_file_formats.h"

namespace thinwire::detail {
namespace {

using nlohmann::json;

[[noreturn]] void malformed(const std::string& path, const std::string& what) {
  throw CorruptData("safetensors file '" + path + "': " + what +
                    ". Save it again with safetensors.numpy.save_file.");
}

struct Entry {
  std::string name, kind;
  std::vector<std::int64_t> extents;
  std::uint64_t begin = 0, end = 0;  ///< bytes behind the header
};

struct Opened {
  std::vector<unsigned char> bytes;
  std::size_t data = 0;  ///< offset of the first data byte
  std::vector<Entry> entries;
};

Opened open_safetensors(const std::string& path) {
  Opened file{read_bytes(path), 0, {}};
  if (file.bytes.size() < 8)
    malformed(path, "it has " + std::to_string(file.bytes.size()) +
                        " bytes, fewer than the 8 of its header length");
  std::uint64_t length = 0;
  for (int i = 0; i < 8; ++i) length |= std::uint64_t{file.bytes[static_cast<std::size_t>(i)]} << (8 * i);
  if (length > file.bytes.size() - 8)
    malformed(path, "its header claims " + std::to_string(length) + " bytes but only " +
                        std::to_string(file.bytes.size() - 8) + " follow");
  file.data = 8 + static_cast<std::size_t>(length);
  const json header = json::parse(
      file.bytes.begin() + 8, file.bytes.begin() + static_cast<std::ptrdiff_t>(file.data), nullptr, false);
  if (!header.is_object()) malformed(path, "its header is no JSON object");
  const std::uint64_t available = file.bytes.size() - file.data;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") continue;
    const std::string place = "tensor '" + name + "'";
    try {
      Entry e{name, value.at("dtype").get<std::string>(), {}, 0, 0};
      for (const json& extent : value.at("shape")) {
        if (!extent.is_number_unsigned() || extent.get<std::uint64_t>() > (std::uint64_t{1} << 40))
          malformed(path, place + " has an impossible extent");
        e.extents.push_back(extent.get<std::int64_t>());
      }
      const json& offsets = value.at("data_offsets");
      if (offsets.size() != 2 || !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned())
        malformed(path, place + " has no two data offsets");
      e.begin = offsets[0].get<std::uint64_t>();
      e.end = offsets[1].get<std::uint64_t>();
      if (e.begin > e.end || e.end > available)
        malformed(path, place + " lies at bytes " + std::to_string(e.begin) + ".." + std::to_string(e.end) +
                            " of " + std::to_string(available));
      if (const std::int64_t size = element_size(e.kind); size > 0) {
        std::uint64_t bytes = static_cast<std::uint64_t>(size);
        for (std::int64_t extent : e.extents) {
          if (extent != 0 && bytes > available / static_cast<std::uint64_t>(extent))
            malformed(path, place + " is larger than the file");
          bytes *= static_cast<std::uint64_t>(extent);
        }
        if (bytes != e.end - e.begin)
          malformed(path, place + " has " + std::to_string(e.end - e.begin) +
                              " bytes where its shape needs " + std::to_string(bytes));
      }
      file.entries.push_back(std::move(e));
    } catch (const json::exception& error) {
      malformed(path, place + ": " + error.what());
    }
  }
  return file;
}

}  // namespace

std::vector<std::string> list_safetensors(const std::string& path) {
  std::vector<std::string> names;
  for (const Entry& e : open_safetensors(path).entries)
    if (element_size(e.kind) > 0) names.push_back(e.name);
  return names;
}

FileTensor load_safetensors(const std::string& path, const std::string& name) {
  const Opened file = open_safetensors(path);
  for (const Entry& e : file.entries)
    if (e.name == name) {
      FileTensor out{path + ":" + name, e.kind, Tensor(merged_shape(e.extents))};
      widen(e.kind, file.bytes.data() + file.data + e.begin, out.values.elements(),
            out.values.as<float>().data());
      return out;
    }
  throw UsageError("safetensors file '" + path + "' holds no tensor '" + name + "'.");
}

}  // namespace thinwire::detail
