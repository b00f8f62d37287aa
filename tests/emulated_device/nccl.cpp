// NCCL of the emulated devices, played by MPI: the host's stand-in for collectives/communicator/nccl.cu. An operation is work of its stream: it starts when
// the stream comes to it, takes what the device's memory holds then, and ends when all its messages have arrived. Reductions add in the
// order of the ranks. Not played: errors that arrive late, communicators that stay at work, ranks that are lost.
#include "collectives/communicator/device_nccl.h"

#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "core/dtype.h"
#include "core/half.h"
#include "tests/emulated_device/cuda_emulation.h"

using namespace thinwire;
using namespace thinwire::emulated;
using thinwire::cuda::on_device;

THINWIRE_CUDA_ENTRY(thinwire_nccl_version, thinwire_nccl_version_fn);
THINWIRE_CUDA_ENTRY(thinwire_nccl_unique_id, thinwire_nccl_unique_id_fn);
THINWIRE_CUDA_ENTRY(thinwire_nccl_create, thinwire_nccl_create_fn);
THINWIRE_CUDA_ENTRY(thinwire_nccl_state, thinwire_nccl_state_fn);
THINWIRE_CUDA_ENTRY(thinwire_nccl_destroy, thinwire_nccl_destroy_fn);
THINWIRE_CUDA_ENTRY(thinwire_nccl_abort, thinwire_nccl_abort_fn);
THINWIRE_CUDA_ENTRY(thinwire_nccl_group, thinwire_nccl_group_fn);
THINWIRE_CUDA_ENTRY(thinwire_nccl_all_reduce, thinwire_nccl_all_reduce_fn);
THINWIRE_CUDA_ENTRY(thinwire_nccl_reduce_scatter, thinwire_nccl_reduce_scatter_fn);
THINWIRE_CUDA_ENTRY(thinwire_nccl_reduce, thinwire_nccl_reduce_fn);
THINWIRE_CUDA_ENTRY(thinwire_nccl_all_gather, thinwire_nccl_all_gather_fn);
THINWIRE_CUDA_ENTRY(thinwire_nccl_broadcast, thinwire_nccl_broadcast_fn);
THINWIRE_CUDA_ENTRY(thinwire_nccl_send, thinwire_nccl_send_fn);
THINWIRE_CUDA_ENTRY(thinwire_nccl_receive, thinwire_nccl_receive_fn);

namespace {

constexpr int invalid_argument = THINWIRE_CUDA_NCCL_ERROR + 4, invalid_usage = THINWIRE_CUDA_NCCL_ERROR + 5;
constexpr int collective_tag = 1, message_tag = 2, meeting_tag = 20000, meetings = 5000;

struct Ranks {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0, size = 0, ordinal = 0;
};
Ranks& of(void* communicator) { return *static_cast<Ranks*>(communicator); }

using Bytes = std::vector<std::byte>;

// Sends and receives that belong together, and what becomes of what was received.
struct Operation {
  struct Part {
    int peer;
    const void* memory;
    std::size_t bytes;
  };
  std::shared_ptr<Ranks> ranks;
  int tag = collective_tag;
  std::vector<Part> sends, receives;
  std::function<void(const std::vector<Bytes>&)> finish = [](const std::vector<Bytes>&) {};

  std::vector<Bytes> out, in;
  std::vector<MPI_Request> requests;

  void start() {
    for (const Part& part : receives) {
      in.emplace_back(part.bytes);
      MPI_Irecv(in.back().data(), static_cast<int>(part.bytes), MPI_BYTE, part.peer, tag, ranks->comm, &requests.emplace_back());
    }
    for (const Part& part : sends) {
      const auto* from = static_cast<const std::byte*>(part.memory);
      out.emplace_back(from, from + part.bytes);
      MPI_Isend(out.back().data(), static_cast<int>(part.bytes), MPI_BYTE, part.peer, tag, ranks->comm, &requests.emplace_back());
    }
  }
  bool done() {
    int all = 0;
    MPI_Testall(static_cast<int>(requests.size()), requests.data(), &all, MPI_STATUSES_IGNORE);
    if (all != 0) finish(in);
    return all != 0;
  }
};

std::map<Ranks*, std::shared_ptr<Ranks>>& communicators() {
  static auto* all = new std::map<Ranks*, std::shared_ptr<Ranks>>;
  return *all;
}

struct Group {
  int depth = 0;
  std::vector<std::pair<void*, std::shared_ptr<std::vector<Operation>>>> streams;
  int ordinal = 0;
} group;

int queue_together(void* stream, const std::shared_ptr<std::vector<Operation>>& operations, int ordinal) {
  return on_device(ordinal, [&] {
    const auto finished = std::make_shared<std::vector<bool>>(operations->size());
    return queue_exchange(
        stream,
        [=] {
          for (Operation& o : *operations) o.start();
        },
        [=] {
          bool all = true;
          for (std::size_t i = 0; i < operations->size(); ++i) {
            if (!(*finished)[i]) (*finished)[i] = (*operations)[i].done();
            all = all && (*finished)[i];
          }
          return all;
        });
  });
}

int submit(void* communicator, void* stream, Operation operation) {
  const Ranks& ranks = of(communicator);
  for (const auto* parts : {&operation.sends, &operation.receives})
    for (const Operation::Part& part : *parts) {
      if (part.peer < 0 || part.peer >= ranks.size || part.bytes > 0x7fffffff) return invalid_argument;
      if (part.bytes > 0)
        if (const int e = on_device(ranks.ordinal, [&] { return check_range(part.memory, part.bytes, "exchanges"); }); e != 0) return e;
    }
  operation.ranks = communicators().at(&of(communicator));
  if (group.depth == 0) {
    const auto alone = std::make_shared<std::vector<Operation>>();
    alone->push_back(std::move(operation));
    return queue_together(stream, alone, ranks.ordinal);
  }
  group.ordinal = ranks.ordinal;
  auto found = std::find_if(group.streams.begin(), group.streams.end(), [&](const auto& s) { return s.first == stream; });
  if (found == group.streams.end()) found = group.streams.insert(group.streams.end(), {stream, std::make_shared<std::vector<Operation>>()});
  found->second->push_back(std::move(operation));
  return 0;
}

template <typename T, typename Sum>
void reduce_as(const std::vector<Bytes>& from, void* to, std::size_t count, int op) {
  for (std::size_t i = 0; i < count; ++i) {
    Sum total{};
    for (std::size_t r = 0; r < from.size(); ++r) {
      T element;
      std::memcpy(&element, from[r].data() + i * sizeof(T), sizeof(T));
      const Sum value = [&] {
        if constexpr (std::is_arithmetic_v<T>) return static_cast<Sum>(element);
        else return to_float(element);
      }();
      total = r == 0 ? value : op == nccl_max ? std::max(total, value) : static_cast<Sum>(total + value);
    }
    T result;
    if constexpr (std::is_same_v<T, Half>) result = to_half(total);
    else if constexpr (std::is_same_v<T, BFloat16>) result = to_bfloat16(total);
    else result = static_cast<T>(total);
    std::memcpy(static_cast<std::byte*>(to) + i * sizeof(T), &result, sizeof(T));
  }
}
bool reducible(int dtype) { return dtype >= 0 && static_cast<DType>(dtype) != DType::u16 && dtype <= static_cast<int>(DType::i64); }
void reduce_into(void* to, const std::vector<Bytes>& from, std::size_t count, int dtype, int op) {
  switch (static_cast<DType>(dtype)) {
    case DType::f32: return reduce_as<float, float>(from, to, count, op);
    case DType::f64: return reduce_as<double, double>(from, to, count, op);
    case DType::f16: return reduce_as<Half, float>(from, to, count, op);
    case DType::bf16: return reduce_as<BFloat16, float>(from, to, count, op);
    case DType::i8: return reduce_as<std::int8_t, std::int8_t>(from, to, count, op);
    case DType::u8: return reduce_as<std::uint8_t, std::uint8_t>(from, to, count, op);
    case DType::i32: return reduce_as<std::int32_t, std::int32_t>(from, to, count, op);
    case DType::i64: return reduce_as<std::int64_t, std::int64_t>(from, to, count, op);
    case DType::u16: return;
  }
}
std::size_t bytes_of(std::size_t count, int dtype) { return count * static_cast<std::size_t>(size_of(static_cast<DType>(dtype))); }
const void* offset(const void* p, std::size_t bytes) { return static_cast<const std::byte*>(p) + bytes; }
void* offset(void* p, std::size_t bytes) { return static_cast<std::byte*>(p) + bytes; }
void take(void* to, const Bytes& from) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

}  // namespace

int thinwire_nccl_version(int* version) {
  int started = 0;
  MPI_Initialized(&started);
  *version = 22809;  // whose rules are played
  return started != 0 ? 0 : THINWIRE_CUDA_NO_NCCL;
}

int thinwire_nccl_unique_id(void* id) {
  static int made = 0;
  int words[2] = {0, made++};
  MPI_Comm_rank(MPI_COMM_WORLD, words);
  std::memset(id, 0, nccl_unique_id_bytes);
  std::memcpy(id, words, sizeof words);
  return 0;
}

// Rank 0 of the new communicator, which made the id, is told by all others who they are, and tells them who all are.
int thinwire_nccl_create(void** communicator, int ranks, const void* id, int rank, int ordinal) {
  *communicator = nullptr;
  int words[2], own[3] = {rank, 0, ordinal};
  std::memcpy(words, id, sizeof words);
  MPI_Comm_rank(MPI_COMM_WORLD, &own[1]);
  const int tag = meeting_tag + words[1] % meetings;
  std::vector<int> world(static_cast<std::size_t>(ranks)), devices(world.size());
  const auto place = [&](const int* who) { world[static_cast<std::size_t>(who[0])] = who[1], devices[static_cast<std::size_t>(who[0])] = who[2]; };
  if (rank == 0) {
    place(own);
    for (int r = 1; r < ranks; ++r) {
      int other[3];
      MPI_Recv(other, 3, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      place(other);
    }
    for (int r = 1; r < ranks; ++r)
      for (const auto* list : {&world, &devices}) MPI_Send(list->data(), ranks, MPI_INT, world[static_cast<std::size_t>(r)], tag + meetings, MPI_COMM_WORLD);
  } else {
    MPI_Send(own, 3, MPI_INT, words[0], tag, MPI_COMM_WORLD);
    for (auto* list : {&world, &devices}) MPI_Recv(list->data(), ranks, MPI_INT, words[0], tag + meetings, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  // Devices of a machine are its processes' together: two ranks on one are refused, as by NCCL.
  if (std::set<int>(devices.begin(), devices.end()).size() != devices.size()) return invalid_usage;
  MPI_Group all, some;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_incl(all, ranks, world.data(), &some);
  auto made = std::make_shared<Ranks>();
  made->rank = rank, made->size = ranks, made->ordinal = ordinal;
  MPI_Comm_create_group(MPI_COMM_WORLD, some, tag, &made->comm);
  MPI_Group_free(&some);
  MPI_Group_free(&all);
  communicators()[made.get()] = made;
  *communicator = made.get();
  return 0;
}

int thinwire_nccl_state(void*, int* state) {
  *state = nccl_ready;
  return 0;
}
// The MPI communicator stays: work that is queued may still need it, and freeing it would take all its ranks.
int thinwire_nccl_destroy(void* communicator) { return communicators().erase(&of(communicator)) == 1 ? 0 : invalid_argument; }
int thinwire_nccl_abort(void* communicator) { return thinwire_nccl_destroy(communicator); }

int thinwire_nccl_group(int begin, int) {
  if (begin != 0) return ++group.depth, 0;
  if (group.depth == 0) return invalid_usage;
  if (--group.depth > 0) return 0;
  const auto streams = std::move(group.streams);
  group.streams.clear();
  int code = 0;
  for (const auto& [stream, operations] : streams)
    if (const int e = queue_together(stream, operations, group.ordinal); e != 0) code = e;
  return code;
}

int thinwire_nccl_all_reduce(void* communicator, const void* send, void* receive, std::size_t count, int dtype, int op, void* stream) {
  if (!reducible(dtype)) return invalid_argument;
  Operation o;
  for (int r = 0; r < of(communicator).size; ++r) {
    o.sends.push_back({r, send, bytes_of(count, dtype)});
    o.receives.push_back({r, receive, bytes_of(count, dtype)});
  }
  o.finish = [=](const std::vector<Bytes>& in) { reduce_into(receive, in, count, dtype, op); };
  return submit(communicator, stream, std::move(o));
}

int thinwire_nccl_reduce_scatter(void* communicator, const void* send, void* receive, std::size_t count, int dtype, int op, void* stream) {
  if (!reducible(dtype)) return invalid_argument;
  Operation o;
  const std::size_t bytes = bytes_of(count, dtype);
  for (int r = 0; r < of(communicator).size; ++r) {
    o.sends.push_back({r, offset(send, static_cast<std::size_t>(r) * bytes), bytes});
    o.receives.push_back({r, receive, bytes});
  }
  o.finish = [=](const std::vector<Bytes>& in) { reduce_into(receive, in, count, dtype, op); };
  return submit(communicator, stream, std::move(o));
}

int thinwire_nccl_reduce(void* communicator, const void* send, void* receive, std::size_t count, int dtype, int op, int root, void* stream) {
  if (!reducible(dtype)) return invalid_argument;
  Operation o;
  o.sends.push_back({root, send, bytes_of(count, dtype)});
  if (of(communicator).rank == root) {
    for (int r = 0; r < of(communicator).size; ++r) o.receives.push_back({r, receive, bytes_of(count, dtype)});
    o.finish = [=](const std::vector<Bytes>& in) { reduce_into(receive, in, count, dtype, op); };
  }
  return submit(communicator, stream, std::move(o));
}

int thinwire_nccl_all_gather(void* communicator, const void* send, void* receive, std::size_t bytes, void* stream) {
  Operation o;
  for (int r = 0; r < of(communicator).size; ++r) {
    o.sends.push_back({r, send, bytes});
    o.receives.push_back({r, offset(receive, static_cast<std::size_t>(r) * bytes), bytes});
  }
  o.finish = [=](const std::vector<Bytes>& in) {
    for (std::size_t r = 0; r < in.size(); ++r) take(offset(receive, r * bytes), in[r]);
  };
  return submit(communicator, stream, std::move(o));
}

int thinwire_nccl_broadcast(void* communicator, const void* send, void* receive, std::size_t bytes, int root, void* stream) {
  Operation o;
  if (of(communicator).rank == root)
    for (int r = 0; r < of(communicator).size; ++r) o.sends.push_back({r, send, bytes});
  o.receives.push_back({root, receive, bytes});
  o.finish = [=](const std::vector<Bytes>& in) { take(receive, in[0]); };
  return submit(communicator, stream, std::move(o));
}

int thinwire_nccl_send(void* communicator, const void* data, std::size_t bytes, int to, void* stream) {
  Operation o;
  o.tag = message_tag;
  o.sends.push_back({to, data, bytes});
  return submit(communicator, stream, std::move(o));
}

int thinwire_nccl_receive(void* communicator, void* data, std::size_t bytes, int from, void* stream) {
  Operation o;
  o.tag = message_tag;
  o.receives.push_back({from, data, bytes});
  o.finish = [=](const std::vector<Bytes>& in) { take(data, in[0]); };
  return submit(communicator, stream, std::move(o));
}
