#include "collectives/communicator/mpi_requests.h"

#include <algorithm>
#include <exception>
#include <string>

#include "collectives/process/waiter.h"
#include "collectives/communicator/mpi_communicator.h"
#include "collectives/process/mpi_error.h"
#include "collectives/process/watchdog.h"

namespace thinwire {

std::int64_t MpiCommunicator::piece_bytes = std::int64_t{1} << 30;

void Request::wait() {
  if (test()) return;
  const Watchdog::Guard guard([](const void*) -> std::string { return "a transfer outside of any channel"; },
                              nullptr);
  Waiter waiter;
  while (!test()) waiter.pause();
}

namespace {

/// What the destructor of a request does: MPI may still write to the caller's memory. Not while an exception
/// unwinds: the partner may never come, and the job is about to be aborted.
void finish_unless_unwinding(Request& request) {
  if (std::uncaught_exceptions() > 0) return;
  try {
    request.wait();
  } catch (const Error&) {  // was or will be reported by whoever waits on this communicator
  }
}

}  // namespace

MpiRequests::~MpiRequests() {
  finish_unless_unwinding(*this);
}

bool MpiRequests::test() {
  if (done_) return true;
  int flag = 0;
  TW_MPI(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &flag, MPI_STATUSES_IGNORE));
  done_ = flag != 0;
  return done_;
}

MpiReceive::MpiReceive(MPI_Comm comm, void* data, std::int64_t capacity, int from, int tag,
                       std::int64_t* received)
    : comm_(comm),
      data_(static_cast<std::byte*>(data)),
      capacity_(capacity),
      from_(from),
      tag_(tag),
      received_(received) {
  post();
}

MpiReceive::~MpiReceive() {
  finish_unless_unwinding(*this);
}

void MpiReceive::post() {
  const std::int64_t room = std::min(capacity_ - total_, MpiCommunicator::piece_bytes);
  TW_MPI(MPI_Irecv(data_ + total_, static_cast<int>(room), MPI_BYTE, from_, tag_, comm_, &request_));
}

bool MpiReceive::test() {
  while (!done_) {
    int flag = 0;
    MPI_Status status;
    const int code = MPI_Test(&request_, &flag, &status);
    if (code != MPI_SUCCESS) {
      done_ = true;
      int error_class = 0;
      MPI_Error_class(code, &error_class);
      if (error_class == MPI_ERR_TRUNCATE) {
        throw RuntimeFailure("rank " + std::to_string(from_) + " sent more than the " +
                             std::to_string(capacity_) +
                             " bytes that this rank can take; both ends must use the same codec and shape");
      }
      detail::throw_mpi(code, "MPI_Test of a receive", __FILE__, __LINE__);
    }
    if (flag == 0) return false;
    int count = 0;
    TW_MPI(MPI_Get_count(&status, MPI_BYTE, &count));
    total_ += count;
    if (count < MpiCommunicator::piece_bytes) {
      done_ = true;
      if (received_ != nullptr) *received_ = total_;
    } else {
      post();
    }
  }
  return true;
}

bool RequestGroup::test() {
  bool all = true;
  for (RequestPtr& part : parts_) {
    if (part == nullptr) continue;
    if (part->test()) {
      part.reset();
    } else {
      all = false;
    }
  }
  return all;
}

}  // namespace thinwire
