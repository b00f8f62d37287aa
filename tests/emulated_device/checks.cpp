// What addresses may be given to copies and kernels, and page-locked memory.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/emulated_device/arena.h"
#include "tests/emulated_device/state.h"

namespace thinwire::emulated {

// "int ...on_device(int, const Call&) [with Call = thinwire_cuda_copy(...)::<lambda()>]" names the entry point in its middle.
std::string entry_name(const char* text) {
  const std::string all = text != nullptr ? text : "";
  for (const char* prefix : {"thinwire_cuda_", "thinwire_nccl_"})
    if (const std::size_t at = all.find(prefix); at != std::string::npos) return all.substr(at, all.find('(', at) - at);
  return all;
}

cudaError_t complain(cudaError_t error, const std::string& what) {
  std::fprintf(stderr, "emulated device: %s: %s\n", entry_name(state().entry).c_str(), what.c_str());
  return error;
}
std::string text_of(const void* p) {
  char text[32];
  std::snprintf(text, sizeof text, "%p", p);
  return text;
}

namespace {

std::string where_is(const void* p) {
  char text[256];
  Arena::instance().describe(p, text, sizeof text);
  return text;
}

}  // namespace

const void* staging_of(const void* p, std::size_t bytes) {
  const auto& staging = state().staging;
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  auto found = staging.upper_bound(address);
  const bool inside = found != staging.begin() && address - (--found)->first <= found->second && bytes <= found->second - (address - found->first);
  return inside ? reinterpret_cast<const void*>(found->first) : nullptr;
}

cudaError_t check_range(const void* p, std::size_t bytes, const char* what) {
  State& s = state();
  Arena& arena = Arena::instance();
  const int device = arena.device_of(p);
  if (device < 0) return complain(cudaErrorInvalidValue, std::string(what) + " " + text_of(p) + ", which is no memory of a device");
  if (device != s.device)
    return complain(cudaErrorInvalidValue, std::string(what) + " " + text_of(p) + where_is(p) + " and works on device " + std::to_string(s.device));
  if (!arena.allocated(p, bytes)) return complain(cudaErrorInvalidValue, std::string(what) + " " + std::to_string(bytes) + " bytes at " + text_of(p) + where_is(p));
  note_memory(arena.allocation_of(p));
  return cudaSuccess;
}

cudaError_t check_address(const void* p) {
  if (p == nullptr) return cudaSuccess;
  Arena& arena = Arena::instance();
  const void* memory = staging_of(p, 0);
  if (memory == nullptr && arena.device_of(p) == state().device && arena.allocated(p, 0)) memory = arena.allocation_of(p);
  if (memory != nullptr) return note_memory(memory), cudaSuccess;
  const std::string where = where_is(p);
  return complain(cudaErrorIllegalAddress, "a kernel is given " + text_of(p) + (where.empty() ? ", memory of the host" : where));
}

cudaError_t check_words(const void* words, std::size_t bytes) {
  const Arena& arena = Arena::instance();
  static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= bytes; at += sizeof(std::uintptr_t)) {
    std::uintptr_t word = 0;
    std::memcpy(&word, static_cast<const std::byte*>(words) + at, sizeof word);
    const auto* p = reinterpret_cast<const void*>(word);
    bool address = arena.device_of(p) >= 0;
    // Programs, libraries, heaps and stacks lie from 2^46 to 2^47. Below 2^45 lies the address sanitizer's shadow, where two small integers
    // side by side (8, 0) would point.
    if (!address && word >= std::uintptr_t{1} << 45 && word < std::uintptr_t{1} << 48) {
      unsigned char resident = 0;
      address = mincore(reinterpret_cast<void*>(word / page * page), 1, &resident) == 0;
    }
    if (address)
      if (const auto e = check_address(p); e != cudaSuccess) return e;
  }
  return cudaSuccess;
}

void* allocate_staging(std::size_t bytes) {
  void* p = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096 + 4096);
  if (p == nullptr) return nullptr;
  std::memset(p, 0xff, bytes);
  state().staging[reinterpret_cast<std::uintptr_t>(p)] = bytes;
  return p;
}

cudaError_t release_staging(void* pointer) {
  State& s = state();
  if (pointer == nullptr) return cudaSuccess;
  if (const auto e = not_while_recording("releases page-locked memory"); e != cudaSuccess) return e;
  const auto found = s.staging.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (found == s.staging.end()) return complain(cudaErrorInvalidValue, "releases " + text_of(pointer) + ", which is no page-locked memory");
  for (const Stream* stream : s.streams)
    for (const Work& work : stream->queue)
      for (const void* host : {work.host_from, work.host_to})
        if (host != nullptr && staging_of(host, 0) != nullptr && reinterpret_cast<std::uintptr_t>(host) - found->first <= found->second) {
          complain(cudaErrorInvalidValue, "releases page-locked memory that a copy of " + std::to_string(work.bytes) + " bytes is still to use");
          std::abort();  // a device would use what comes to lie there next
        }
  forget_memory(pointer);
  s.staging.erase(found);
  std::free(pointer);
  return cudaSuccess;
}

}  // namespace thinwire::emulated
