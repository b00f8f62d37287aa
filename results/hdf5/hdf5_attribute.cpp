#include "results/hdf5/hdf5_internal.h"

namespace thinwire::h5 {

using namespace detail;

namespace {

const char* name_or_self(const std::string& object) {
  return object.empty() ? "." : object.c_str();
}

void put_attribute(Id group, const std::string& where, const std::string& object, const std::string& name,
                   Id type, const void* value) {
  quiet();
  const char* target = name_or_self(object);
  if (H5Aexists_by_name(group, target, name.c_str(), H5P_DEFAULT) > 0)
    H5Adelete_by_name(group, target, name.c_str(), H5P_DEFAULT);
  const Handle space = space_handle(H5Screate(H5S_SCALAR));
  const Handle attribute = attribute_handle(H5Acreate_by_name(group, target, name.c_str(), type, space.get(),
                                                              H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  if (attribute.get() < 0 || H5Awrite(attribute.get(), type, value) < 0)
    fail_write(where, "set the attribute `" + name + "`");
}

Handle open_attribute(Id group, const std::string& where, const std::string& object,
                      const std::string& name) {
  quiet();
  Handle attribute =
      attribute_handle(H5Aopen_by_name(group, name_or_self(object), name.c_str(), H5P_DEFAULT, H5P_DEFAULT));
  if (attribute.get() < 0) throw CorruptData(where + " has no attribute `" + name + "`: " + last_error());
  const Handle space = space_handle(H5Aget_space(attribute.get()));
  if (H5Sget_simple_extent_npoints(space.get()) != 1)
    throw CorruptData(where + ": attribute `" + name + "` is not a single value");
  return attribute;
}

}  // namespace

void Group::set_attribute(const std::string& object, const std::string& name, std::string_view value) const {
  const std::string text(value);
  const char* pointer = text.c_str();  // of variable length: h5py then gives str, not bytes
  const Handle type = text_type(0);
  put_attribute(group_->get(), place(object), object, name, type.get(), &pointer);
}
void Group::set_attribute(const std::string& object, const std::string& name, std::int64_t value) const {
  put_attribute(group_->get(), place(object), object, name, H5T_NATIVE_INT64, &value);
}
void Group::set_attribute(const std::string& object, const std::string& name, double value) const {
  put_attribute(group_->get(), place(object), object, name, H5T_NATIVE_DOUBLE, &value);
}

bool Group::has_attribute(const std::string& object, const std::string& name) const {
  quiet();
  return H5Aexists_by_name(group_->get(), name_or_self(object), name.c_str(), H5P_DEFAULT) > 0;
}

std::string Group::text_attribute(const std::string& object, const std::string& name) const {
  const std::string where = place(object);
  const Handle attribute = open_attribute(group_->get(), where, object, name);
  const Handle type = type_handle(H5Aget_type(attribute.get()));
  if (H5Tget_class(type.get()) != H5T_STRING)
    throw CorruptData(where + ": attribute `" + name + "` is not text");
  if (H5Tis_variable_str(type.get()) > 0) {  // as h5py writes them
    char* text = nullptr;
    if (H5Aread(attribute.get(), type.get(), &text) < 0)
      fail_read(where, "read the attribute `" + name + "`");
    const std::string value = text == nullptr ? "" : text;
    H5free_memory(text);
    return value;
  }
  std::string value(H5Tget_size(type.get()), '\0');
  if (H5Aread(attribute.get(), type.get(), value.data()) < 0)
    fail_read(where, "read the attribute `" + name + "`");
  if (const auto end = value.find('\0'); end != std::string::npos) value.resize(end);
  return value;
}

std::int64_t Group::int_attribute(const std::string& object, const std::string& name) const {
  const std::string where = place(object);
  const Handle attribute = open_attribute(group_->get(), where, object, name);
  std::int64_t value = 0;
  if (H5Aread(attribute.get(), H5T_NATIVE_INT64, &value) < 0)
    fail_read(where, "read the attribute `" + name + "`");
  return value;
}

double Group::float_attribute(const std::string& object, const std::string& name) const {
  const std::string where = place(object);
  const Handle attribute = open_attribute(group_->get(), where, object, name);
  double value = 0;
  if (H5Aread(attribute.get(), H5T_NATIVE_DOUBLE, &value) < 0)
    fail_read(where, "read the attribute `" + name + "`");
  return value;
}

}  // namespace thinwire::h5
