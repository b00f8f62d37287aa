#include "tests/fuzz/target.h"

#include <cxxabi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <typeinfo>

#include "core/error.h"
#include "core/joined.h"
#include "tests/support/temporary_folder.h"

namespace thinwire::fuzz {
namespace {

std::vector<Target>& registry() {
  static std::vector<Target> all;
  return all;
}

std::string type_in_words(const std::type_info& type) {
  int status = 0;
  char* const text = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  const std::string words = text != nullptr ? text : type.name();
  std::free(text);
  return words;
}

}  // namespace

bool register_target(Target target) {
  std::vector<Target>& all = registry();
  const auto place = std::lower_bound(all.begin(), all.end(), target, [](const Target& a, const Target& b) { return a.name < b.name; });
  TW_ASSERT(place == all.end() || place->name != target.name, "two targets of one name");
  all.insert(place, std::move(target));
  return true;
}

const std::vector<Target>& targets() {
  return registry();
}

const Target& target(const std::string& name) {
  for (const Target& one : registry())
    if (one.name == name) return one;
  throw UsageError("there is no fuzz target '" + name + "'; there is " + joined(registry(), ", ", &Target::name));
}

AtTheEnd::~AtTheEnd() {
  if (pages_ != nullptr) munmap(pages_, room_ + static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
}

std::byte* AtTheEnd::bytes(std::size_t count) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  if (pages_ == nullptr || count > room_) {
    if (pages_ != nullptr) munmap(pages_, room_ + page);
    room_ = (count + page) / page * page;
    void* const memory = mmap(nullptr, room_ + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("no memory for an input");
    pages_ = static_cast<std::byte*>(memory);
    if (mprotect(pages_ + room_, page, PROT_NONE) != 0) throw std::runtime_error("a page cannot be guarded");
  }
  return pages_ + room_ - count;
}

Ending read_input(const Target& target, std::string_view input) {
  static AtTheEnd memory;
  auto* const place = reinterpret_cast<char*>(memory.bytes(input.size()));
  std::copy(input.begin(), input.end(), place);
  try {
    target.read(std::string_view(place, input.size()));
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with("internal error")) throw Finding(error.what());
    return Ending::refused;
  } catch (const Finding&) {
    throw;
  } catch (const std::exception& error) {
    throw Finding(type_in_words(typeid(error)) + ": " + error.what());
  }
  return Ending::read;
}

const std::string& folder_of_files() {
  static const testing::TemporaryFolder folder;
  return folder.path();
}

std::string as_file(const std::string& name, std::string_view input) {
  const std::filesystem::path path = std::filesystem::path(folder_of_files()) / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(input.data(), static_cast<std::streamsize>(input.size()));
  file.close();
  if (!file) throw std::runtime_error(path.string() + " cannot be written");  // no error of the reader's
  return path.string();
}

std::pair<std::string_view, std::string_view> split_first_line(std::string_view input) {
  const std::size_t end = input.find('\n');
  if (end == std::string_view::npos) return {input, {}};
  return {input.substr(0, end), input.substr(end + 1)};
}

}  // namespace thinwire::fuzz
