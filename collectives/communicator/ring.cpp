#include "collectives/communicator/ring.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include "collectives/communicator/local_reduce.h"

namespace thinwire {
namespace {

constexpr int most_lanes = 4;
constexpr std::int64_t lane_bytes = 128 * 1024;  // below this, splitting costs more messages than it overlaps
constexpr int lane_tag = 20000;

/// A run of elements within the whole tensor.
struct Range {
  std::int64_t first = 0, count = 0;
};

/// One lane: the same part of every block, travelling round the ring in steps of its own.
struct Lane {
  std::vector<Range> blocks;
  int step = 0;
  bool posted = false;
  RequestPtr send, receive;
};

}  // namespace

/// The operation in flight and the memory that outlives it.
struct Ring::Progress {
  Communicator& comm;
  int n, rank;
  // The operation: `reduce` steps of a reduce-scatter, then `gather` steps of an all-gather.
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::int64_t output_first = 0;  // element at which `output` begins (reduce-scatter: my block)
  std::int64_t size = 1;
  DType dtype = DType::u8;
  ReduceOp op = ReduceOp::sum;
  int reduce_steps = 0, gather_steps = 0;
  bool in_place = false;
  bool busy = false;
  std::vector<Lane> lanes;
  std::vector<Buffer> scratch;  // two per lane
  LinkBytes counted;

  explicit Progress(Communicator& communicator)
      : comm(communicator), n(communicator.size()), rank(communicator.rank()) {}

  const Range& block(const Lane& lane, int index) const {
    return lane.blocks[static_cast<std::size_t>(((index % n) + n) % n)];
  }
  std::byte* out(const Range& range) { return output + (range.first - output_first) * size; }
  const std::byte* in(const Range& range) const { return input + range.first * size; }

  void begin(std::span<const std::int64_t> counts);
  bool advance();
  void post(Lane& lane, int tag);
  void finish_step(Lane& lane, int tag);
  void exchange(Lane& lane, int tag, const std::byte* from, const Range& sent, std::byte* to,
                const Range& received);
  std::byte* partial(const Lane& lane, int lane_index, int step);
};

// Where the partial sum that arrives in `step` lies: the last one is the result itself.
std::byte* Ring::Progress::partial(const Lane& lane, int lane_index, int step) {
  const Range& range = block(lane, rank - step - 2);
  if (step == n - 2 && !in_place) return out(range);
  Buffer& buffer = scratch[static_cast<std::size_t>(2 * lane_index + step % 2)];
  TW_ASSERT(buffer.capacity() >= static_cast<std::size_t>(range.count * size));
  return buffer.data();
}

void Ring::Progress::exchange(Lane& lane, int tag, const std::byte* from, const Range& sent, std::byte* to,
                              const Range& received) {
  // Both neighbours know both sizes, so nothing travels for an empty block.
  if (received.count > 0) {
    lane.receive = comm.receive(to, received.count * size, (rank - 1 + n) % n, lane_tag + tag);
    counted.received += received.count * size;
  }
  if (sent.count > 0) {
    lane.send = comm.send(from, sent.count * size, (rank + 1) % n, lane_tag + tag);
    counted.sent += sent.count * size;
  }
}

void Ring::Progress::post(Lane& lane, int tag) {
  const int s = lane.step;
  if (s < reduce_steps) {
    const Range& sent = block(lane, rank - s - 1);
    const std::byte* from = s == 0 ? in(sent) : partial(lane, tag, s - 1);
    exchange(lane, tag, from, sent, partial(lane, tag, s), block(lane, rank - s - 2));
  } else {
    const int g = s - reduce_steps;
    const Range& sent = block(lane, rank - g);
    const Range& received = block(lane, rank - g - 1);
    exchange(lane, tag, out(sent), sent, out(received), received);
  }
  lane.posted = true;
}

void Ring::Progress::finish_step(Lane& lane, int tag) {
  const int s = lane.step++;
  lane.posted = false;
  if (s >= reduce_steps) return;
  const Range& range = block(lane, rank - s - 2);
  std::byte* sum = partial(lane, tag, s);
  if (range.count > 0) reduce_into(sum, in(range), range.count, dtype, op);
  if (s == n - 2 && in_place && range.count > 0)
    std::memcpy(out(range), sum, static_cast<std::size_t>(range.count * size));
}

bool Ring::Progress::advance() {
  bool all_done = true;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    Lane& lane = lanes[i];
    while (lane.step < reduce_steps + gather_steps) {
      if (!lane.posted) post(lane, static_cast<int>(i));
      if (lane.receive && lane.receive->test()) lane.receive.reset();
      if (lane.send && lane.send->test()) lane.send.reset();
      if (lane.receive || lane.send) {
        all_done = false;
        break;
      }
      finish_step(lane, static_cast<int>(i));
    }
  }
  if (all_done) busy = false;
  return all_done;
}

void Ring::Progress::begin(std::span<const std::int64_t> counts) {
  TW_ASSERT(!busy, "a ring carries one operation at a time");
  TW_ASSERT(counts.size() == static_cast<std::size_t>(n));
  busy = true;
  counted = {};
  const std::int64_t largest = *std::max_element(counts.begin(), counts.end());
  const int count = static_cast<int>(std::clamp<std::int64_t>(largest * size / lane_bytes, 1, most_lanes));
  lanes.clear();
  lanes.resize(static_cast<std::size_t>(count));
  std::int64_t first = 0;
  for (std::int64_t block_count : counts) {
    for (int l = 0; l < count; ++l) {
      const RowBlock part = shard_rows(block_count, l, count);
      lanes[static_cast<std::size_t>(l)].blocks.push_back({first + part.first, part.count});
    }
    first += block_count;
  }
  if (reduce_steps == 0) return;
  while (scratch.size() < static_cast<std::size_t>(2 * count)) scratch.emplace_back(Device{});  // sums are the host's, whatever the thread computes on
  for (Buffer& buffer : scratch)
    buffer.reserve(static_cast<std::size_t>((largest + count - 1) / count * size));
}

namespace {

class RingRequest final : public Request {
 public:
  explicit RingRequest(std::shared_ptr<Ring::Progress> progress) : progress_(std::move(progress)) { test(); }
  RingRequest(const RingRequest&) = delete;
  RingRequest& operator=(const RingRequest&) = delete;
  ~RingRequest() override {
    if (done_ || std::uncaught_exceptions() > 0) return;
    try {
      wait();
    } catch (const Error&) {
    }
  }
  bool test() override {
    if (!done_) done_ = progress_->advance();
    return done_;
  }

 private:
  std::shared_ptr<Ring::Progress> progress_;
  bool done_ = false;
};

}  // namespace

Ring::Ring(Communicator& communicator)
    : communicator_(communicator), progress_(std::make_shared<Progress>(communicator)) {}
Ring::~Ring() = default;

LinkBytes Ring::counted() const {
  return progress_->counted;
}

RequestPtr Ring::all_reduce(const void* send, void* receive, std::int64_t elements, DType dtype,
                            ReduceOp op) {
  Progress& p = *progress_;
  p.input = static_cast<const std::byte*>(send);
  p.output = static_cast<std::byte*>(receive);
  p.output_first = 0;
  p.size = static_cast<std::int64_t>(size_of(dtype));
  p.dtype = dtype;
  p.op = op;
  p.in_place = send == receive;
  p.reduce_steps = p.gather_steps = p.n - 1;
  p.begin(shard_counts(elements, p.n));
  if (p.n == 1 && !p.in_place && elements > 0)
    std::memcpy(receive, send, static_cast<std::size_t>(elements * p.size));
  return std::make_unique<RingRequest>(progress_);
}

RequestPtr Ring::reduce_scatter(const void* send, void* receive, std::span<const std::int64_t> counts,
                                DType dtype, ReduceOp op) {
  Progress& p = *progress_;
  p.input = static_cast<const std::byte*>(send);
  p.output = static_cast<std::byte*>(receive);
  p.output_first = 0;
  for (int r = 0; r < p.rank; ++r) p.output_first += counts[static_cast<std::size_t>(r)];
  p.size = static_cast<std::int64_t>(size_of(dtype));
  p.dtype = dtype;
  p.op = op;
  p.in_place = false;
  p.reduce_steps = p.n - 1;
  p.gather_steps = 0;
  p.begin(counts);
  if (p.n == 1 && counts[0] > 0) std::memcpy(receive, send, static_cast<std::size_t>(counts[0] * p.size));
  return std::make_unique<RingRequest>(progress_);
}

RequestPtr Ring::all_gather(const void* send, void* receive, std::span<const std::int64_t> counts) {
  Progress& p = *progress_;
  p.output = static_cast<std::byte*>(receive);
  p.output_first = 0;
  p.size = 1;
  p.dtype = DType::u8;
  p.in_place = false;
  p.reduce_steps = 0;
  p.gather_steps = p.n - 1;
  std::int64_t offset = 0;
  for (int r = 0; r < p.rank; ++r) offset += counts[static_cast<std::size_t>(r)];
  const std::int64_t mine = counts[static_cast<std::size_t>(p.rank)];
  if (mine > 0 && p.output + offset != send)
    std::memcpy(p.output + offset, send, static_cast<std::size_t>(mine));
  p.begin(counts);
  return std::make_unique<RingRequest>(progress_);
}

}  // namespace thinwire
