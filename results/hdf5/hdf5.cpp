#include "results/hdf5/hdf5.h"

#include <unistd.h>

#include <algorithm>

#include "results/hdf5/hdf5_internal.h"

namespace thinwire::h5 {

using namespace detail;

namespace {

int close_group(Id id) {
  return H5Gclose(id);
}
int close_file(Id id) {
  return H5Fclose(id);
}

// No file locks: files are published by rename, and locks fail on some network file systems. Closing the
// file closes whatever is still open inside.
Handle access_properties() {
  Handle access = property_handle(H5Pcreate(H5P_FILE_ACCESS));
  H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG);
  H5Pset_file_locking(access.get(), false, true);
  return access;
}

Handle root_of(Id file, const std::string& path) {
  Handle root(H5Gopen2(file, "/", H5P_DEFAULT), close_group);
  if (root.get() < 0) fail_read(path, "open the root group");
  return root;
}

}  // namespace

namespace detail {
Handle link_properties() {
  Handle links = property_handle(H5Pcreate(H5P_LINK_CREATE));
  H5Pset_create_intermediate_group(links.get(), 1);
  return links;
}
}  // namespace detail

std::string Group::place(const std::string& name) const {
  return file_name_ + ": " + (path_ == "/" ? "" : path_) + "/" + name;
}

bool Group::has(const std::string& path) const {
  quiet();
  if (path.empty() || path == "/") return true;
  // H5Lexists wants every step to exist, so the path is walked.
  for (std::size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
    if (H5Lexists(group_->get(), path.substr(0, at).c_str(), H5P_DEFAULT) <= 0) {
      H5Eclear2(H5E_DEFAULT);
      return false;
    }
    if (at == std::string::npos) return true;
  }
}

std::vector<std::string> Group::names() const {
  quiet();
  std::vector<std::string> found;
  const herr_t status = H5Literate(
      group_->get(), H5_INDEX_NAME, H5_ITER_INC, nullptr,
      [](hid_t, const char* name, const H5L_info_t*, void* data) -> herr_t {
        static_cast<std::vector<std::string>*>(data)->emplace_back(name);
        return 0;
      },
      &found);
  if (status < 0) fail_read(place(""), "list its members");
  std::sort(found.begin(), found.end());
  return found;
}

bool Group::is_group(const std::string& path) const {
  if (!has(path)) return false;
  H5O_info_t info;
  return H5Oget_info_by_name2(group_->get(), path.c_str(), &info, H5O_INFO_BASIC, H5P_DEFAULT) >= 0 &&
         info.type == H5O_TYPE_GROUP;
}

Group Group::group(const std::string& path) const {
  quiet();
  Handle opened(H5Gopen2(group_->get(), path.c_str(), H5P_DEFAULT), close_group);
  if (opened.get() < 0) fail_read(place(path), "open the group");
  return {file_, std::move(opened), file_name_, (path_ == "/" ? "" : path_) + "/" + path};
}

Group Group::create_group(const std::string& path) const {
  quiet();
  if (has(path)) return group(path);
  const Handle links = link_properties();
  Handle made(H5Gcreate2(group_->get(), path.c_str(), links.get(), H5P_DEFAULT, H5P_DEFAULT), close_group);
  if (made.get() < 0) fail_write(place(path), "make the group");
  return {file_, std::move(made), file_name_, (path_ == "/" ? "" : path_) + "/" + path};
}

File File::create(const std::string& path, std::size_t head) {
  quiet();
  const Handle access =
      access_properties();  // named: closing it would clear the error stack before it is read
  const Handle creation = property_handle(H5Pcreate(H5P_FILE_CREATE));
  H5Pset_userblock(creation.get(), head);
  auto file =
      std::make_shared<Handle>(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()), close_file);
  if (file->get() < 0) fail_write(path, "make the file");
  Handle root = root_of(file->get(), path);
  return {std::move(file), std::move(root), path, "/"};
}

File File::create_in_memory() {
  quiet();
  const Handle access = access_properties();
  H5Pset_fapl_core(access.get(), 1 << 20, /*backing_store=*/false);
  const std::string name = "(file in memory)";
  auto file =
      std::make_shared<Handle>(H5Fcreate(name.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), close_file);
  if (file->get() < 0) fail_write(name, "make the file");
  Handle root = root_of(file->get(), name);
  return {std::move(file), std::move(root), name, "/"};
}

std::vector<std::byte> File::image() {
  quiet();
  if (H5Fflush(file_->get(), H5F_SCOPE_LOCAL) < 0) fail_write(file_name_, "flush the file");
  const ssize_t size = H5Fget_file_image(file_->get(), nullptr, 0);
  if (size < 0) fail_write(file_name_, "take the file's bytes");
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  if (H5Fget_file_image(file_->get(), bytes.data(), bytes.size()) != size)
    fail_write(file_name_, "take the file's bytes");
  return bytes;
}

static std::shared_ptr<Handle> open(const std::string& path, unsigned mode) {
  if (access(path.c_str(), F_OK) != 0)
    throw EnvironmentError(path + ": no such file; check the path, or run the step that writes it");
  if (access(path.c_str(), mode == H5F_ACC_RDONLY ? R_OK : W_OK) != 0)
    throw EnvironmentError(path + ": no right to " + (mode == H5F_ACC_RDONLY ? "read" : "write") +
                           " this file");
  const Handle properties = access_properties();
  auto file = std::make_shared<Handle>(H5Fopen(path.c_str(), mode, properties.get()), close_file);
  if (file->get() < 0)
    throw CorruptData(path + ": not an HDF5 file, or truncated (" + last_error() +
                      "); remove it and write it again");
  return file;
}

File File::open_read(const std::string& path) {
  quiet();  // before the macros below, which start the library
  auto file = open(path, H5F_ACC_RDONLY);
  Handle root = root_of(file->get(), path);
  return {std::move(file), std::move(root), path, "/"};
}

File File::open_write(const std::string& path) {
  quiet();
  auto file = open(path, H5F_ACC_RDWR);
  Handle root = root_of(file->get(), path);
  return {std::move(file), std::move(root), path, "/"};
}

void File::close() {
  quiet();
  if (file_->get() < 0) return;
  const bool flushed = H5Fflush(file_->get(), H5F_SCOPE_LOCAL) >= 0;
  const std::string cause = flushed ? "" : last_error();
  group_->close();
  const bool closed = file_->close() >= 0;
  if (flushed && closed) return;
  if (is_full_disk(cause))
    throw RuntimeFailure(file_name_ + ": the disk is full; free some space or choose another folder");
  if (!flushed) throw RuntimeFailure(file_name_ + ": cannot write the file's data (" + cause + ")");
  fail_write(file_name_, "close the file");
}

std::string library_version() {
  quiet();
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}

}  // namespace thinwire::h5
