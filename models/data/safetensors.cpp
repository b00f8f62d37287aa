#include "models/data/safetensors.h"

#include <algorithm>
#include <fstream>

#include <nlohmann/json.hpp>

#include "models/data/tensor_file_formats.h"

namespace thinwire {
namespace {

using nlohmann::json;

[[noreturn]] void malformed(const std::string& path, const std::string& what) {
  throw CorruptData("safetensors file '" + path + "': " + what +
                    ". Save it again with safetensors.numpy.save_file.");
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path) {
  const std::uint64_t in_all = detail::file_bytes(path);
  if (in_all < 8)
    malformed(path, "it has " + std::to_string(in_all) +
                        " bytes, fewer than the 8 of its header length");
  std::uint64_t length = 0;
  const std::vector<unsigned char> digits = detail::read_bytes(path, 0, 8);
  for (int i = 0; i < 8; ++i) length |= std::uint64_t{digits[static_cast<std::size_t>(i)]} << (8 * i);
  if (length > in_all - 8)
    malformed(path, "its header claims " + std::to_string(length) + " bytes but only " +
                        std::to_string(in_all - 8) + " follow");
  data_ = 8 + length;
  const std::vector<unsigned char> text = detail::read_bytes(path, 8, length);
  const json header = json::parse(text.begin(), text.end(), nullptr, false);
  if (!header.is_object()) malformed(path, "its header is no JSON object");
  const std::uint64_t available = in_all - data_;
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
      if (const std::int64_t size = detail::element_size(e.kind); size > 0) {
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
      entries_.push_back(std::move(e));
    } catch (const json::exception& error) {
      malformed(path, place + ": " + error.what());
    }
  }
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const Entry& e : entries_)
    if (detail::element_size(e.kind) > 0) names.push_back(e.name);
  return names;
}

bool SafetensorsFile::has(const std::string& name) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.name == name; });
}

const SafetensorsFile::Entry& SafetensorsFile::entry(const std::string& name) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.name == name; });
  if (found == entries_.end()) throw UsageError("safetensors file '" + path_ + "' holds no tensor '" + name + "'.");
  // Types that are not understood are left unchecked when the header is read: a file may hold them beside what is asked for.
  if (detail::element_size(found->kind) == 0)
    throw UsageError("safetensors file '" + path_ + "': tensor '" + name + "' holds " + found->kind + "; F16, BF16, F32 and F64 can be read.");
  return *found;
}

Shape SafetensorsFile::shape(const std::string& name) const { return detail::merged_shape(entry(name).extents); }

FileTensor SafetensorsFile::load(const std::string& name) const {
  const Entry& e = entry(name);
  FileTensor out{path_ + ":" + name, e.kind, Tensor(detail::merged_shape(e.extents))};
  const std::vector<unsigned char> bytes = detail::read_bytes(path_, data_ + e.begin, e.end - e.begin);
  detail::widen(e.kind, bytes.data(), out.values.elements(), out.values.as<float>().data());
  return out;
}

void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors) {
  json header = {{"__metadata__", {{"format", "pt"}}}};
  std::uint64_t offset = 0;
  for (const NamedTensor& t : tensors) {
    std::uint64_t elements = 1;
    for (const std::int64_t extent : t.extents) elements *= static_cast<std::uint64_t>(extent);
    TW_ASSERT(elements == t.values.size(), t.name);
    header[t.name] = {{"dtype", "F32"}, {"shape", t.extents}, {"data_offsets", {offset, offset + 4 * elements}}};
    offset += 4 * elements;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // data begin on 8 bytes, as the reference implementation has it
  std::ofstream file(path, std::ios::binary);
  const std::uint64_t length = text.size();
  for (int i = 0; i < 8; ++i) file.put(static_cast<char>(length >> (8 * i)));
  file << text;
  for (const NamedTensor& t : tensors) file.write(reinterpret_cast<const char*>(t.values.data()), static_cast<std::streamsize>(4 * t.values.size()));
  if (!file.flush()) throw EnvironmentError("'" + path + "' cannot be written. Check the folder and the space on its disk.");
}

namespace detail {

std::vector<std::string> list_safetensors(const std::string& path) { return SafetensorsFile(path).names(); }

FileTensor load_safetensors(const std::string& path, const std::string& name) { return SafetensorsFile(path).load(name); }

}  // namespace detail

}  // namespace thinwire
