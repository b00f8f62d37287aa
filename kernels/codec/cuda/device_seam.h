// Where the CUDA implementations of codecs get entry points, memory and copies from: a device through its module, or a test's emulation of one.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "core/error.h"

namespace thinwire {

struct DeviceSeam {
  std::function<void*(const std::string&)> find;                             ///< entry point by name
  std::function<void*(std::size_t)> allocate;                                ///< device memory that outlives the codec, 16-byte aligned
  std::function<void(void* to, const void* from, std::size_t bytes)> write;  ///< from the host, done on return
  std::function<std::string(int)> error_text = {};                           ///< of a code that an entry point returned
  int ordinal = 0;
  void* stream = nullptr;
  std::function<void(void* to, const void* from, std::size_t bytes)> read = {};  ///< to the host, after queued work; for saving state
  /// Memory for the work that is queued next on the stream, 16-byte aligned: codecs that share it take turns. Without it each codec has
  /// its own (32 MiB for one that multiplies matrices).
  std::function<void*(std::size_t)> workspace = {};
  /// Told of a code that is not 0, and does not return; without it a RuntimeFailure is thrown.
  std::function<void(int code, const char* entry_point)> failed = {};

  /// Queues the entry point of this name and type; RuntimeFailure when it cannot be queued.
  template <typename Function, typename... Arguments>
  void call(const char* name, Arguments... arguments) const {
    const int code = reinterpret_cast<Function*>(find(name))(arguments..., ordinal, stream);
    if (code == 0) return;
    if (failed) failed(code, name);
    throw RuntimeFailure(std::string(name) + " failed: " + (error_text ? error_text(code) : "error " + std::to_string(code)) +
                         "; run doctor, and compute-sanitizer where this happens again");
  }
};

}  // namespace thinwire
