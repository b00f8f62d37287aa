// Tensors and text.
#include <algorithm>

#include "results/hdf5/hdf5_internal.h"

namespace thinwire::h5 {

using namespace detail;

namespace detail {

// A 16-bit float that HDF5 has no name for: sign, `exponent` bits, the rest mantissa. The fields are set
// before the size shrinks, as the library checks them at every step.
static Handle small_float(int exponent, int bias) {
  Handle type = type_handle(H5Tcopy(H5T_IEEE_F32LE));
  const int mantissa = 15 - exponent;
  H5Tset_fields(type.get(), 15, static_cast<size_t>(mantissa), static_cast<size_t>(exponent), 0,
                static_cast<size_t>(mantissa));
  H5Tset_size(type.get(), 2);
  H5Tset_ebias(type.get(), static_cast<size_t>(bias));
  return type;
}

Handle type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return type_handle(H5Tcopy(H5T_IEEE_F32LE));
    case DType::f64:
      return type_handle(H5Tcopy(H5T_IEEE_F64LE));
    case DType::f16:
      return small_float(5, 15);
    case DType::bf16:
      return small_float(8, 127);
    case DType::i8:
      return type_handle(H5Tcopy(H5T_STD_I8LE));
    case DType::u8:
      return type_handle(H5Tcopy(H5T_STD_U8LE));
    case DType::u16:
      return type_handle(H5Tcopy(H5T_STD_U16LE));
    case DType::i32:
      return type_handle(H5Tcopy(H5T_STD_I32LE));
    case DType::i64:
      return type_handle(H5Tcopy(H5T_STD_I64LE));
  }
  throw RuntimeFailure("no HDF5 type for this element type");
}

Handle text_type(std::size_t size) {
  Handle type = type_handle(H5Tcopy(H5T_C_S1));
  H5Tset_size(type.get(), size == 0 ? H5T_VARIABLE : size);
  H5Tset_strpad(type.get(), size == 0 ? H5T_STR_NULLTERM : H5T_STR_NULLPAD);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  return type;
}

Handle open_dataset(const Group& group, Id id, const std::string& name) {
  quiet();
  const std::string where = group.file_name() + ": " + (group.path() == "/" ? "" : group.path()) + "/" + name;
  if (!group.has(name))
    throw CorruptData(where + " does not exist in this file; was it written by the expected program?");
  Handle dataset = dataset_handle(H5Dopen2(id, name.c_str(), H5P_DEFAULT));
  if (dataset.get() < 0) fail_read(where, "open it as a dataset");
  return dataset;
}

}  // namespace detail

namespace {

std::optional<DType> dtype_of_stored(Id type) {
  const H5T_class_t kind = H5Tget_class(type);
  const std::size_t size = H5Tget_size(type);
  if (kind == H5T_INTEGER) {
    const bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
    if (size == 1) return is_signed ? DType::i8 : DType::u8;
    if (size == 2 && !is_signed) return DType::u16;
    if (size == 4 && is_signed) return DType::i32;
    if (size == 8 && is_signed) return DType::i64;
    return std::nullopt;
  }
  if (kind != H5T_FLOAT) return std::nullopt;
  if (size == 4) return DType::f32;
  if (size == 8) return DType::f64;
  std::size_t sign, exponent_at, exponent, mantissa_at, mantissa;
  if (size != 2 || H5Tget_fields(type, &sign, &exponent_at, &exponent, &mantissa_at, &mantissa) < 0)
    return std::nullopt;
  if (exponent == 5) return DType::f16;
  return exponent == 8 ? std::optional(DType::bf16) : std::nullopt;
}

std::vector<hsize_t> dims_of(const Shape& shape) {
  std::vector<hsize_t> dims;
  for (int i = 0; i < shape.rank(); ++i) dims.push_back(static_cast<hsize_t>(shape[i]));
  return dims;
}

// About 1 MiB per chunk, whole rows of the first axis.
void set_chunks(Id properties, std::vector<hsize_t> dims, std::size_t element) {
  std::size_t row = element;
  for (std::size_t i = 1; i < dims.size(); ++i) row *= std::max<hsize_t>(dims[i], 1);
  for (hsize_t& d : dims) d = std::max<hsize_t>(d, 1);
  constexpr std::size_t target = 1 << 20;
  if (row <= target) {
    dims[0] = std::max<hsize_t>(1, target / std::max<std::size_t>(row, 1));
  } else {  // a row beyond the target: split it along the second axis
    dims[0] = 1;
    if (dims.size() > 1) dims[1] = std::max<hsize_t>(1, dims[1] * target / row);
  }
  H5Pset_chunk(properties, static_cast<int>(dims.size()), dims.data());
}

void require_host(ConstTensorView view, const std::string& where) {
  if (view.device().kind != DeviceKind::host)
    throw UsageError(where + ": copy the tensor to the host before writing it");
}

}  // namespace

std::int64_t DatasetInfo::elements() const {
  std::int64_t n = 1;
  for (const std::int64_t e : extents) n *= e;
  return n;
}

void Group::write(const std::string& name, ConstTensorView values, Storage storage) const {
  quiet();
  const std::string where = place(name);
  require_host(values, where);
  if (has(name) && H5Ldelete(group_->get(), name.c_str(), H5P_DEFAULT) < 0)
    fail_write(where, "replace the old dataset");
  const std::vector<hsize_t> dims = dims_of(values.shape());
  if (storage.appendable && dims.empty()) throw UsageError(where + ": a scalar cannot be appendable");
  const Handle properties = property_handle(H5Pcreate(H5P_DATASET_CREATE));
  if (!dims.empty() && (storage.appendable || storage.deflate > 0)) {
    // A fixed extent caps the chunk; a growing one may start with few rows.
    std::vector<hsize_t> chunk_base = dims;
    set_chunks(properties.get(), chunk_base, size_of(values.dtype()));
    if (!storage.appendable) {
      std::vector<hsize_t> chunk(dims.size());
      H5Pget_chunk(properties.get(), static_cast<int>(chunk.size()), chunk.data());
      chunk[0] = std::min(chunk[0], std::max<hsize_t>(dims[0], 1));
      H5Pset_chunk(properties.get(), static_cast<int>(chunk.size()), chunk.data());
    }
    if (storage.deflate > 0) {
      H5Pset_shuffle(properties.get());
      H5Pset_deflate(properties.get(), static_cast<unsigned>(storage.deflate));
    }
  }
  std::vector<hsize_t> largest = dims;
  if (storage.appendable) largest[0] = H5S_UNLIMITED;
  const Handle space = space_handle(
      dims.empty() ? H5Screate(H5S_SCALAR)
                   : H5Screate_simple(static_cast<int>(dims.size()), dims.data(), largest.data()));
  const Handle type = type_of(values.dtype());
  const Handle links = link_properties();
  const Handle dataset = dataset_handle(H5Dcreate2(group_->get(), name.c_str(), type.get(), space.get(),
                                                   links.get(), properties.get(), H5P_DEFAULT));
  if (dataset.get() < 0) fail_write(where, "make the dataset");
  if (values.elements() > 0 &&
      H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) < 0)
    fail_write(where, "write the dataset");
}

void Group::append(const std::string& name, ConstTensorView rows, Storage storage) const {
  quiet();
  const std::string where = place(name);
  storage.appendable = true;
  if (!has(name)) return write(name, rows, storage);
  require_host(rows, where);
  const Handle dataset = open_dataset(*this, group_->get(), name);
  const DatasetInfo old = info(name);
  const Shape& shape = rows.shape();
  bool fits = old.dtype == rows.dtype() && static_cast<int>(old.extents.size()) == shape.rank();
  for (int i = 1; fits && i < shape.rank(); ++i) fits = old.extents[static_cast<std::size_t>(i)] == shape[i];
  if (!fits)
    throw UsageError(where + ": rows of shape " + shape.to_string() +
                     " do not continue the dataset: type and all axes but the first must agree");
  std::vector<hsize_t> count = dims_of(shape);
  std::vector<hsize_t> total = count;
  std::vector<hsize_t> start(count.size(), 0);
  start[0] = static_cast<hsize_t>(old.extents[0]);
  total[0] += start[0];
  if (H5Dset_extent(dataset.get(), total.data()) < 0) fail_write(where, "make the dataset longer");
  const Handle file_space = space_handle(H5Dget_space(dataset.get()));
  H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr);
  const Handle memory = space_handle(H5Screate_simple(shape.rank(), count.data(), nullptr));
  const Handle type = type_of(rows.dtype());
  if (rows.elements() > 0 &&
      H5Dwrite(dataset.get(), type.get(), memory.get(), file_space.get(), H5P_DEFAULT, rows.data()) < 0)
    fail_write(where, "append to the dataset");
}

namespace {

/// What a file of some hundred bytes may claim, nobody must allocate, or multiply in 64 bits. HDF5's own filters shrink data 1032 times at most; a small dataset may never
/// have been written.
void require_plausible(const std::vector<hsize_t>& dims, std::size_t element, hsize_t stored, const std::string& where) {
  constexpr double small = 64 << 20, most_shrunk = 1100, most_elements = 0x1p53;
  double elements = 1;  // those of a dataset whose axes of length 0 had length 1
  bool empty = false;
  std::string shown;
  for (const hsize_t d : dims) {
    elements *= static_cast<double>(std::max<hsize_t>(d, 1));
    empty = empty || d == 0;
    shown += (shown.empty() ? "" : " x ") + std::to_string(d);
  }
  const double bytes = elements * static_cast<double>(element);
  if (elements > most_elements || (!empty && bytes > small && bytes > most_shrunk * static_cast<double>(stored)))
    throw CorruptData(where + " claims " + shown + " elements of " + std::to_string(element) + " bytes, but the file holds " + std::to_string(stored) + " bytes of it");
}

}  // namespace

DatasetInfo Group::info(const std::string& name) const {
  const Handle dataset = open_dataset(*this, group_->get(), name);
  const Handle type = type_handle(H5Dget_type(dataset.get()));
  const Handle space = space_handle(H5Dget_space(dataset.get()));
  const int rank = H5Sget_simple_extent_ndims(space.get());
  if (rank < 0) fail_read(place(name), "read its extents");
  std::vector<hsize_t> dims(static_cast<std::size_t>(rank));
  H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
  DatasetInfo info;
  info.extents.assign(dims.begin(), dims.end());
  require_plausible(dims, H5Tget_size(type.get()), H5Dget_storage_size(dataset.get()), place(name));
  info.dtype = dtype_of_stored(type.get());
  info.is_table = H5Tget_class(type.get()) == H5T_COMPOUND;
  info.is_text = H5Tget_class(type.get()) == H5T_STRING;
  return info;
}

Tensor Group::read(const std::string& name) const {
  const DatasetInfo stored = info(name);
  if (!stored.dtype)
    throw CorruptData(place(name) +
                      " does not hold numbers of a known type (f32, f64, f16, bf16, i8, u8, u16, i32, i64)");
  const auto& e = stored.extents;
  if (e.size() > Shape::max_rank)
    throw CorruptData(place(name) + " has " + std::to_string(e.size()) + " axes; at most " +
                      std::to_string(Shape::max_rank) + " are supported: reshape it");
  Shape shape;
  if (e.size() == 1) shape = {e[0]};
  if (e.size() == 2) shape = {e[0], e[1]};
  if (e.size() == 3) shape = {e[0], e[1], e[2]};
  if (e.size() == 4) shape = {e[0], e[1], e[2], e[3]};
  Tensor tensor(shape, *stored.dtype);
  read_into(name, tensor.view());
  return tensor;
}

void Group::read_into(const std::string& name, TensorView out) const {
  const DatasetInfo stored = info(name);
  const Handle dataset = open_dataset(*this, group_->get(), name);
  if (stored.is_table || stored.is_text) throw CorruptData(place(name) + " does not hold numbers");
  if (stored.elements() != out.elements())
    throw CorruptData(place(name) + " has " + std::to_string(stored.elements()) + " elements where " +
                      std::to_string(out.elements()) + " (" + out.shape().to_string() + ") are expected");
  const Handle type = type_of(out.dtype());
  if (out.elements() > 0 && H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, out.data()) < 0)
    fail_read(place(name), "read the dataset");
}

void Group::read_rows(const std::string& name, std::int64_t first, std::int64_t count, TensorView out) const {
  const DatasetInfo stored = info(name);
  const Handle dataset = open_dataset(*this, group_->get(), name);
  if (stored.extents.empty() || first < 0 || count < 0 || first + count > stored.extents[0])
    throw CorruptData(place(name) + " has no rows " + std::to_string(first) + " to " +
                      std::to_string(first + count) + ": its first axis is " +
                      (stored.extents.empty() ? std::string("missing") : std::to_string(stored.extents[0])));
  std::vector<hsize_t> start(stored.extents.size(), 0);
  std::vector<hsize_t> extent(stored.extents.begin(), stored.extents.end());
  start[0] = static_cast<hsize_t>(first);
  extent[0] = static_cast<hsize_t>(count);
  std::int64_t elements = 1;
  for (const hsize_t e : extent) elements *= static_cast<std::int64_t>(e);
  if (elements != out.elements())
    throw CorruptData(place(name) + ": " + std::to_string(count) + " rows are " + std::to_string(elements) +
                      " elements, not " + std::to_string(out.elements()));
  if (elements == 0) return;
  const Handle file_space = space_handle(H5Dget_space(dataset.get()));
  H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, start.data(), nullptr, extent.data(), nullptr);
  const auto length = static_cast<hsize_t>(elements);
  const Handle memory = space_handle(H5Screate_simple(1, &length, nullptr));
  const Handle type = type_of(out.dtype());
  if (H5Dread(dataset.get(), type.get(), memory.get(), file_space.get(), H5P_DEFAULT, out.data()) < 0)
    fail_read(place(name), "read rows of the dataset");
}

void Group::write_strings(const std::string& name, std::span<const std::string> values) const {
  quiet();
  const std::string where = place(name);
  if (has(name) && H5Ldelete(group_->get(), name.c_str(), H5P_DEFAULT) < 0)
    fail_write(where, "replace the old dataset");
  const auto length = static_cast<hsize_t>(values.size());
  const Handle space = space_handle(H5Screate_simple(1, &length, nullptr));
  const Handle type = text_type(0);
  const Handle links = link_properties();
  const Handle dataset = dataset_handle(H5Dcreate2(group_->get(), name.c_str(), type.get(), space.get(),
                                                   links.get(), H5P_DEFAULT, H5P_DEFAULT));
  if (dataset.get() < 0) fail_write(where, "make the dataset");
  std::vector<const char*> pointers;
  for (const std::string& value : values) pointers.push_back(value.c_str());
  if (!values.empty() &&
      H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers.data()) < 0)
    fail_write(where, "write the dataset");
}

std::vector<std::string> Group::read_strings(const std::string& name) const {
  const DatasetInfo stored = info(name);
  const Handle dataset = open_dataset(*this, group_->get(), name);
  if (!stored.is_text) throw CorruptData(place(name) + " does not hold text");
  const auto count = static_cast<std::size_t>(stored.elements());
  std::vector<std::string> values(count);
  if (count == 0) return values;
  const Handle file_type = type_handle(H5Dget_type(dataset.get()));
  if (H5Tis_variable_str(file_type.get()) > 0) {
    std::vector<char*> pointers(count, nullptr);
    // Conversion between character sets is refused by HDF5, so the file's is used.
    const Handle memory = type_handle(H5Tcopy(file_type.get()));
    if (H5Dread(dataset.get(), memory.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers.data()) < 0)
      fail_read(place(name), "read the text");
    for (std::size_t i = 0; i < count; ++i)
      if (pointers[i] != nullptr) values[i] = pointers[i];
    const Handle space = space_handle(H5Dget_space(dataset.get()));
    H5Dvlen_reclaim(memory.get(), space.get(), H5P_DEFAULT, pointers.data());
    return values;
  }
  const std::size_t size = H5Tget_size(file_type.get());
  std::vector<char> text(count * size);
  if (H5Dread(dataset.get(), file_type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()) < 0)
    fail_read(place(name), "read the text");
  for (std::size_t i = 0; i < count; ++i) {
    values[i].assign(text.data() + i * size, size);
    values[i].resize(std::min(values[i].find('\0'), size));
  }
  return values;
}

}  // namespace thinwire::h5
