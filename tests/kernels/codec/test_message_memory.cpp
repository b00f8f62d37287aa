// labels: unit
// Messages that wait for their backward pass: how many places there are, and which give way.
#include <gtest/gtest.h>

#include <cstring>

#include "kernels/codec/message_memory.h"

namespace thinwire {
namespace {

MessageKey key_of(std::int64_t step, std::int32_t micro_batch) {
  MessageKey key;
  key.tensor = hash_name("x");
  key.step = step;
  key.micro_batch = micro_batch;
  return key;
}
void remember(MessageMemory& memory, const MessageKey& key, int value) {
  memory.remember(key, {reinterpret_cast<const std::byte*>(&value), sizeof value});
}
int value_of(MessageMemory& memory, const MessageKey& key) {
  std::span<std::byte> bytes;
  int value = -1;
  if (memory.find(key, bytes)) std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

TEST(MessageMemory, HasAsManyPlacesAsMessagesEverWaitedAtOnce) {
  MessageMemory memory;
  for (int step = 0; step < 100; ++step) {
    for (int m = 0; m < 6; ++m) remember(memory, key_of(step, m), 10 * step + m);
    EXPECT_EQ(memory.waiting(), 6u);
    for (int m = 5; m >= 0; --m) {
      EXPECT_EQ(value_of(memory, key_of(step, m)), 10 * step + m);
      memory.release(key_of(step, m));
      EXPECT_FALSE(memory.waiting(key_of(step, m)));
      EXPECT_EQ(value_of(memory, key_of(step, m)), 10 * step + m) << "until another message needs the place";
    }
    EXPECT_EQ(memory.waiting(), 0u);
    EXPECT_EQ(memory.places(), 6u);
  }
}

TEST(MessageMemory, TheOldestGivesWayBeyondItsCapacityAndAMessageKeepsItsPlace) {
  MessageMemory memory(3);
  for (int m : {0, 1, 2}) remember(memory, key_of(0, m), m);
  remember(memory, key_of(0, 0), 7);
  EXPECT_EQ(memory.places(), 3u);
  remember(memory, key_of(0, 3), 3);
  EXPECT_EQ(value_of(memory, key_of(0, 0)), 7);
  EXPECT_EQ(value_of(memory, key_of(0, 1)), -1) << "the oldest";
  EXPECT_EQ(value_of(memory, key_of(0, 2)), 2);
  EXPECT_EQ(value_of(memory, key_of(0, 3)), 3);
}

}  // namespace
}  // namespace thinwire
