// The device module's side of the seam: each entry point registers its name and its type, and one C function finds them. For `.cu` files (and
// the emulated device); programs call through core/device/device_entry.h.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string_view>
#include <type_traits>
#include <typeinfo>

#include "core/device/device_abi.h"

namespace thinwire::cuda {

struct ModuleEntry {
  void* address = nullptr;
  const char* type = nullptr;  ///< typeid(function type).name()
};

/// Of this shared library alone: it is compiled with hidden symbols.
inline std::map<std::string_view, ModuleEntry>& module_entries() {
  static std::map<std::string_view, ModuleEntry> all;
  return all;
}

inline bool register_entry(const char* name, void* address, const char* type) {
  if (module_entries().emplace(name, ModuleEntry{address, type}).second) return true;
  std::fprintf(stderr, "thinwire device module: entry point %s is registered twice; give one of them another name\n", name);
  std::abort();
}

/// What thinwire_cuda_find returns.
inline void* find_entry(const char* name, const char** type) {
  const auto found = module_entries().find(name);
  if (found == module_entries().end()) return nullptr;
  *type = found->second.type;
  return found->second.address;
}

}  // namespace thinwire::cuda

/// Declares entry point `entry` and registers it; the function type follows, by its alias or in full, so that the compiler checks the definition:
///   THINWIRE_CUDA_ENTRY(thinwire_cuda_copy, thinwire_cuda_copy_fn);
///   THINWIRE_CUDA_ENTRY(sign_encode, int(const float* x, std::int64_t count, void* payload, int ordinal, void* stream));
#define THINWIRE_CUDA_ENTRY(entry, ...)               \
  extern "C" std::type_identity_t<__VA_ARGS__> entry; \
  [[maybe_unused]] static const bool entry##_is_registered = ::thinwire::cuda::register_entry(#entry, reinterpret_cast<void*>(&entry), typeid(__VA_ARGS__).name())
