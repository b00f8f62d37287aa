#include "collectives/communicator/nccl_communicator.h"

#include <array>
#include <charconv>
#include <chrono>
#include <exception>
#include <thread>

#include "collectives/communicator/two_way_communicator.h"
#include "core/clock.h"
#include "core/device/placement.h"
#include "core/process/environment.h"

namespace thinwire {

NcclEntries NcclEntries::of_module() {
  NcclEntries e;
  const auto find = [](auto*& function, const char* name) { function = device_function<std::remove_pointer_t<std::remove_reference_t<decltype(function)>>>(name); };
  find(e.version, "thinwire_nccl_version");
  find(e.unique_id, "thinwire_nccl_unique_id");
  find(e.create, "thinwire_nccl_create");
  find(e.state, "thinwire_nccl_state");
  find(e.destroy, "thinwire_nccl_destroy");
  find(e.abort, "thinwire_nccl_abort");
  find(e.group, "thinwire_nccl_group");
  find(e.all_reduce, "thinwire_nccl_all_reduce");
  find(e.reduce_scatter, "thinwire_nccl_reduce_scatter");
  find(e.reduce, "thinwire_nccl_reduce");
  find(e.all_gather, "thinwire_nccl_all_gather");
  find(e.broadcast, "thinwire_nccl_broadcast");
  find(e.send, "thinwire_nccl_send");
  find(e.receive, "thinwire_nccl_receive");
  find(e.error_text, "thinwire_cuda_error_text");
  int version = 0;
  if (const int code = e.version(&version); code != 0) throw EnvironmentError(std::string("no NCCL: ") + e.error_text(code));
  return e;
}

double NcclCommunicator::default_limit_seconds() {
  const auto text = Environment::get("THINWIRE_NCCL_LIMIT");
  if (!text) return 120;
  double seconds = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), seconds);
  if (error != std::errc() || end != text->data() + text->size() || !(seconds > 0))
    throw UsageError("THINWIRE_NCCL_LIMIT is '" + *text + "'; it is a number of seconds above 0");
  return seconds;
}

std::string NcclCommunicator::why_unavailable() {
  if (std::string reason = thinwire::why_unavailable(DeviceKind::cuda); !reason.empty()) return reason;
  try {
    NcclEntries::of_module();
  } catch (const EnvironmentError& e) {
    return e.what();
  }
  return {};
}

class NcclCommunicator::BatchRequest final : public Request {
 public:
  BatchRequest(NcclCommunicator& owner, std::shared_ptr<Batch> batch) : owner_(owner), batch_(std::move(batch)), exceptions_(std::uncaught_exceptions()) {}
  BatchRequest(const BatchRequest&) = delete;
  BatchRequest& operator=(const BatchRequest&) = delete;
  // Not while an exception unwinds the stack: the partner may never come, and the job is about to end.
  ~BatchRequest() override {
    if (std::uncaught_exceptions() > exceptions_ || owner_.communicator_ == nullptr) return;
    try {
      wait();
    } catch (const Error&) {  // whoever waits for the next operation meets it
    }
  }
  bool test() override { return owner_.finished(*batch_); }

 private:
  NcclCommunicator& owner_;
  std::shared_ptr<Batch> batch_;
  int exceptions_;
};

NcclCommunicator::NcclCommunicator(std::unique_ptr<Communicator> bootstrap, const NcclEntries& entries, Device device, double limit_seconds)
    : bootstrap_(std::move(bootstrap)), nccl_(entries), device_(device), backend_(device_backend(device.kind)), limit_seconds_(limit_seconds),
      stream_(backend_.create_stream(device.ordinal)), called_(backend_.create_event(device.ordinal)), token_(16, device) {
  std::array<std::byte, nccl_unique_id_bytes> id{};
  std::int32_t code = rank() == 0 ? nccl_.unique_id(id.data()) : 0;
  bootstrap_->broadcast(&code, sizeof code, 0)->wait();
  check(code, "making NCCL's id on rank 0");
  bootstrap_->broadcast(id.data(), nccl_unique_id_bytes, 0)->wait();
  check(nccl_.create(&communicator_, size(), id.data(), rank(), device.ordinal), "making an NCCL communicator (two ranks on one device are not allowed)");
  settle("meeting the other ranks");
}

NcclCommunicator::~NcclCommunicator() {
  if (communicator_ != nullptr) {
    // What is still in flight while the stack unwinds has lost its partners.
    if (std::uncaught_exceptions() > 0) nccl_.abort(communicator_);
    else nccl_.destroy(communicator_);
  }
  backend_.destroy_event(called_);
  backend_.destroy_stream(stream_);
}

void NcclCommunicator::give_up(const std::string& why) {
  if (communicator_ != nullptr) nccl_.abort(communicator_);
  communicator_ = nullptr;
  throw RuntimeFailure("rank " + std::to_string(rank()) + " of " + std::to_string(size()) + ": " + why +
                       "; the communicator is given up. Look for the first rank that failed; NCCL_DEBUG=INFO says more");
}

void NcclCommunicator::check(int code, const char* what) {
  if (code != 0) give_up(std::string(what) + " failed: " + nccl_.error_text(code));
}

void NcclCommunicator::watch(const char* what) {
  if (communicator_ == nullptr) throw RuntimeFailure(std::string(what) + ": this communicator was given up after an earlier failure");
  int state = nccl_ready;
  check(nccl_.state(communicator_, &state), what);
  if (state > 0) give_up(std::string(what) + ": an error has arrived: " + nccl_.error_text(state));
}

void NcclCommunicator::settle(const char* what) {
  const Stopwatch watch_time;
  for (int turn = 0;; ++turn) {
    watch(what);
    int state = nccl_ready;
    check(nccl_.state(communicator_, &state), what);
    if (state != nccl_at_work) return;
    if (watch_time.seconds() > limit_seconds_)
      give_up(std::string(what) + " is not under way after " + std::to_string(static_cast<int>(limit_seconds_)) + " s (THINWIRE_NCCL_LIMIT)");
    if (turn > 100) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void NcclCommunicator::follow_caller() {
  const Placement& caller = placement();
  if (caller.device != device_) return;  // not queued anywhere: memory whose contents are there
  backend_.record(called_, caller.stream);
  backend_.wait(stream_, called_);
}

bool NcclCommunicator::finished(Batch& batch) {
  if (batch.done) return true;
  if (!batch.issued) flush();
  watch("waiting for an operation");
  if (!backend_.finished(batch.event)) return false;
  backend_.destroy_event(batch.event);
  return batch.done = true;
}

// Runs one call (or group of calls) and marks its end on the stream.
template <typename Call>
RequestPtr NcclCommunicator::start(const char* what, const Call& call) {
  flush();
  watch(what);
  follow_caller();
  check(call(), what);
  settle(what);
  auto batch = std::make_shared<Batch>();
  batch->event = backend_.create_event(device_.ordinal);
  backend_.record(batch->event, stream_);
  batch->issued = true;
  return std::make_unique<BatchRequest>(*this, std::move(batch));
}

template <typename Body>
RequestPtr NcclCommunicator::start_group(const char* what, const Body& body) {
  return start(what, [&] {
    if (const int code = nccl_.group(1, device_.ordinal); code != 0) return code;
    const int inside = body();
    const int end = nccl_.group(0, device_.ordinal);  // also after an error: the group is the thread's
    return inside != 0 ? inside : end;
  });
}

RequestPtr NcclCommunicator::enqueue(Message message) {
  watch("a message");
  follow_caller();
  waiting_.push_back(message);
  if (gathered_ == nullptr) gathered_ = std::make_shared<Batch>();
  return std::make_unique<BatchRequest>(*this, gathered_);
}

void NcclCommunicator::flush() {
  if (waiting_.empty()) return;
  const std::vector<Message> messages = std::move(waiting_);
  const std::shared_ptr<Batch> batch = std::move(gathered_);
  waiting_.clear();
  gathered_ = nullptr;
  check(nccl_.group(1, device_.ordinal), "a group of messages");
  int code = 0;
  for (const Message& m : messages) {
    if (code != 0) break;
    code = m.sends ? nccl_.send(communicator_, m.send, m.bytes, m.peer, stream_.handle)
                             : nccl_.receive(communicator_, m.receive, m.bytes, m.peer, stream_.handle);
  }
  const int end = nccl_.group(0, device_.ordinal);
  check(code != 0 ? code : end, "a group of messages");
  settle("a group of messages");
  batch->event = backend_.create_event(device_.ordinal);
  backend_.record(batch->event, stream_);
  batch->issued = true;
}

bool NcclCommunicator::supports(DType dtype, ReduceOp op) const { return dtype != DType::u16 && op != ReduceOp::bit_or; }

int NcclCommunicator::operator_of(DType dtype, ReduceOp op) const {
  if (!supports(dtype, op))
    throw UsageError("NCCL cannot reduce " + std::string(name_of(dtype)) + " with this operator; ask supports() first (bits: as bytes, with max)");
  return op == ReduceOp::max ? nccl_max : nccl_sum;
}

std::unique_ptr<Communicator> NcclCommunicator::duplicate() {
  return std::make_unique<NcclCommunicator>(bootstrap_->duplicate(), nccl_, device_, limit_seconds_);
}
std::unique_ptr<Communicator> NcclCommunicator::duplicate_for_messages() { return std::make_unique<TwoWayCommunicator>(duplicate(), duplicate()); }
std::unique_ptr<Communicator> NcclCommunicator::split(int color, int key) {
  auto part = bootstrap_->split(color, key);
  return part == nullptr ? nullptr : std::make_unique<NcclCommunicator>(std::move(part), nccl_, device_, limit_seconds_);
}

namespace {
std::size_t unsigned_of(std::int64_t n) { return static_cast<std::size_t>(n); }
const std::byte* at(const void* p, std::int64_t offset) { return static_cast<const std::byte*>(p) + offset; }
std::byte* at(void* p, std::int64_t offset) { return static_cast<std::byte*>(p) + offset; }
}  // namespace

RequestPtr NcclCommunicator::all_reduce(const void* send, void* receive, std::int64_t elements, DType dtype, ReduceOp op) {
  const int operation = operator_of(dtype, op);
  return start("all_reduce", [&] { return nccl_.all_reduce(communicator_, send, receive, unsigned_of(elements), static_cast<int>(dtype), operation, stream_.handle); });
}

RequestPtr NcclCommunicator::reduce_scatter(const void* send, void* receive, std::int64_t elements_per_rank, DType dtype, ReduceOp op) {
  const int operation = operator_of(dtype, op);
  return start("reduce_scatter", [&] {
    return nccl_.reduce_scatter(communicator_, send, receive, unsigned_of(elements_per_rank), static_cast<int>(dtype), operation, stream_.handle);
  });
}

// One reduction per shard, to its owner; the group makes them one operation.
RequestPtr NcclCommunicator::reduce_scatter_v(const void* send, void* receive, std::span<const std::int64_t> counts, DType dtype, ReduceOp op) {
  const int operation = operator_of(dtype, op);
  return start_group("reduce_scatter_v", [&] {
    std::int64_t offset = 0;
    for (int r = 0; r < size(); ++r) {
      const std::int64_t count = counts[static_cast<std::size_t>(r)];
      if (const int code = nccl_.reduce(communicator_, at(send, offset), receive, unsigned_of(count), static_cast<int>(dtype), operation, r, stream_.handle); code != 0)
        return code;
      offset += count * static_cast<std::int64_t>(size_of(dtype));
    }
    return 0;
  });
}

RequestPtr NcclCommunicator::reduce(const void* send, void* receive, std::int64_t elements, DType dtype, ReduceOp op, int root) {
  const int operation = operator_of(dtype, op);
  return start("reduce", [&] { return nccl_.reduce(communicator_, send, receive, unsigned_of(elements), static_cast<int>(dtype), operation, root, stream_.handle); });
}

RequestPtr NcclCommunicator::all_gather(const void* send, std::int64_t bytes, void* receive) {
  return start("all_gather", [&] { return nccl_.all_gather(communicator_, send, receive, unsigned_of(bytes), stream_.handle); });
}

RequestPtr NcclCommunicator::all_gather_v(const void* send, std::int64_t, void* receive, std::span<const std::int64_t> counts,
                                          std::span<const std::int64_t> offsets) {
  return start_group("all_gather_v", [&] {
    for (int r = 0; r < size(); ++r) {
      const auto i = static_cast<std::size_t>(r);
      const void* from = r == rank() ? send : at(receive, offsets[i]);
      if (const int code = nccl_.broadcast(communicator_, from, at(receive, offsets[i]), unsigned_of(counts[i]), r, stream_.handle); code != 0) return code;
    }
    return 0;
  });
}

RequestPtr NcclCommunicator::all_to_all_v(const void* send, std::span<const std::int64_t> send_counts, std::span<const std::int64_t> send_offsets, void* receive,
                                          std::span<const std::int64_t> receive_counts, std::span<const std::int64_t> receive_offsets) {
  return start_group("all_to_all_v", [&] {
    for (int r = 0; r < size(); ++r) {
      const auto i = static_cast<std::size_t>(r);
      if (const int code = nccl_.send(communicator_, at(send, send_offsets[i]), unsigned_of(send_counts[i]), r, stream_.handle); code != 0) return code;
      if (const int code = nccl_.receive(communicator_, at(receive, receive_offsets[i]), unsigned_of(receive_counts[i]), r, stream_.handle); code != 0) return code;
    }
    return 0;
  });
}

RequestPtr NcclCommunicator::broadcast(void* data, std::int64_t bytes, int root) {
  return start("broadcast", [&] { return nccl_.broadcast(communicator_, data, data, unsigned_of(bytes), root, stream_.handle); });
}

RequestPtr NcclCommunicator::send(const void* data, std::int64_t bytes, int to, int) { return enqueue({true, data, nullptr, unsigned_of(bytes), to}); }

RequestPtr NcclCommunicator::receive(void* data, std::int64_t bytes, int from, int, std::int64_t* received) {
  if (received != nullptr) *received = bytes;  // both ends know it
  return enqueue({false, nullptr, data, unsigned_of(bytes), from});
}

RequestPtr NcclCommunicator::signal(int to, int) { return enqueue({true, token_.data(), nullptr, 1, to}); }
RequestPtr NcclCommunicator::await_signal(int from, int) { return enqueue({false, nullptr, token_.data() + 8, 1, from}); }

// Waiting for the stream itself would never end where another rank is lost: a request looks for that.
void NcclCommunicator::barrier() {
  start("barrier", [] { return 0; })->wait();
  bootstrap_->barrier();
}

}  // namespace thinwire
