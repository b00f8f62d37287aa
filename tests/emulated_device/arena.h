// Memory of the emulated devices: one range of addresses per device that is closed (any access is a SIGSEGV with a message that says so)
// except while the device works. Every allocation is followed by a guard that must be whole when it is released; fresh and released
// bytes are 0xff, a NaN in every type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace thinwire::emulated {

class Arena {
 public:
  /// Those of the process: THINWIRE_EMULATED_DEVICES of them (default 1).
  static Arena& instance();

  int devices() const { return devices_; }
  /// On 256 bytes; null where the device's memory is used up.
  void* allocate(std::size_t bytes, int device);
  /// False for an address that was not allocated on this device. Ends the program when something has written past the allocation.
  bool release(void* pointer, int device);

  /// Device of the range that `p` lies in, -1 for the host. Of addresses, not of allocations.
  int device_of(const void* p) const;
  /// Whether [p, p + bytes) lies in one allocation.
  bool allocated(const void* p, std::size_t bytes) const;
  /// Begin of the allocation that `p` lies in, which must be one.
  const void* allocation_of(const void* p) const;

  /// Opens the memory of this device and closes the others'.
  void open(int device);
  void close();
  int opened() const { return open_; }
  /// For messages: what is known about an address of a device.
  void describe(const void* p, char* text, std::size_t size) const;

 private:
  Arena();
  struct Memory {
    std::map<std::uintptr_t, std::size_t> allocations;  ///< address -> bytes
    std::map<std::uintptr_t, std::size_t> holes;        ///< below `used`
    std::size_t used = 0;                               ///< bytes in use are below this
    std::size_t touched = 0;                            ///< bytes that may hold pages are below this
    std::size_t writable = 0;                           ///< bytes of the hidden range
  };
  std::byte* base(int device) const { return visible_ + static_cast<std::size_t>(device) * capacity_; }
  std::size_t moved_bytes(int device) const;
  void move(int device, bool to_visible);
  bool guard_is_whole(const Memory& memory, std::uintptr_t address) const;

  int devices_ = 1;
  std::size_t capacity_ = 0;       ///< of a device, a multiple of 1 GiB
  std::byte *visible_ = nullptr, *hidden_ = nullptr;
  Memory memory_[64];
  bool exchanges_ = true;  ///< pages between the two ranges; else the hidden one is not used
  std::size_t opened_bytes_ = 0;
  int open_ = -1;
};

/// Sets a device's memory open for a scope, unless it is already.
class OpenScope {
 public:
  explicit OpenScope(int device);
  ~OpenScope();
  OpenScope(const OpenScope&) = delete;
  OpenScope& operator=(const OpenScope&) = delete;

 private:
  int before_;
};

}  // namespace thinwire::emulated
