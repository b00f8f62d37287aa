#include "collectives/communicator/mpi_communicator.h"

#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

#include <algorithm>
#include <exception>
#include <numeric>
#include <string>
#include <vector>

#include "collectives/communicator/local_reduce.h"
#include "collectives/process/rank_clock.h"
#include "collectives/process/waiter.h"
#include "collectives/process/mpi_error.h"
#include "collectives/communicator/mpi_requests.h"
#include "collectives/process/watchdog.h"
#include "core/process/environment.h"

namespace thinwire {

RequestPtr Communicator::reduce_scatter_v(const void* send, void* receive,
                                          std::span<const std::int64_t> counts, DType dtype, ReduceOp op) {
  if (std::any_of(counts.begin(), counts.end(), [&](std::int64_t c) { return c != counts[0]; })) {
    throw UsageError(
        "this communicator scatters equal shards only; choose rows divisible by the number of ranks");
  }
  return reduce_scatter(send, receive, counts[0], dtype, op);
}

namespace {

MPI_Datatype mpi_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return MPI_FLOAT;
    case DType::f64:
      return MPI_DOUBLE;
    case DType::i8:
      return MPI_INT8_T;
    case DType::u8:
      return MPI_UINT8_T;
    case DType::f16:  // carried as 16 bits; the operator below knows what they mean
    case DType::bf16:
    case DType::u16:
      return MPI_UINT16_T;
    case DType::i32:
      return MPI_INT32_T;
    case DType::i64:
      return MPI_INT64_T;
  }
  return MPI_BYTE;
}

void sum_f16(void* in, void* in_out, int* count, MPI_Datatype*) {
  reduce_into(in_out, in, *count, DType::f16, ReduceOp::sum);
}
void sum_bf16(void* in, void* in_out, int* count, MPI_Datatype*) {
  reduce_into(in_out, in, *count, DType::bf16, ReduceOp::sum);
}

// Created on first use and kept for the life of the process, as MPI's own operators are.
MPI_Op user_op(MPI_User_function* function) {
  MPI_Op op = MPI_OP_NULL;
  TW_MPI(MPI_Op_create(function, 1, &op));
  return op;
}

MPI_Op mpi_op(DType dtype, ReduceOp op) {
  if (!can_reduce(dtype, op)) {
    throw UsageError("MPI cannot reduce " + std::string(name_of(dtype)) +
                     " with this operator; ask supports() first");
  }
  switch (op) {
    case ReduceOp::max:
      return MPI_MAX;
    case ReduceOp::bit_or:
      return MPI_BOR;
    case ReduceOp::sum:
      break;
  }
  if (dtype == DType::f16) {
    static const MPI_Op sum = user_op(sum_f16);
    return sum;
  }
  if (dtype == DType::bf16) {
    static const MPI_Op sum = user_op(sum_bf16);
    return sum;
  }
  return MPI_SUM;
}

/// Calls body(first, count) for pieces of at most piece_bytes; once, with count 0, for nothing at all.
template <typename Body>
void for_pieces(std::int64_t elements, std::size_t element_bytes, const Body& body) {
  const std::int64_t most =
      std::max<std::int64_t>(1, MpiCommunicator::piece_bytes / static_cast<std::int64_t>(element_bytes));
  std::int64_t first = 0;
  do {
    const std::int64_t count = std::min(most, elements - first);
    body(first, static_cast<int>(count));
    first += count;
  } while (first < elements);
}

const std::byte* at(const void* data, std::int64_t offset) {
  return static_cast<const std::byte*>(data) + offset;
}
std::byte* at(void* data, std::int64_t offset) {
  return static_cast<std::byte*>(data) + offset;
}

bool fit_int(std::span<const std::int64_t> values) {
  return std::all_of(values.begin(), values.end(),
                     [](std::int64_t v) { return v <= MpiCommunicator::piece_bytes; });
}

constexpr int direct_tag = 30001;  // messages of collectives that are too large for one MPI call

}  // namespace

MpiCommunicator::MpiCommunicator(MPI_Comm comm, bool owned) : comm_(comm), owned_(owned) {
  TW_MPI(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
  TW_MPI(MPI_Comm_rank(comm_, &rank_));
  TW_MPI(MPI_Comm_size(comm_, &size_));
}

MpiCommunicator::~MpiCommunicator() {
  if (owned_ && std::uncaught_exceptions() == 0) MPI_Comm_free(&comm_);
}

std::unique_ptr<Communicator> MpiCommunicator::duplicate() {
  MPI_Comm copy = MPI_COMM_NULL;
  TW_MPI(MPI_Comm_dup(comm_, &copy));
  return std::make_unique<MpiCommunicator>(copy, true);
}

std::unique_ptr<Communicator> MpiCommunicator::split(int color, int key) {
  MPI_Comm part = MPI_COMM_NULL;
  TW_MPI(MPI_Comm_split(comm_, color < 0 ? MPI_UNDEFINED : color, key, &part));
  if (part == MPI_COMM_NULL) return nullptr;
  return std::make_unique<MpiCommunicator>(part, true);
}

bool MpiCommunicator::supports(DType dtype, ReduceOp op) const {
  return can_reduce(dtype, op);
}

bool MpiCommunicator::takes_device_addresses() const {
  if (const auto named = Environment::get("THINWIRE_CUDA_AWARE_MPI")) {
    if (*named != "0" && *named != "1") throw UsageError("THINWIRE_CUDA_AWARE_MPI is '" + *named + "'; it is 0 (stage through host memory) or 1 (hand device addresses to MPI)");
    return *named == "1";
  }
#if defined(MPIX_CUDA_AWARE_SUPPORT)
  return MPIX_Query_cuda_support() == 1;
#else
  return false;
#endif
}

RequestPtr MpiCommunicator::all_reduce(const void* send, void* receive, std::int64_t elements, DType dtype,
                                       ReduceOp op) {
  auto requests = std::make_unique<MpiRequests>();
  const auto size = size_of(dtype);
  for_pieces(elements, size, [&](std::int64_t first, int count) {
    const std::int64_t offset = first * static_cast<std::int64_t>(size);
    TW_MPI(MPI_Iallreduce(send == receive ? MPI_IN_PLACE : at(send, offset), at(receive, offset), count,
                          mpi_type(dtype), mpi_op(dtype, op), comm_, requests->add()));
  });
  return requests;
}

RequestPtr MpiCommunicator::reduce_scatter(const void* send, void* receive, std::int64_t elements_per_rank,
                                           DType dtype, ReduceOp op) {
  if (elements_per_rank * static_cast<std::int64_t>(size_of(dtype)) <= piece_bytes) {
    auto requests = std::make_unique<MpiRequests>();
    TW_MPI(MPI_Ireduce_scatter_block(send, receive, static_cast<int>(elements_per_rank), mpi_type(dtype),
                                     mpi_op(dtype, op), comm_, requests->add()));
    return requests;
  }
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(size_), elements_per_rank);
  return reduce_scatter_v(send, receive, counts, dtype, op);
}

RequestPtr MpiCommunicator::reduce_scatter_v(const void* send, void* receive,
                                             std::span<const std::int64_t> counts, DType dtype, ReduceOp op) {
  TW_ASSERT(counts.size() == static_cast<std::size_t>(size_));
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  if (total * size <= piece_bytes) {
    auto call = std::make_unique<MpiVector>();
    call->receive_counts = MpiVector::ints(counts);
    TW_MPI(MPI_Ireduce_scatter(send, receive, call->receive_counts.data(), mpi_type(dtype), mpi_op(dtype, op),
                               comm_, call->requests.add()));
    return call;
  }
  // Too large for 32-bit counts: one reduction per owner.
  auto all = std::make_unique<RequestGroup>();
  std::int64_t offset = 0;
  for (int owner = 0; owner < size_; ++owner) {
    const std::int64_t count = counts[static_cast<std::size_t>(owner)];
    all->add(reduce(at(send, offset), receive, count, dtype, op, owner));
    offset += count * size;
  }
  return all;
}

RequestPtr MpiCommunicator::reduce(const void* send, void* receive, std::int64_t elements, DType dtype,
                                   ReduceOp op, int root) {
  auto requests = std::make_unique<MpiRequests>();
  const auto size = size_of(dtype);
  for_pieces(elements, size, [&](std::int64_t first, int count) {
    const std::int64_t offset = first * static_cast<std::int64_t>(size);
    TW_MPI(MPI_Ireduce(at(send, offset), rank_ == root ? at(receive, offset) : nullptr, count,
                       mpi_type(dtype), mpi_op(dtype, op), root, comm_, requests->add()));
  });
  return requests;
}

RequestPtr MpiCommunicator::all_gather(const void* send, std::int64_t bytes, void* receive) {
  if (bytes <= piece_bytes) {
    auto requests = std::make_unique<MpiRequests>();
    TW_MPI(MPI_Iallgather(send, static_cast<int>(bytes), MPI_BYTE, receive, static_cast<int>(bytes), MPI_BYTE,
                          comm_, requests->add()));
    return requests;
  }
  std::vector<std::int64_t> counts(static_cast<std::size_t>(size_), bytes), offsets(counts.size());
  for (std::size_t r = 0; r < offsets.size(); ++r) offsets[r] = static_cast<std::int64_t>(r) * bytes;
  return all_gather_v(send, bytes, receive, counts, offsets);
}

RequestPtr MpiCommunicator::all_gather_v(const void* send_data, std::int64_t bytes, void* receive_data,
                                         std::span<const std::int64_t> counts,
                                         std::span<const std::int64_t> offsets) {
  TW_ASSERT(counts.size() == static_cast<std::size_t>(size_) && offsets.size() == counts.size());
  if (fit_int(counts) && fit_int(offsets)) {
    auto call = std::make_unique<MpiVector>();
    call->receive_counts = MpiVector::ints(counts);
    call->receive_offsets = MpiVector::ints(offsets);
    TW_MPI(MPI_Iallgatherv(send_data, static_cast<int>(bytes), MPI_BYTE, receive_data,
                           call->receive_counts.data(), call->receive_offsets.data(), MPI_BYTE, comm_,
                           call->requests.add()));
    return call;
  }
  auto all = std::make_unique<RequestGroup>();
  for (int shift = 0; shift < size_; ++shift) {  // shifted: no two ranks flood the same one first
    const int from = (rank_ - shift + size_) % size_;
    const auto f = static_cast<std::size_t>(from);
    all->add(receive(at(receive_data, offsets[f]), counts[f], from, direct_tag, nullptr));
    all->add(send(send_data, bytes, (rank_ + shift) % size_, direct_tag));
  }
  return all;
}

RequestPtr MpiCommunicator::all_to_all_v(const void* send_data, std::span<const std::int64_t> send_counts,
                                         std::span<const std::int64_t> send_offsets, void* receive_data,
                                         std::span<const std::int64_t> receive_counts,
                                         std::span<const std::int64_t> receive_offsets) {
  TW_ASSERT(send_counts.size() == static_cast<std::size_t>(size_) &&
            receive_counts.size() == send_counts.size());
  // Whether a peer's counts fit is unknown here, and both ends must choose alike: always direct messages,
  // which is also the algorithm that the byte counter names.
  auto all = std::make_unique<RequestGroup>();
  for (int shift = 0; shift < size_; ++shift) {
    const int from = (rank_ - shift + size_) % size_, to = (rank_ + shift) % size_;
    const auto f = static_cast<std::size_t>(from), t = static_cast<std::size_t>(to);
    if (receive_counts[f] > 0) {
      all->add(receive(at(receive_data, receive_offsets[f]), receive_counts[f], from, direct_tag, nullptr));
    }
    if (send_counts[t] > 0) all->add(send(at(send_data, send_offsets[t]), send_counts[t], to, direct_tag));
  }
  return all;
}

RequestPtr MpiCommunicator::broadcast(void* data, std::int64_t bytes, int root) {
  auto requests = std::make_unique<MpiRequests>();
  for_pieces(bytes, 1, [&](std::int64_t first, int count) {
    TW_MPI(MPI_Ibcast(at(data, first), count, MPI_BYTE, root, comm_, requests->add()));
  });
  return requests;
}

RequestPtr MpiCommunicator::send(const void* data, std::int64_t bytes, int to, int tag) {
  auto requests = std::make_unique<MpiRequests>();
  std::int64_t first = 0;
  while (true) {
    const std::int64_t count = std::min(piece_bytes, bytes - first);
    TW_MPI(MPI_Isend(at(data, first), static_cast<int>(count), MPI_BYTE, to, tag, comm_, requests->add()));
    first += count;
    if (count < piece_bytes) return requests;
  }
}

RequestPtr MpiCommunicator::receive(void* data, std::int64_t bytes, int from, int tag,
                                    std::int64_t* received) {
  return std::make_unique<MpiReceive>(comm_, data, bytes, from, tag, received);
}

void MpiCommunicator::barrier() {
  MpiRequests request;
  TW_MPI(MPI_Ibarrier(comm_, request.add()));
  const Watchdog::Guard guard([](const void*) -> std::string { return "a barrier"; }, nullptr);
  Waiter waiter;
  while (!request.test()) waiter.pause();
  RankClock::synchronise();
}

}  // namespace thinwire
