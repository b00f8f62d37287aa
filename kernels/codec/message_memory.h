// Bytes remembered per message until its backward pass (or its recomputation) has used them.
#pragma once

#include <span>
#include <vector>

#include "core/device/placement.h"
#include "kernels/codec/codec.h"

namespace thinwire {

/// The bytes lie where the thread computes, and are copied in the order of its stream (core/device/placement.h).
/// Grows to the largest number of messages that were waiting at once: a pipeline keeps as many micro-batches in
/// flight as it has stages, each with every message of its layers. The memory of a message that was used serves
/// the next one; until then the bytes can still be found, so that a backward pass may be repeated. Beyond
/// `capacity` waiting messages the oldest gives way. A message that is remembered again keeps its place.
class MessageMemory {
 public:
  explicit MessageMemory(std::size_t capacity = 4096) : capacity_(capacity) {}
  std::size_t capacity() const { return capacity_; }

  /// Room for `size` bytes of this message, to be filled by the caller; valid until the next call.
  std::span<std::byte> remember(const MessageKey& key, std::size_t size) {
    Slot* slot = slot_of(key);
    if (slot == nullptr) slot = free_slot();
    *slot = Slot{key.random_stream(), ++clock_, size, true, std::move(slot->bytes)};
    slot->bytes.reserve(size + 1);
    return {slot->bytes.data(), size};
  }
  void remember(const MessageKey& key, std::span<const std::byte> bytes) {
    const std::span<std::byte> to = remember(key, bytes.size());
    copy_bytes(to.data(), bytes.data(), bytes.size());
  }
  /// False when the message is not here (any more).
  bool find(const MessageKey& key, std::span<std::byte>& bytes) {
    Slot* slot = slot_of(key);
    if (slot == nullptr) return false;
    bytes = {slot->bytes.data(), slot->size};
    return true;
  }
  /// Whether the message is here and was not used yet.
  bool waiting(const MessageKey& key) {
    const Slot* slot = slot_of(key);
    return slot != nullptr && slot->waiting;
  }
  /// The message was used, or never will be: its memory may serve another one.
  void release(const MessageKey& key) {
    if (Slot* slot = slot_of(key)) slot->waiting = false;
  }
  /// Messages that wait for their use, and how many have a place (waiting or to be used again).
  std::size_t waiting() const {
    std::size_t count = 0;
    for (const Slot& slot : slots_) count += slot.waiting ? 1 : 0;
    return count;
  }
  std::size_t places() const { return slots_.size(); }

 private:
  struct Slot {
    std::uint64_t message = 0;
    std::uint64_t time = 0;
    std::size_t size = 0;
    bool waiting = false;
    Buffer bytes;
  };
  Slot* slot_of(const MessageKey& key) {
    const std::uint64_t message = key.random_stream();
    for (Slot& slot : slots_)
      if (slot.message == message) return &slot;
    return nullptr;
  }
  // The used message of longest standing; else a new place; else the oldest of those that wait.
  Slot* free_slot() {
    Slot* oldest = nullptr;
    for (Slot& slot : slots_)
      if (!slot.waiting && (oldest == nullptr || slot.time < oldest->time)) oldest = &slot;
    if (oldest != nullptr) return oldest;
    if (slots_.size() < capacity_) return &slots_.emplace_back();
    for (Slot& slot : slots_)
      if (oldest == nullptr || slot.time < oldest->time) oldest = &slot;
    return oldest;
  }
  std::size_t capacity_;
  std::vector<Slot> slots_;
  std::uint64_t clock_ = 0;
};

}  // namespace thinwire
