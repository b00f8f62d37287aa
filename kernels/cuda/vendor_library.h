// A library of the device's vendor that is opened on first use, not with the module: it takes half a second to load, and what does not
// need it must work where it is missing.
#pragma once

#include <dlfcn.h>

#include <initializer_list>
#include <string>
#include <type_traits>

namespace thinwire::cuda {

class VendorLibrary {
 public:
  /// The first of these versioned names that opens, as the loader finds it or from the toolkit's folders.
  explicit VendorLibrary(std::initializer_list<std::string> names) {
    for (const std::string& name : names)
      for (const char* folder : {"", "/usr/local/cuda/lib64/", "/usr/local/cuda/lib/", "/usr/local/cuda-13/lib64/", "/usr/local/cuda-12/lib64/"})
        if (handle_ == nullptr) handle_ = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    complete_ = handle_ != nullptr;
  }
  /// Sets the pointer; nothing without the library.
  template <typename Function>
  void find(Function*& function, const char* symbol) {
    if (handle_ == nullptr) return;
    function = reinterpret_cast<Function*>(dlsym(handle_, symbol));
    complete_ = complete_ && function != nullptr;
  }
  /// Opened, and every function asked for was there.
  bool complete() const { return complete_; }

 private:
  void* handle_ = nullptr;
  bool complete_ = false;
};

}  // namespace thinwire::cuda
