#include "collectives/link/empty_bucket.h"

#include <algorithm>
#include <cstring>

namespace thinwire {
namespace {

constexpr int bucket_tag = 31001;
constexpr int answer_tag = 31002;  // else an answer could meet the message of a partner that sends as well

}  // namespace

EmptyBucket::EmptyBucket(Communicator& communicator, Role role, int peer, std::int64_t bytes,
                         std::int64_t bucket_bytes)
    : communicator_(communicator), role_(role), peer_(peer) {
  const std::int64_t most = std::max<std::int64_t>(2 * bucket_bytes, sizeof start_ns_);
  const std::int64_t amount = std::clamp<std::int64_t>(bytes, std::max<std::int64_t>(bucket_bytes, sizeof start_ns_), most);
  const int n = communicator.size(), shift = std::max(1, n / 2), me = communicator.rank();
  if (role != Role::sender) {
    in_.reserve(static_cast<std::size_t>(most));
    const int from = role == Role::exchange ? (me - shift + n) % n : peer;
    receive_ = communicator.receive(in_.data(), most, from, bucket_tag);
  }
  if (role != Role::receiver) {
    out_.reserve(static_cast<std::size_t>(amount));
    std::memcpy(out_.data(), &start_ns_, sizeof start_ns_);
    send_ =
        communicator.send(out_.data(), amount, role == Role::exchange ? (me + shift) % n : peer, bucket_tag);
  }
}

// The message came (or went): tell its sender so, or meet all the others.
void EmptyBucket::arrived() {
  told_ = true;
  switch (role_) {
    case Role::exchange:
      receive_ = communicator_.all_reduce(&word_[0], &word_[1], 1, DType::u8, ReduceOp::max);
      return;
    case Role::sender:
      receive_ = communicator_.receive(&word_[0], 1, peer_, answer_tag);
      return;
    case Role::receiver: {
      std::int64_t set_out = 0;
      std::memcpy(&set_out, in_.data(), sizeof set_out);
      start_ns_ = std::max(start_ns_, set_out);
      send_ = communicator_.send(&word_[0], 1, peer_, answer_tag);
    }
  }
}

bool EmptyBucket::test() {
  while (true) {
    if (receive_ && receive_->test()) receive_.reset();
    if (send_ && send_->test()) send_.reset();
    if (receive_ || send_) return false;
    if (told_) return true;
    arrived();
  }
}

double EmptyBucket::untimed_us() const {
  return static_cast<double>(now_ns() - start_ns_) * 1e-3;
}

}  // namespace thinwire
