#include "core/device/device_module.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "core/device/device_abi.h"
#include "core/device/device_entry.h"
#include "core/device/device_graph.h"
#include "core/device/stream_end.h"
#include "core/process/environment.h"
#include "core/error.h"
#include "core/process/main_guard.h"

namespace thinwire {
namespace {

constexpr const char* module_name = "libthinwire_cuda.so";

// The module's functions, looked up once.
struct Entries {
  thinwire_cuda_device_count_fn* device_count;
  thinwire_cuda_error_text_fn* error_text;
  thinwire_cuda_error_is_fatal_fn* error_is_fatal;
  thinwire_cuda_allocate_fn* allocate;
  thinwire_cuda_release_fn* release;
  thinwire_cuda_copy_fn* copy;
  thinwire_cuda_fill_zero_fn* fill_zero;
  thinwire_cuda_allocate_staging_fn* allocate_staging;
  thinwire_cuda_release_staging_fn* release_staging;
  thinwire_cuda_stream_create_fn* stream_create;
  thinwire_cuda_stream_destroy_fn* stream_destroy;
  thinwire_cuda_stream_synchronize_fn* stream_synchronize;
  thinwire_cuda_event_create_fn* event_create;
  thinwire_cuda_event_destroy_fn* event_destroy;
  thinwire_cuda_event_record_fn* event_record;
  thinwire_cuda_event_wait_fn* event_wait;
  thinwire_cuda_event_finished_fn* event_finished;
  thinwire_cuda_event_elapsed_fn* event_elapsed;
};

std::atomic<int> ordinal_in_use{-1};
std::atomic<std::uint64_t> releases{0};

using StreamEnd = void (*)(const Stream&) noexcept;
struct StreamEnds {
  std::mutex lock;
  std::vector<StreamEnd> all;
};
StreamEnds& stream_ends() {
  static auto* ends = new StreamEnds;  // leaked: streams of static objects end late
  return *ends;
}
void tell_stream_ends(const Stream& stream) noexcept {
  StreamEnds& ends = stream_ends();
  const std::lock_guard hold(ends.lock);
  for (const StreamEnd end : ends.all) end(stream);
}

class CudaBackend final : public DeviceBackend {
 public:
  explicit CudaBackend(const Entries& entries) : f_(entries) {}

  void* allocate(std::size_t bytes, int ordinal) override {
    void* p = nullptr;
    check(f_.allocate(&p, bytes, ordinal), "allocating " + std::to_string(bytes) + " bytes on device " + std::to_string(ordinal));
    ordinal_in_use = ordinal;
    return p;
  }
  void release(void* pointer, int ordinal) noexcept override {
    note_device_release();
    f_.release(pointer, ordinal);
  }
  void copy(void* to, const void* from, std::size_t bytes, const Stream& stream) override {
    check(f_.copy(to, from, bytes, stream.device.ordinal, stream.handle), "copying " + std::to_string(bytes) + " bytes");
  }
  void fill_zero(void* to, std::size_t bytes, const Stream& stream) override {
    check(f_.fill_zero(to, bytes, stream.device.ordinal, stream.handle), "filling " + std::to_string(bytes) + " bytes");
  }
  void* allocate_staging(std::size_t bytes, int ordinal) override {
    void* p = nullptr;
    check(f_.allocate_staging(&p, bytes, ordinal), "allocating " + std::to_string(bytes) + " page-locked bytes on the host");
    return p;
  }
  void release_staging(void* pointer, int ordinal) noexcept override {
    note_device_release();
    f_.release_staging(pointer, ordinal);
  }
  Stream create_stream(int ordinal) override {
    Stream stream{{DeviceKind::cuda, ordinal}, nullptr};
    check(f_.stream_create(&stream.handle, ordinal), "creating a stream");
    return stream;
  }
  void destroy_stream(Stream& stream) noexcept override {
    if (stream.handle == nullptr) return;
    tell_stream_ends(stream);
    f_.stream_destroy(stream.handle, stream.device.ordinal);
    stream.handle = nullptr;
  }
  void synchronize(const Stream& stream) override {
    check(f_.stream_synchronize(stream.handle, stream.device.ordinal), "waiting for a stream");
  }
  Event create_event(int ordinal) override {
    Event event{{DeviceKind::cuda, ordinal}, nullptr, 0};
    check(f_.event_create(&event.handle, ordinal), "creating an event");
    return event;
  }
  void destroy_event(Event& event) noexcept override {
    if (event.handle != nullptr) f_.event_destroy(event.handle, event.device.ordinal);
    event.handle = nullptr;
  }
  void record(Event& event, const Stream& stream) override {
    check(f_.event_record(event.handle, stream.handle, stream.device.ordinal), "recording an event");
  }
  void wait(const Stream& stream, const Event& event) override {
    check(f_.event_wait(stream.handle, event.handle, stream.device.ordinal), "making a stream wait for an event");
  }
  bool finished(const Event& event) override {
    int done = 0;
    check(f_.event_finished(event.handle, &done, event.device.ordinal), "asking whether an event is finished");
    return done != 0;
  }
  double elapsed_ms(const Event& from, const Event& to) override {
    float ms = 0;
    check(f_.event_elapsed(from.handle, to.handle, &ms, from.device.ordinal), "reading the time between two events");
    return ms;
  }
  /// Throws RuntimeFailure; ends the process when the error has spoiled the device's context.
  void check(int code, const std::string& doing) const {
    if (code == 0) return;
    const std::string message = "CUDA error " + std::to_string(code) + " (" + f_.error_text(code) + ") while " + doing;
    if (f_.error_is_fatal(code))
      fail_process(static_cast<int>(ExitCode::runtime_failure),
                   message + "; the device's context is lost, so the process ends. Run compute-sanitizer to find the kernel.");
    throw RuntimeFailure(message + ". Use a smaller shape if memory is short.");
  }

 private:
  Entries f_;
};

std::string folder_of_program() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return ".";
  const std::string program(path, static_cast<std::size_t>(length));
  return program.substr(0, program.rfind('/'));
}

std::vector<std::string> candidates() {
  if (const auto named = Environment::cuda_module()) return {*named};
  const std::string folder = folder_of_program();
  return {folder + "/" + module_name, folder + "/../lib/" + module_name, module_name};
}

// A file that exists but does not load is reported, not passed over: its reason is the one to mend.
void* open_library(std::string& path) {
  std::string tried;
  for (const std::string& candidate : candidates()) {
    const bool is_path = candidate.find('/') != std::string::npos;
    if (is_path && access(candidate.c_str(), F_OK) != 0) {
      tried += (tried.empty() ? "" : ", ") + candidate;
      continue;
    }
    // NODELETE: the CUDA runtime inside registers exit handlers that must outlive any dlclose.
    if (void* library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
      path = candidate;
      return library;
    }
    const char* why = dlerror();
    if (is_path)
      throw EnvironmentError("the CUDA module " + candidate + " does not load: " + (why ? why : "unknown reason") +
                             ". Rebuild it with the CUDA compiler on this machine");
    tried += (tried.empty() ? "" : ", ") + candidate + " on the loader's path";
  }
  throw EnvironmentError("no CUDA module (looked for " + tried +
                         "): build on a machine with the CUDA toolkit, or set THINWIRE_CUDA_MODULE to its path");
}

// The one module of the process, or why there is none; asked once, since drivers do not come and go.
struct Opened {
  std::unique_ptr<DeviceModule> module;
  std::string reason;
};
const Opened& opened() {
  static const Opened* instance = [] {  // leaked: buffers of static objects are released late
    auto* o = new Opened;
    try {
      o->module = std::make_unique<DeviceModule>();
    } catch (const EnvironmentError& e) {
      o->reason = e.what();
    }
    return o;
  }();
  return *instance;
}

}  // namespace

DeviceModule::DeviceModule() {
  void* library = open_library(path_);
  // Not a thinwire module at all, or one of before entry points were found by name.
  find_ = reinterpret_cast<thinwire_cuda_find_fn*>(dlsym(library, "thinwire_cuda_find"));
  if (find_ == nullptr)
    throw EnvironmentError("the CUDA module " + path_ + " has no function thinwire_cuda_find, so it is none of this build: rebuild program and module together");
  Entries f{};
  const auto find = [this](auto*& function, const char* name) {
    function = this->function<std::remove_pointer_t<std::remove_reference_t<decltype(function)>>>(name);
  };
  find(f.device_count, "thinwire_cuda_device_count");
  find(f.error_text, "thinwire_cuda_error_text");
  find(f.error_is_fatal, "thinwire_cuda_error_is_fatal");
  find(f.allocate, "thinwire_cuda_allocate");
  find(f.release, "thinwire_cuda_release");
  find(f.copy, "thinwire_cuda_copy");
  find(f.fill_zero, "thinwire_cuda_fill_zero");
  find(f.allocate_staging, "thinwire_cuda_allocate_staging");
  find(f.release_staging, "thinwire_cuda_release_staging");
  find(f.stream_create, "thinwire_cuda_stream_create");
  find(f.stream_destroy, "thinwire_cuda_stream_destroy");
  find(f.stream_synchronize, "thinwire_cuda_stream_synchronize");
  find(f.event_create, "thinwire_cuda_event_create");
  find(f.event_destroy, "thinwire_cuda_event_destroy");
  find(f.event_record, "thinwire_cuda_event_record");
  find(f.event_wait, "thinwire_cuda_event_wait");
  find(f.event_finished, "thinwire_cuda_event_finished");
  find(f.event_elapsed, "thinwire_cuda_event_elapsed");
  const char* reason = nullptr;
  if (f.device_count(&devices_, &reason) != 0 || devices_ < 1)
    throw EnvironmentError(std::string("the CUDA module opens, but ") + (reason ? reason : "it sees no device"));
  backend_ = std::make_unique<CudaBackend>(f);
}

DeviceModule::~DeviceModule() = default;

namespace {
template <typename Function>
std::string text_from(Function* function, int ordinal, const char* doing) {
  char text[256] = {};
  const int code = function(ordinal, text, sizeof text);
  if (code != 0) throw RuntimeFailure("CUDA error " + std::to_string(code) + " while asking for the " + doing + " of device " + std::to_string(ordinal));
  return text;
}

/// "FiPKfE" -> "int (float const*)"
std::string readable(const char* type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(type, nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : type;
}
}  // namespace

std::string DeviceModule::device_name(int ordinal) const {
  return text_from(function<thinwire_cuda_device_name_fn>("thinwire_cuda_device_name"), ordinal, "name");
}
std::string DeviceModule::device_identity(int ordinal) const {
  return text_from(function<thinwire_cuda_device_identity_fn>("thinwire_cuda_device_identity"), ordinal, "identity");
}

void* DeviceModule::entry(const char* name, const std::type_info& type) const {
  const char* found = nullptr;
  void* address = find_(name, &found);
  if (address == nullptr) throw EnvironmentError("the CUDA module " + path_ + " has no function `" + name + "`: rebuild program and module together");
  if (std::strcmp(found, type.name()) != 0)
    throw EnvironmentError("the CUDA module " + path_ + " has `" + name + "` as " + readable(found) + ", this program calls it as " + readable(type.name()) +
                           ": rebuild program and module together");
  return address;
}

std::string DeviceModule::why_unavailable() { return opened().reason; }

void check_device_call(int code, const char* entry_point) {
  if (code == 0) return;
  const DeviceModule& module = device_module();
  auto* text = module.function<thinwire_cuda_error_text_fn>("thinwire_cuda_error_text");
  auto* fatal = module.function<thinwire_cuda_error_is_fatal_fn>("thinwire_cuda_error_is_fatal");
  const std::string message = std::string(entry_point) + " failed: error " + std::to_string(code) + " (" + text(code) + ")";
  if (fatal(code))
    fail_process(static_cast<int>(ExitCode::runtime_failure),
                 message + "; the device's context is lost, so the process ends. Run compute-sanitizer to find the kernel.");
  throw RuntimeFailure(message + "; run doctor, and compute-sanitizer where this happens again");
}

void before_stream_ends(StreamEnd body) {
  StreamEnds& ends = stream_ends();
  const std::lock_guard hold(ends.lock);
  ends.all.push_back(body);
}

std::uint64_t device_releases() { return releases; }
void note_device_release() { ++releases; }

std::string device_in_use() {
  const int ordinal = ordinal_in_use;
  return ordinal < 0 ? "" : device_module().device_name(ordinal);
}

DeviceModule& device_module() {
  if (opened().module == nullptr) throw EnvironmentError("no CUDA device can be used: " + opened().reason);
  return *opened().module;
}

}  // namespace thinwire
