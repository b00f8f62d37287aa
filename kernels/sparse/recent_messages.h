// Bytes remembered per message, for the few messages whose backward pass is still to come.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "core/device.h"
#include "kernels/codec/codec.h"

namespace thinwire {

/// A ring: the newest `capacity` messages; the oldest gives way and its memory is used again. A message that
/// is remembered again (recomputation) keeps its place.
class RecentMessages {
 public:
  explicit RecentMessages(std::size_t capacity) : slots_(capacity) {}
  std::size_t capacity() const { return slots_.size(); }

  void remember(const MessageKey& key, std::span<const std::byte> bytes) {
    Slot* slot = slot_of(key);
    if (slot == nullptr) {
      slot = &slots_[next_];
      next_ = (next_ + 1) % slots_.size();
    }
    slot->used = true;
    slot->message = key.random_stream();
    slot->size = bytes.size();
    slot->bytes.reserve(bytes.size() + 1);
    if (!bytes.empty()) std::memcpy(slot->bytes.data(), bytes.data(), bytes.size());
  }
  /// False when the message is not among the newest.
  bool find(const MessageKey& key, std::span<const std::byte>& bytes) {
    const Slot* slot = slot_of(key);
    if (slot == nullptr) return false;
    bytes = {slot->bytes.data(), slot->size};
    return true;
  }

 private:
  struct Slot {
    bool used = false;
    std::uint64_t message = 0;
    std::size_t size = 0;
    Buffer bytes;
  };
  Slot* slot_of(const MessageKey& key) {
    for (Slot& slot : slots_)
      if (slot.used && slot.message == key.random_stream()) return &slot;
    return nullptr;
  }
  std::vector<Slot> slots_;
  std::size_t next_ = 0;
};

}  // namespace thinwire
