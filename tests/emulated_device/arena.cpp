#include "tests/emulated_device/arena.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/emulated_device/streams.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

namespace thinwire::emulated {
namespace {

constexpr std::size_t granule = 256, guard = 256, mib = 1 << 20, gib = 1024 * mib;
constexpr int poison = 0xff;
/// Words of guards are signalling NaNs, which arithmetic changes: what reads one and writes back what it computed shows, too.
std::uint8_t guard_byte(std::uintptr_t address) { return address % 4 == 3 ? 0x7f : 0xa1; }

std::size_t slot_of(std::size_t bytes) { return (bytes + granule - 1) / granule * granule + guard; }

[[noreturn]] void stop(const char* what) {
  std::fprintf(stderr, "emulated device: %s: %s\n", what, std::strerror(errno));
  std::abort();
}

struct sigaction before_segv;

void say(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

// Says what was wrong with an access, then lets it happen again under the action that was there before.
void on_segv(int, siginfo_t* info, void*) {
  char where[256], text[512];
  const Arena& arena = Arena::instance();
  const int device = arena.device_of(info->si_addr);
  arena.describe(info->si_addr, where, sizeof where);
  if (const char* entry = running_entry(); entry != nullptr && device != arena.opened()) {
    std::snprintf(text, sizeof text, "emulated device: %s, running on device %d, touches %p%s\n", entry, arena.opened(), info->si_addr, where);
    say(text);
  } else if (device >= 0) {
    std::snprintf(text, sizeof text, "host access to memory of the emulated device at %p%s\n", info->si_addr, where);
    say(text);
  }
  sigaction(SIGSEGV, &before_segv, nullptr);
}

}  // namespace

Arena& Arena::instance() {
  static Arena* arena = new Arena;  // used until the process ends
  return *arena;
}

Arena::Arena() {
  if (const char* asked = std::getenv("THINWIRE_EMULATED_DEVICES")) devices_ = std::atoi(asked);
  if (devices_ < 1 || devices_ > 64) {
    std::fprintf(stderr, "emulated device: THINWIRE_EMULATED_DEVICES must be 1 to 64\n");
    std::exit(2);
  }
  // No more than the machine could hold.
  const auto physical = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  capacity_ = physical / 2 / gib * gib;
  if (capacity_ < gib) capacity_ = gib;
  const std::size_t all = capacity_ * static_cast<std::size_t>(devices_);
  void* range = mmap(nullptr, 2 * all + gib, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) stop("reserving addresses");
  visible_ = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(range) + gib - 1) / gib * gib);
  hidden_ = visible_ + all;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  mprotect(hidden_, page, PROT_READ | PROT_WRITE);
  exchanges_ = mremap(hidden_, page, page, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, visible_) != MAP_FAILED;
  mprotect(visible_, page, PROT_NONE);
  struct sigaction action = {};
  action.sa_sigaction = on_segv;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, &before_segv);
}

// The pages of a closed device lie at other addresses. Moving them is an exchange of page tables, which whole GiB make independent of
// how much they hold (some 10 us); changing the protection in place takes 0.3 us for every page in use, and is left to kernels before 5.7.
std::size_t Arena::moved_bytes(int device) const {
  const std::size_t unit = exchanges_ ? gib : mib;
  return (memory_[device].used + unit - 1) / unit * unit;
}
void Arena::move(int device, bool to_visible) {
  if (opened_bytes_ == 0) return;
  std::byte *seen = base(device), *kept = hidden_ + (seen - visible_);
  std::byte *from = to_visible ? kept : seen, *to = to_visible ? seen : kept;
  if (!exchanges_) {
    if (mprotect(seen, opened_bytes_, to_visible ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) stop("changing protection");
    return;
  }
  // DONTUNMAP: the range that is left stays ours, without pages.
  if (mremap(from, opened_bytes_, opened_bytes_, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) == MAP_FAILED) stop("moving pages");
  if (!to_visible && mprotect(seen, opened_bytes_, PROT_NONE) != 0) stop("closing memory");
}

void Arena::open(int device) {
  if (open_ == device && opened_bytes_ == moved_bytes(device)) return;
  close();
  open_ = device;
  opened_bytes_ = moved_bytes(device);
  if (exchanges_ && opened_bytes_ > memory_[device].writable) {
    memory_[device].writable = opened_bytes_;
    if (mprotect(hidden_ + (base(device) - visible_), opened_bytes_, PROT_READ | PROT_WRITE) != 0) stop("making memory writable");
  }
  move(device, true);
}

void Arena::close() {
  if (open_ < 0) return;
  move(open_, false);
  open_ = -1;
  opened_bytes_ = 0;
}

OpenScope::OpenScope(int device) : before_(Arena::instance().opened()) { Arena::instance().open(device); }
OpenScope::~OpenScope() {
  if (before_ < 0) Arena::instance().close();
  else Arena::instance().open(before_);
}

void* Arena::allocate(std::size_t bytes, int device) {
  Memory& memory = memory_[device];
  if (bytes > capacity_) return nullptr;
  const std::size_t slot = slot_of(bytes);
  const auto start = reinterpret_cast<std::uintptr_t>(base(device));
  std::uintptr_t place = 0;
  for (auto hole = memory.holes.begin(); hole != memory.holes.end(); ++hole) {  // the first that fits: what is used stays low
    if (hole->second < slot) continue;
    place = hole->first;
    if (hole->second > slot) memory.holes[place + slot] = hole->second - slot;
    memory.holes.erase(hole);
    break;
  }
  if (place == 0) {
    if (memory.used + slot > capacity_) return nullptr;
    place = start + memory.used;
    memory.used += slot;
    memory.touched = std::max(memory.touched, memory.used);
  }
  memory.allocations[place] = bytes;
  auto* p = reinterpret_cast<std::byte*>(place);
  const OpenScope open_now(device);
  ASAN_UNPOISON_MEMORY_REGION(p, slot);
  std::memset(p, poison, bytes);
  for (std::uintptr_t at = place + bytes; at < place + slot; ++at) *reinterpret_cast<std::uint8_t*>(at) = guard_byte(at);
  ASAN_POISON_MEMORY_REGION(p + bytes, slot - bytes);
  return p;
}

bool Arena::guard_is_whole(const Memory& memory, std::uintptr_t address) const {
  const std::size_t bytes = memory.allocations.at(address), slot = slot_of(bytes);
  const auto* p = reinterpret_cast<const unsigned char*>(address);
  ASAN_UNPOISON_MEMORY_REGION(p, slot);
  for (std::size_t i = bytes; i < slot; ++i)
    if (p[i] != guard_byte(address + i)) return false;
  return true;
}

bool Arena::release(void* pointer, int device) {
  Memory& memory = memory_[device];
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const auto found = memory.allocations.find(address);
  if (found == memory.allocations.end()) return false;
  const std::size_t bytes = found->second;
  std::size_t slot = slot_of(bytes);
  {
    const OpenScope open_now(device);
    if (!guard_is_whole(memory, address)) {
      std::fprintf(stderr, "emulated device: something was written past the end of the %zu bytes at %p\n", bytes, pointer);
      std::abort();
    }
    std::memset(pointer, poison, slot);
    ASAN_POISON_MEMORY_REGION(pointer, slot);
  }
  memory.allocations.erase(found);
  // Holes next to each other are one; at the end they are not in use.
  std::uintptr_t place = address;
  auto next = memory.holes.lower_bound(place);
  if (next != memory.holes.end() && next->first == place + slot) {
    slot += next->second;
    next = memory.holes.erase(next);
  }
  if (next != memory.holes.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == place) {
      place = before->first;
      slot += before->second;
      memory.holes.erase(before);
    }
  }
  const auto start = reinterpret_cast<std::uintptr_t>(base(device));
  if (place + slot != start + memory.used) {
    memory.holes[place] = slot;
    return true;
  }
  memory.used = place - start;
  // What is far above is given back to the machine, which several ranks share.
  const std::size_t kept = (memory.used / mib + 64) * mib;
  if (memory.touched > kept && open_ < 0) {
    std::byte* from = (exchanges_ ? hidden_ + (base(device) - visible_) : base(device)) + kept;
    madvise(from, memory.touched - kept, MADV_DONTNEED);
    memory.touched = kept;
  }
  return true;
}

int Arena::device_of(const void* p) const {
  const auto *address = static_cast<const std::byte*>(p);
  if (address < visible_ || address >= hidden_) return -1;
  return static_cast<int>(static_cast<std::size_t>(address - visible_) / capacity_);
}

bool Arena::allocated(const void* p, std::size_t bytes) const {
  const int device = device_of(p);
  if (device < 0) return false;
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  const auto& allocations = memory_[device].allocations;
  auto found = allocations.upper_bound(address);
  if (found == allocations.begin()) return false;
  --found;
  const std::size_t offset = address - found->first;
  return offset <= found->second && bytes <= found->second - offset;
}

const void* Arena::allocation_of(const void* p) const {
  return reinterpret_cast<const void*>(std::prev(memory_[device_of(p)].allocations.upper_bound(reinterpret_cast<std::uintptr_t>(p)))->first);
}

void Arena::describe(const void* p, char* text, std::size_t size) const {
  text[0] = 0;
  const int device = device_of(p);
  if (device < 0) return;
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  const auto& allocations = memory_[device].allocations;
  auto found = allocations.upper_bound(address);
  if (found != allocations.begin() && address < (--found)->first + slot_of(found->second))
    std::snprintf(text, size, " (device %d, byte %zu of an allocation of %zu)", device, address - found->first, found->second);
  else
    std::snprintf(text, size, " (device %d, not allocated or released)", device);
}

}  // namespace thinwire::emulated
