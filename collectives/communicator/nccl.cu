// The door to NCCL: thin functions over libnccl.so.2, which is opened on the first call.
#include "collectives/communicator/device_nccl.h"

#include "core/device/cuda_scope.cuh"
#include "core/dtype.h"
#include "kernels/cuda/vendor_library.h"

#if __has_include(<nccl.h>)
#include <nccl.h>
#define THINWIRE_HAS_NCCL 1
#endif

using namespace thinwire;
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

#ifdef THINWIRE_HAS_NCCL

namespace {

struct Nccl {
  bool open = false;
  decltype(&ncclGetVersion) version = nullptr;
  decltype(&ncclGetUniqueId) unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) create = nullptr;
  decltype(&ncclCommGetAsyncError) state = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&ncclReduce) reduce = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclBroadcast) broadcast = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;

  Nccl() {
    cuda::VendorLibrary library({"libnccl.so.2"});
    library.find(version, "ncclGetVersion");
    library.find(unique_id, "ncclGetUniqueId");
    library.find(create, "ncclCommInitRankConfig");
    library.find(state, "ncclCommGetAsyncError");
    library.find(destroy, "ncclCommDestroy");
    library.find(abort, "ncclCommAbort");
    library.find(group_start, "ncclGroupStart");
    library.find(group_end, "ncclGroupEnd");
    library.find(all_reduce, "ncclAllReduce");
    library.find(reduce_scatter, "ncclReduceScatter");
    library.find(reduce, "ncclReduce");
    library.find(all_gather, "ncclAllGather");
    library.find(broadcast, "ncclBroadcast");
    library.find(send, "ncclSend");
    library.find(receive, "ncclRecv");
    open = library.complete();
  }
};
const Nccl& nccl() {
  static const Nccl library;
  return library;
}

int code_of(ncclResult_t result) {
  return result == ncclSuccess || result == ncclInProgress ? 0 : THINWIRE_CUDA_NCCL_ERROR + static_cast<int>(result);
}
template <typename Call>
int with_nccl(const Call& call) {
  return nccl().open ? code_of(call(nccl())) : THINWIRE_CUDA_NO_NCCL;
}

bool type_of(int dtype, ncclDataType_t& type) {
  switch (static_cast<DType>(dtype)) {
    case DType::f32: type = ncclFloat32; return true;
    case DType::f64: type = ncclFloat64; return true;
    case DType::f16: type = ncclFloat16; return true;
    case DType::bf16: type = ncclBfloat16; return true;
    case DType::i8: type = ncclInt8; return true;
    case DType::u8: type = ncclUint8; return true;
    case DType::i32: type = ncclInt32; return true;
    case DType::i64: type = ncclInt64; return true;
    case DType::u16: break;
  }
  return false;
}
/// What the handle of a communicator points to. NCCL gives back the device that was current: on a thread that has chosen none yet that would be device 0.
struct Handle {
  ncclComm_t comm = nullptr;
  int ordinal = 0;
};
const Handle& handle(void* communicator) { return *static_cast<const Handle*>(communicator); }
/// `call` with the library and NCCL's communicator, on its device.
template <typename Call>
int with_comm(void* communicator, const Call& call) {
  const Handle& h = handle(communicator);
  return on_device(h.ordinal, [&] { return with_nccl([&](const Nccl& n) { return call(n, h.comm); }); });
}
cudaStream_t on(void* stream) { return static_cast<cudaStream_t>(stream); }
ncclRedOp_t op_of(int op) { return op == nccl_max ? ncclMax : ncclSum; }

template <typename Call>
int with_type(void* communicator, int dtype, const Call& call) {
  ncclDataType_t type{};
  if (!type_of(dtype, type)) return THINWIRE_CUDA_NCCL_ERROR + static_cast<int>(ncclInvalidArgument);
  return with_comm(communicator, [&](const Nccl& n, ncclComm_t comm) { return call(n, comm, type); });
}

}  // namespace

int thinwire_nccl_version(int* version) {
  return with_nccl([&](const Nccl& n) { return n.version(version); });
}
int thinwire_nccl_unique_id(void* id) {
  static_assert(sizeof(ncclUniqueId) == nccl_unique_id_bytes);
  return with_nccl([&](const Nccl& n) { return n.unique_id(static_cast<ncclUniqueId*>(id)); });
}
int thinwire_nccl_create(void** communicator, int ranks, const void* id, int rank, int ordinal) {
  *communicator = nullptr;
  return on_device(ordinal, [&] {
    return with_nccl([&](const Nccl& n) {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      ncclComm_t made = nullptr;
      const ncclResult_t result = n.create(&made, ranks, *static_cast<const ncclUniqueId*>(id), rank, &config);
      if (made != nullptr) *communicator = new Handle{made, ordinal};
      return result;
    });
  });
}
int thinwire_nccl_state(void* communicator, int* state) {
  ncclResult_t seen = ncclSuccess;
  const int code = with_comm(communicator, [&](const Nccl& n, ncclComm_t comm) { return n.state(comm, &seen); });
  *state = seen == ncclInProgress ? nccl_at_work : code_of(seen);
  return code;
}
int thinwire_nccl_destroy(void* communicator) {
  const int code = with_comm(communicator, [](const Nccl& n, ncclComm_t comm) { return n.destroy(comm); });
  delete static_cast<Handle*>(communicator);
  return code;
}
int thinwire_nccl_abort(void* communicator) {
  const int code = with_comm(communicator, [](const Nccl& n, ncclComm_t comm) { return n.abort(comm); });
  delete static_cast<Handle*>(communicator);
  return code;
}
int thinwire_nccl_group(int begin, int ordinal) {
  return on_device(ordinal, [&] { return with_nccl([&](const Nccl& n) { return begin ? n.group_start() : n.group_end(); }); });
}
int thinwire_nccl_all_reduce(void* communicator, const void* send, void* receive, std::size_t count, int dtype, int op, void* stream) {
  return with_type(communicator, dtype, [&](const Nccl& n, ncclComm_t comm, ncclDataType_t t) { return n.all_reduce(send, receive, count, t, op_of(op), comm, on(stream)); });
}
int thinwire_nccl_reduce_scatter(void* communicator, const void* send, void* receive, std::size_t count, int dtype, int op, void* stream) {
  return with_type(communicator, dtype, [&](const Nccl& n, ncclComm_t comm, ncclDataType_t t) { return n.reduce_scatter(send, receive, count, t, op_of(op), comm, on(stream)); });
}
int thinwire_nccl_reduce(void* communicator, const void* send, void* receive, std::size_t count, int dtype, int op, int root, void* stream) {
  return with_type(communicator, dtype, [&](const Nccl& n, ncclComm_t comm, ncclDataType_t t) { return n.reduce(send, receive, count, t, op_of(op), root, comm, on(stream)); });
}
int thinwire_nccl_all_gather(void* communicator, const void* send, void* receive, std::size_t bytes, void* stream) {
  return with_comm(communicator, [&](const Nccl& n, ncclComm_t comm) { return n.all_gather(send, receive, bytes, ncclUint8, comm, on(stream)); });
}
int thinwire_nccl_broadcast(void* communicator, const void* send, void* receive, std::size_t bytes, int root, void* stream) {
  return with_comm(communicator, [&](const Nccl& n, ncclComm_t comm) { return n.broadcast(send, receive, bytes, ncclUint8, root, comm, on(stream)); });
}
int thinwire_nccl_send(void* communicator, const void* data, std::size_t bytes, int to, void* stream) {
  return with_comm(communicator, [&](const Nccl& n, ncclComm_t comm) { return n.send(data, bytes, ncclUint8, to, comm, on(stream)); });
}
int thinwire_nccl_receive(void* communicator, void* data, std::size_t bytes, int from, void* stream) {
  return with_comm(communicator, [&](const Nccl& n, ncclComm_t comm) { return n.receive(data, bytes, ncclUint8, from, comm, on(stream)); });
}

#else  // built without NCCL's header

int thinwire_nccl_version(int*) { return THINWIRE_CUDA_NO_NCCL; }
int thinwire_nccl_unique_id(void*) { return THINWIRE_CUDA_NO_NCCL; }
int thinwire_nccl_create(void**, int, const void*, int, int) { return THINWIRE_CUDA_NO_NCCL; }
int thinwire_nccl_state(void*, int*) { return THINWIRE_CUDA_NO_NCCL; }
int thinwire_nccl_destroy(void*) { return THINWIRE_CUDA_NO_NCCL; }
int thinwire_nccl_abort(void*) { return THINWIRE_CUDA_NO_NCCL; }
int thinwire_nccl_group(int, int) { return THINWIRE_CUDA_NO_NCCL; }
int thinwire_nccl_all_reduce(void*, const void*, void*, std::size_t, int, int, void*) { return THINWIRE_CUDA_NO_NCCL; }
int thinwire_nccl_reduce_scatter(void*, const void*, void*, std::size_t, int, int, void*) { return THINWIRE_CUDA_NO_NCCL; }
int thinwire_nccl_reduce(void*, const void*, void*, std::size_t, int, int, int, void*) { return THINWIRE_CUDA_NO_NCCL; }
int thinwire_nccl_all_gather(void*, const void*, void*, std::size_t, void*) { return THINWIRE_CUDA_NO_NCCL; }
int thinwire_nccl_broadcast(void*, const void*, void*, std::size_t, int, void*) { return THINWIRE_CUDA_NO_NCCL; }
int thinwire_nccl_send(void*, const void*, std::size_t, int, void*) { return THINWIRE_CUDA_NO_NCCL; }
int thinwire_nccl_receive(void*, void*, std::size_t, int, void*) { return THINWIRE_CUDA_NO_NCCL; }

#endif
