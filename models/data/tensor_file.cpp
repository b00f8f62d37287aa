#include "models/data/tensor_file.h"

#include <algorithm>
#include <filesystem>

#include "models/data/tensor_file_formats.h"
#include "results/hdf5/hdf5.h"

namespace thinwire {
namespace {

std::string ending_of(const std::string& path) {
  std::string ending = std::filesystem::path(path).extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending;
}

/// "FILE.h5:/a/b" -> {"FILE.h5", "/a/b"}: the colon counts only right behind a known ending.
std::pair<std::string, std::string> split_spec(const std::string& spec) {
  for (std::size_t colon = spec.rfind(':'); colon != std::string::npos && colon > 0;
       colon = spec.rfind(':', colon - 1)) {
    const std::string ending = ending_of(spec.substr(0, colon));
    if (ending == ".h5" || ending == ".hdf5" || ending == ".safetensors" || ending == ".npy")
      return {spec.substr(0, colon), spec.substr(colon + 1)};
  }
  return {spec, ""};
}

[[noreturn]] void unknown_ending(const std::string& path) {
  throw UsageError("Input '" + path +
                   "' has none of the endings .npy, .safetensors, .h5, .hdf5. Rename it, or convert the "
                   "tensor to one of these formats.");
}

/// Links may lead in a circle, and then without end: so many groups within one another, and in all, are no file of tensors.
constexpr int most_depth = 32, most_groups = 10'000;

void list_h5(const h5::Group& group, const std::string& prefix, int depth, int& groups, std::vector<std::string>& names) {
  if (depth > most_depth || ++groups > most_groups)
    throw CorruptData(group.file_name() + ": more than " + std::to_string(most_depth) + " groups lie within one another, or " + std::to_string(most_groups) +
                      " in all; do its links lead in a circle?");
  for (const std::string& name : group.names()) {
    if (group.is_group(name)) {
      list_h5(group.group(name), prefix + "/" + name, depth + 1, groups, names);
      continue;
    }
    const h5::DatasetInfo info = group.info(name);
    const bool floating = info.dtype && (*info.dtype == DType::f16 || *info.dtype == DType::bf16 ||
                                         *info.dtype == DType::f32 || *info.dtype == DType::f64);
    if (floating && !info.is_table && !info.is_text) names.push_back(prefix + "/" + name);
  }
}

FileTensor load_h5(const std::string& path, const std::string& name) {
  const h5::File file = h5::File::open_read(path);
  const h5::DatasetInfo info = file.info(name);
  FileTensor out{path + ":" + name, std::string(name_of(*info.dtype)),
                 Tensor(detail::merged_shape(info.extents))};
  file.read_into(name, out.values.view());
  return out;
}

}  // namespace

std::vector<std::string> list_tensor_file(const std::string& path) {
  const std::string ending = ending_of(path);
  if (ending == ".npy") return {""};
  if (ending == ".safetensors") return detail::list_safetensors(path);
  if (ending != ".h5" && ending != ".hdf5") unknown_ending(path);
  std::vector<std::string> names;
  int groups = 0;
  list_h5(h5::File::open_read(path), "", 0, groups, names);
  return names;
}

FileTensor load_tensor_file(const std::string& spec) {
  auto [path, name] = split_spec(spec);
  const std::string ending = ending_of(path);
  if (ending == ".npy") {
    if (!name.empty() && name != "bf16")
      throw UsageError("Input '" + spec + "': an npy file holds one tensor and no names. Leave ':" + name +
                       "' out (':bf16' reads uint16 as the bits of bf16 numbers).");
    return detail::load_npy(path, name == "bf16");
  }
  const std::vector<std::string> names = list_tensor_file(path);  // refuses unknown endings
  const bool h5 = ending != ".safetensors";
  if (h5 && !name.empty() && name.front() != '/') name = "/" + name;
  std::string listed;
  for (std::size_t i = 0; i < names.size() && i < 40; ++i) listed += "\n  " + names[i];
  if (names.size() > 40) listed += "\n  ... " + std::to_string(names.size() - 40) + " more";
  if (listed.empty()) listed = " none";
  if (name.empty()) {
    if (names.size() != 1)
      throw UsageError("Input '" + path + "' holds " + std::to_string(names.size()) +
                       " floating-point tensors; name one as " + path + ":NAME. It holds:" + listed);
    name = names.front();
  } else if (std::find(names.begin(), names.end(), name) == names.end()) {
    throw UsageError("Input '" + path + "' holds no floating-point tensor '" + name +
                     "'. It holds:" + listed);
  }
  return h5 ? load_h5(path, name) : detail::load_safetensors(path, name);
}

}  // namespace thinwire
