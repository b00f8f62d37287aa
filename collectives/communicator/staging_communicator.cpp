#include "collectives/communicator/staging_communicator.h"

#include <algorithm>
#include <exception>
#include <numeric>
#include <utility>

#include "collectives/process/waiter.h"
#include "core/device/placement.h"

namespace thinwire {
namespace {

std::byte* device_bytes(const void* p) { return static_cast<std::byte*>(const_cast<void*>(p)); }
std::vector<std::int64_t> copy_of(std::span<const std::int64_t> values) { return {values.begin(), values.end()}; }

/// 64-byte aligned places for blocks of these sizes; returns the total.
std::int64_t places_of(std::span<const std::int64_t> sizes, std::vector<std::int64_t>& places) {
  places.resize(sizes.size());
  std::int64_t end = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    places[i] = end;
    end += (sizes[i] + 63) / 64 * 64;
  }
  return end;
}

}  // namespace

StagingCommunicator::Memory::~Memory() {
  if (data != nullptr) device_backend(device.kind).release_staging(data, device.ordinal);
}

void StagingCommunicator::Memory::reserve(std::int64_t bytes) {
  if (bytes <= capacity) return;
  DeviceBackend& backend = device_backend(device.kind);
  if (data != nullptr) backend.release_staging(std::exchange(data, nullptr), device.ordinal);
  capacity = 0;
  data = static_cast<std::byte*>(backend.allocate_staging(static_cast<std::size_t>(bytes), device.ordinal));
  capacity = bytes;
}

/// Down, across, up. Its stages are taken when it is tested.
class StagingCommunicator::Staged final : public Request {
 public:
  Staged(StagingCommunicator& owner, Call call)
      : owner_(owner), call_(std::move(call)), stream_(placement().stream), exceptions_(std::uncaught_exceptions()), memory_(owner.borrow(call_.down_bytes + call_.up_bytes)) {
    for (const Part& part : call_.down) copy(memory_->data + part.place, part.device, part.bytes);
    memory_->reached.record(stream_);
    owner_.waiting_.push_back(this);
    owner_.progress();
  }
  Staged(const Staged&) = delete;
  Staged& operator=(const Staged&) = delete;
  ~Staged() override {
    if (done_) return;
    if (std::uncaught_exceptions() == exceptions_) {
      try {
        wait();
        return;
      } catch (const Error&) {  // whoever waits for the next operation meets it
      }
    }
    std::erase(owner_.waiting_, this);
    owner_.free_.push_back(std::move(memory_));
  }

  bool came_down() const { return memory_->reached.finished(); }
  void start() {
    const PlacementScope host{Device{}};
    request_ = call_.start(memory_->data, memory_->data + call_.down_bytes);
    started_ = true;
  }
  bool test() override {
    if (done_) return true;
    if (!started_) owner_.progress();
    if (!started_) return false;
    if (request_ != nullptr) {
      const PlacementScope host{Device{}};
      if (!request_->test()) return false;
      request_.reset();
    }
    for (const Part& part : call_.up)
      copy(part.device, memory_->data + call_.down_bytes + part.place, call_.arrived != nullptr ? std::min(*call_.arrived, part.bytes) : part.bytes);
    if (call_.received != nullptr) *call_.received = *call_.arrived;
    memory_->reached.record(stream_);
    owner_.free_.push_back(std::move(memory_));
    return done_ = true;
  }

 private:
  void copy(std::byte* to, const std::byte* from, std::int64_t bytes) {
    if (bytes > 0) device_backend(owner_.device_.kind).copy(to, from, static_cast<std::size_t>(bytes), stream_);
  }

  StagingCommunicator& owner_;
  Call call_;
  Stream stream_;
  int exceptions_;
  std::unique_ptr<Memory> memory_;
  bool started_ = false, done_ = false;
  RequestPtr request_;  // last: what is still in flight is waited for before the memory above goes
};

StagingCommunicator::StagingCommunicator(std::unique_ptr<Communicator> inner, Device device)
    : inner_(std::move(inner)), device_(device), direct_(inner_->takes_device_addresses()) {}

StagingCommunicator::~StagingCommunicator() {
  for (const auto& memory : free_) {
    // Copies may still read from or write to it. Not while the stack unwinds: the stream may never come there.
    Waiter waiter;
    while (std::uncaught_exceptions() == 0 && !memory->reached.finished()) waiter.pause();
  }
}

std::unique_ptr<Communicator> StagingCommunicator::duplicate() { return std::make_unique<StagingCommunicator>(inner_->duplicate(), device_); }
std::unique_ptr<Communicator> StagingCommunicator::split(int color, int key) {
  auto part = inner_->split(color, key);
  return part == nullptr ? nullptr : std::make_unique<StagingCommunicator>(std::move(part), device_);
}
std::string StagingCommunicator::transport() const { return inner_->transport() + (direct_ ? ", CUDA-aware" : ", staged through page-locked memory"); }

namespace {
class Done final : public Request {
 public:
  bool test() override { return true; }
};
}  // namespace

RequestPtr StagingCommunicator::alone(const void* send, void* receive, std::int64_t bytes) {
  TW_ASSERT(placement().device == device_, "an operation on device memory needs a placement on that device");
  if (send != receive) copy_bytes(receive, send, static_cast<std::size_t>(bytes));
  return std::make_unique<Done>();
}

// The smallest that holds `bytes`, else the largest, of those that no copy uses any more.
std::unique_ptr<StagingCommunicator::Memory> StagingCommunicator::borrow(std::int64_t bytes) {
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (!(*it)->reached.finished()) continue;
    const auto rank = [&](const Memory& m) { return m.capacity >= bytes ? std::pair(0, m.capacity) : std::pair(1, -m.capacity); };
    if (best == free_.end() || rank(**it) < rank(**best)) best = it;
  }
  std::unique_ptr<Memory> memory;
  if (best == free_.end()) {
    memory = std::make_unique<Memory>(device_);
  } else {
    memory = std::move(*best);
    free_.erase(best);
  }
  memory->reserve(bytes);
  return memory;
}

void StagingCommunicator::progress() {
  while (!waiting_.empty() && waiting_.front()->came_down()) {
    Staged* next = waiting_.front();
    waiting_.pop_front();
    next->start();
  }
}

RequestPtr StagingCommunicator::staged(Call call) {
  TW_ASSERT(placement().device == device_, "an operation on device memory needs a placement on that device");
  return std::make_unique<Staged>(*this, std::move(call));
}

RequestPtr StagingCommunicator::direct(std::function<RequestPtr()> start) {
  Call call;
  call.start = [start = std::move(start)](const void*, void*) { return start(); };
  return staged(std::move(call));
}

RequestPtr StagingCommunicator::all_reduce_by(const void* send, void* receive, std::int64_t bytes, Start start) {
  if (size() == 1) return alone(send, receive, bytes);
  // In place, as the library may: one page-locked tensor instead of two.
  return staged({.down = {{device_bytes(send), bytes, 0}},
                 .up = {{device_bytes(receive), bytes, -bytes}},
                 .down_bytes = bytes,
                 .up_bytes = 0,
                 .start = [start = std::move(start)](const void* from, void*) { return start(from, const_cast<void*>(from)); }});
}

RequestPtr StagingCommunicator::all_reduce(const void* send, void* receive, std::int64_t elements, DType dtype, ReduceOp op) {
  const auto start = [=, this](const void* from, void* to) { return inner_->all_reduce(from, to, elements, dtype, op); };
  if (reduces_directly(dtype)) return direct([=] { return start(send, receive); });
  return all_reduce_by(send, receive, elements * static_cast<std::int64_t>(size_of(dtype)), start);
}

RequestPtr StagingCommunicator::reduce_scatter_by(const void* send, std::int64_t send_bytes, void* receive, std::int64_t receive_bytes, Start start) {
  if (size() == 1) return alone(send, receive, receive_bytes);
  const std::int64_t down = (send_bytes + 63) / 64 * 64;
  return staged({.down = {{device_bytes(send), send_bytes, 0}},
                 .up = {{device_bytes(receive), receive_bytes, 0}},
                 .down_bytes = down,
                 .up_bytes = receive_bytes,
                 .start = std::move(start)});
}

RequestPtr StagingCommunicator::reduce_scatter(const void* send, void* receive, std::int64_t elements_per_rank, DType dtype, ReduceOp op) {
  const auto start = [=, this](const void* from, void* to) { return inner_->reduce_scatter(from, to, elements_per_rank, dtype, op); };
  if (reduces_directly(dtype)) return direct([=] { return start(send, receive); });
  const std::int64_t shard = elements_per_rank * static_cast<std::int64_t>(size_of(dtype));
  return reduce_scatter_by(send, shard * size(), receive, shard, start);
}

RequestPtr StagingCommunicator::reduce_scatter_v(const void* send, void* receive, std::span<const std::int64_t> counts, DType dtype, ReduceOp op) {
  const auto start = [=, this, own = copy_of(counts)](const void* from, void* to) { return inner_->reduce_scatter_v(from, to, own, dtype, op); };
  if (reduces_directly(dtype)) return direct([=] { return start(send, receive); });
  const auto width = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  return reduce_scatter_by(send, total * width, receive, counts[static_cast<std::size_t>(rank())] * width, start);
}

RequestPtr StagingCommunicator::reduce(const void* send, void* receive, std::int64_t elements, DType dtype, ReduceOp op, int root) {
  const bool receives = root == rank();
  const auto start = [=, this](const void* from, void* to) { return inner_->reduce(from, receives ? to : nullptr, elements, dtype, op, root); };
  if (reduces_directly(dtype)) return direct([=] { return start(send, receive); });
  const std::int64_t bytes = elements * static_cast<std::int64_t>(size_of(dtype));
  return reduce_scatter_by(send, bytes, receive, receives ? bytes : 0, start);
}

RequestPtr StagingCommunicator::all_gather(const void* send, std::int64_t bytes, void* receive) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(size()), bytes), offsets(counts.size());
  for (std::size_t r = 0; r < offsets.size(); ++r) offsets[r] = static_cast<std::int64_t>(r) * bytes;
  if (direct_) return direct([=, this] { return inner_->all_gather(send, bytes, receive); });
  return all_gather_by(send, bytes, receive, counts, offsets, [=, this](const void* from, void* to) { return inner_->all_gather(from, bytes, to); });
}

RequestPtr StagingCommunicator::all_gather_by(const void* send, std::int64_t bytes, void* receive, std::span<const std::int64_t> counts,
                                              std::span<const std::int64_t> offsets, Start start) {
  if (size() == 1) return alone(send, device_bytes(receive) + offsets[0], bytes);
  Call call{.down = {{device_bytes(send), bytes, 0}}, .up = {}, .down_bytes = (bytes + 63) / 64 * 64, .up_bytes = 0, .start = std::move(start)};
  for (std::size_t r = 0; r < counts.size(); ++r) {
    if (counts[r] == 0) continue;
    call.up_bytes = std::max(call.up_bytes, offsets[r] + counts[r]);
    std::byte* target = device_bytes(receive) + offsets[r];
    if (r == static_cast<std::size_t>(rank())) {  // stays on the device
      if (target != send) copy_bytes(target, send, static_cast<std::size_t>(bytes));
      continue;
    }
    Part* last = call.up.empty() ? nullptr : &call.up.back();
    if (last != nullptr && last->place + last->bytes == offsets[r])
      last->bytes += counts[r];
    else
      call.up.push_back({target, counts[r], offsets[r]});
  }
  return staged(std::move(call));
}

RequestPtr StagingCommunicator::all_gather_v(const void* send, std::int64_t bytes, void* receive, std::span<const std::int64_t> counts,
                                             std::span<const std::int64_t> offsets) {
  const auto start = [=, this, own_counts = copy_of(counts), own_offsets = copy_of(offsets)](const void* from, void* to) {
    return inner_->all_gather_v(from, bytes, to, own_counts, own_offsets);
  };
  if (direct_) return direct([=] { return start(send, receive); });
  return all_gather_by(send, bytes, receive, counts, offsets, start);
}

RequestPtr StagingCommunicator::all_to_all_v(const void* send, std::span<const std::int64_t> send_counts, std::span<const std::int64_t> send_offsets,
                                             void* receive, std::span<const std::int64_t> receive_counts,
                                             std::span<const std::int64_t> receive_offsets) {
  if (size() == 1) return alone(device_bytes(send) + send_offsets[0], device_bytes(receive) + receive_offsets[0], send_counts[0]);
  auto counts = copy_of(send_counts), offsets = copy_of(send_offsets), arriving = copy_of(receive_counts), targets = copy_of(receive_offsets);
  if (direct_) {
    return direct([=, this] { return inner_->all_to_all_v(send, counts, offsets, receive, arriving, targets); });
  }
  Call call;
  std::vector<std::int64_t> from_places, to_places;
  call.down_bytes = places_of(counts, from_places);
  call.up_bytes = places_of(arriving, to_places);
  for (std::size_t r = 0; r < counts.size(); ++r) {
    call.down.push_back({device_bytes(send) + offsets[r], counts[r], from_places[r]});
    call.up.push_back({device_bytes(receive) + targets[r], arriving[r], to_places[r]});
  }
  call.start = [=, this](const void* from, void* to) { return inner_->all_to_all_v(from, counts, from_places, to, arriving, to_places); };
  return staged(std::move(call));
}

RequestPtr StagingCommunicator::broadcast(void* data, std::int64_t bytes, int root) {
  if (direct_) return direct([=, this] { return inner_->broadcast(data, bytes, root); });
  if (size() == 1) return alone(data, data, bytes);
  const Part part{device_bytes(data), bytes, 0};
  if (rank() == root)
    return staged({.down = {part}, .up = {}, .down_bytes = bytes, .up_bytes = 0, .start = [=, this](const void* from, void*) {
                     return inner_->broadcast(const_cast<void*>(from), bytes, root);
                   }});
  return staged({.down = {}, .up = {part}, .down_bytes = 0, .up_bytes = bytes, .start = [=, this](const void*, void* to) { return inner_->broadcast(to, bytes, root); }});
}

RequestPtr StagingCommunicator::send(const void* data, std::int64_t bytes, int to, int tag) {
  if (direct_) return direct([=, this] { return inner_->send(data, bytes, to, tag); });
  return staged({.down = {{device_bytes(data), bytes, 0}}, .up = {}, .down_bytes = bytes, .up_bytes = 0, .start = [=, this](const void* from, void*) {
                   return inner_->send(from, bytes, to, tag);
                 }});
}

RequestPtr StagingCommunicator::receive(void* data, std::int64_t bytes, int from, int tag, std::int64_t* received) {
  if (direct_) return direct([=, this] { return inner_->receive(data, bytes, from, tag, received); });
  auto arrived = std::make_shared<std::int64_t>(0);
  return staged({.down = {},
                 .up = {{device_bytes(data), bytes, 0}},
                 .down_bytes = 0,
                 .up_bytes = bytes,
                 .start = [=, this](const void*, void* to) { return inner_->receive(to, bytes, from, tag, arrived.get()); },
                 .arrived = arrived,
                 .received = received});
}

}  // namespace thinwire
