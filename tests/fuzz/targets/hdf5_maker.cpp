#include "tests/fuzz/targets/hdf5_maker.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

#include "core/error.h"
#include "results/hdf5/hdf5_internal.h"

namespace thinwire::fuzz {
namespace {

using namespace h5::detail;
using h5::Handle;

constexpr std::size_t most_bytes = 1 << 20;  ///< written to one dataset; one that claims more is left unwritten

Handle number_type(const std::string& name) {
  for (const DType t : {DType::f16, DType::bf16, DType::f32, DType::f64, DType::i8, DType::u8, DType::u16, DType::i32, DType::i64})
    if (name == name_of(t)) return type_of(t);
  if (name == "u32") return type_handle(H5Tcopy(H5T_STD_U32LE));
  if (name == "u64") return type_handle(H5Tcopy(H5T_STD_U64LE));
  if (name == "big32") return type_handle(H5Tcopy(H5T_IEEE_F32BE));
  if (name == "long") return text_type(0);
  if (name == "array") {
    const hsize_t three = 3;
    return type_handle(H5Tarray_create2(H5T_NATIVE_INT, 1, &three));
  }
  if (name == "enum") {
    Handle type = type_handle(H5Tenum_create(H5T_NATIVE_INT));
    const int zero = 0;
    H5Tenum_insert(type.get(), "ZERO", &zero);
    return type;
  }
  if (name.starts_with("s") && name.size() < 7) {
    const long size = std::strtol(name.c_str() + 1, nullptr, 10);
    if (size > 0) return text_type(static_cast<std::size_t>(size));
  }
  return {};
}

Handle space_of(const std::string& extents, std::vector<hsize_t>& dims) {
  if (extents == "scalar") return space_handle(H5Screate(H5S_SCALAR));
  if (extents == "null") return space_handle(H5Screate(H5S_NULL));
  std::istringstream words(extents);
  for (std::string word; std::getline(words, word, 'x') && dims.size() < 12;) dims.push_back(std::strtoull(word.c_str(), nullptr, 10));
  return space_handle(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr));
}

class Maker {
 public:
  Maker(const std::string& path, std::size_t head) {
    quiet();
    links_ = link_properties();
    const Handle creation = property_handle(H5Pcreate(H5P_FILE_CREATE));
    H5Pset_userblock(creation.get(), head);
    file_ = Handle(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), H5P_DEFAULT), [](h5::Id id) -> int { return H5Fclose(id); });
    if (file_.get() < 0) throw std::runtime_error(path + " cannot be made");
  }

  void line(std::istringstream& words) {
    std::string what, path;
    if (!(words >> what >> path) || path.empty()) return;
    if (what == "group") {
      const Handle group(H5Gcreate2(file_.get(), path.c_str(), links_.get(), H5P_DEFAULT, H5P_DEFAULT), [](h5::Id id) -> int { return H5Gclose(id); });
    } else if (what == "hard" || what == "soft") {
      std::string target;
      if (!(words >> target)) return;
      if (what == "hard")
        H5Lcreate_hard(file_.get(), target.c_str(), file_.get(), path.c_str(), links_.get(), H5P_DEFAULT);
      else
        H5Lcreate_soft(target.c_str(), file_.get(), path.c_str(), links_.get(), H5P_DEFAULT);
    } else if (what == "data") {
      data(path, words);
    } else if (what == "strings") {
      strings(path, words);
    } else if (what == "table") {
      table(path, words);
    } else {
      attribute(what, path, words);
    }
  }

 private:
  Handle dataset(const std::string& path, const Handle& type, const Handle& space, const Handle& properties) {
    return dataset_handle(H5Dcreate2(file_.get(), path.c_str(), type.get(), space.get(), links_.get(), properties.get(), H5P_DEFAULT));
  }

  void data(const std::string& path, std::istringstream& words) {
    std::string name, extents, more;
    if (!(words >> name >> extents)) return;
    const Handle type = number_type(name);
    std::vector<hsize_t> dims;
    const Handle space = space_of(extents, dims);
    const hssize_t points = H5Sget_simple_extent_npoints(space.get());
    if (type.get() < 0 || space.get() < 0 || H5Tis_variable_str(type.get()) > 0) return;
    const Handle properties = property_handle(H5Pcreate(H5P_DATASET_CREATE));
    bool written = points > 0 && static_cast<std::size_t>(points) < most_bytes / H5Tget_size(type.get());
    while (words >> more) {
      if (more == "unwritten") written = false;
      if (more != "chunked" || dims.empty()) continue;
      std::vector<hsize_t> chunk(dims.size());
      std::transform(dims.begin(), dims.end(), chunk.begin(), [](hsize_t d) { return std::clamp<hsize_t>(d, 1, 4); });
      H5Pset_chunk(properties.get(), static_cast<int>(chunk.size()), chunk.data());
      H5Pset_deflate(properties.get(), 1);
    }
    const Handle made = dataset(path, type, space, properties);
    if (made.get() < 0 || !written) return;
    std::vector<unsigned char> bytes(static_cast<std::size_t>(points) * H5Tget_size(type.get()));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * 29 % 63);
    H5Dwrite(made.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data());
  }

  void strings(const std::string& path, std::istringstream& words) {
    hsize_t count = 0;
    std::string fixed;
    if (!(words >> count) || count > 100) return;
    const std::size_t size = words >> fixed && fixed.starts_with("fixed=") ? std::strtoul(fixed.c_str() + 6, nullptr, 10) : 0;
    if (size > 1000) return;
    const Handle type = text_type(size), space = space_handle(H5Screate_simple(1, &count, nullptr)), properties = property_handle(H5Pcreate(H5P_DATASET_CREATE));
    const Handle made = dataset(path, type, space, properties);
    if (made.get() < 0 || count == 0) return;
    const std::vector<char> fixed_text(size * count, 'f');
    const std::vector<const char*> texts(count, "text");
    H5Dwrite(made.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, size > 0 ? static_cast<const void*>(fixed_text.data()) : texts.data());
  }

  void table(const std::string& path, std::istringstream& words) {
    hsize_t rows = 0;
    if (!(words >> rows)) return;
    std::vector<std::pair<std::string, Handle>> columns;
    std::string row;  ///< bytes of one
    for (std::string column; words >> column && columns.size() < 100;) {
      const std::size_t colon = column.find(':');
      if (colon == std::string::npos) continue;
      const std::size_t equals = std::min(column.find('=', colon), column.size());
      const std::string name = column.substr(colon + 1, equals - colon - 1), value = column.substr(std::min(equals + 1, column.size()));
      Handle type = number_type(name);
      if (type.get() < 0 || row.size() > most_bytes) continue;
      std::string bytes = value;
      if (const std::int64_t whole = std::strtoll(value.c_str(), nullptr, 10); name == "i64") bytes.assign(reinterpret_cast<const char*>(&whole), sizeof whole);
      if (const double real = std::strtod(value.c_str(), nullptr); name == "f64") bytes.assign(reinterpret_cast<const char*>(&real), sizeof real);
      bytes.resize(H5Tget_size(type.get()), '\0');
      row += bytes;
      columns.emplace_back(column.substr(0, colon), std::move(type));
    }
    if (columns.empty()) return;
    const Handle type = type_handle(H5Tcreate(H5T_COMPOUND, row.size()));
    std::size_t at = 0;
    bool has_long = false;
    for (const auto& [name, member] : columns) {
      H5Tinsert(type.get(), name.c_str(), at, member.get());
      at += H5Tget_size(member.get());
      has_long |= H5Tis_variable_str(member.get()) > 0;
    }
    const Handle space = space_handle(H5Screate_simple(1, &rows, nullptr)), properties = property_handle(H5Pcreate(H5P_DATASET_CREATE));
    const Handle made = dataset(path, type, space, properties);
    if (made.get() < 0 || rows == 0 || rows > 1000 || has_long || row.size() * rows > most_bytes) return;
    std::string bytes;
    for (hsize_t r = 0; r < rows; ++r) bytes += row;
    H5Dwrite(made.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data());
  }

  void attribute(const std::string& what, const std::string& object, std::istringstream& words) {
    std::string name, value;
    if (!(words >> name)) return;
    std::getline(words >> std::ws, value);
    const char* const text = value.c_str();
    const std::int64_t whole = std::strtoll(text, nullptr, 10);
    const double real = std::strtod(text, nullptr);
    const hsize_t many = static_cast<hsize_t>(std::clamp<std::int64_t>(whole, 0, 1000));
    const bool is_text = what == "text", is_int = what == "int" || what == "many";
    if (!is_text && !is_int && what != "real") return;
    const Handle type = is_text ? text_type(0) : type_handle(H5Tcopy(is_int ? H5T_NATIVE_INT64 : H5T_NATIVE_DOUBLE));
    const Handle space = what == "many" ? space_handle(H5Screate_simple(1, &many, nullptr)) : space_handle(H5Screate(H5S_SCALAR));
    const Handle made = attribute_handle(H5Acreate_by_name(file_.get(), object.c_str(), name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    if (made.get() < 0 || what == "many") return;
    H5Awrite(made.get(), type.get(), is_text ? static_cast<const void*>(&text) : is_int ? static_cast<const void*>(&whole) : &real);
  }

  Handle file_, links_;
};

void poke(const std::string& path, std::istringstream& words) {
  std::string what;
  long offset = 0, byte = 0;
  if (!(words >> what >> offset >> byte) || offset < 0) return;
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary | std::ios::ate);
  const long size = static_cast<long>(file.tellg());
  if (size == 0) return;
  file.seekp(offset % size);
  file.put(static_cast<char>(byte));
}

}  // namespace

void make_hdf5(const std::string& path, std::string_view lines, std::size_t head, bool may_poke) {
  std::vector<std::string> pokes;
  {
    Maker maker(path, head);
    std::istringstream text{std::string(lines)};
    int count = 0;
    for (std::string line; std::getline(text, line) && count < 200; ++count) {
      std::istringstream words(line);
      if (line.starts_with("poke "))
        pokes.push_back(line);
      else
        maker.line(words);
    }
  }
  for (const std::string& line : pokes)
    if (std::istringstream words(line); may_poke) poke(path, words);
}

}  // namespace thinwire::fuzz
