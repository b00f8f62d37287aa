// MPI requests behind the Request interface: several at once, messages in pieces, arrays that live as long as
// a call.
#pragma once

#include <mpi.h>

#include <span>
#include <vector>

#include "collectives/communicator/communicator.h"

namespace thinwire {

/// One or several MPI requests that are done together.
class MpiRequests final : public Request {
 public:
  MpiRequests() = default;
  MpiRequests(const MpiRequests&) = delete;
  MpiRequests& operator=(const MpiRequests&) = delete;
  ~MpiRequests() override;
  /// A place for one more request; valid until the next call.
  MPI_Request* add() {
    requests_.push_back(MPI_REQUEST_NULL);
    return &requests_.back();
  }
  bool test() override;

 private:
  std::vector<MPI_Request> requests_;
  bool done_ = false;
};

/// A receive of a message of unknown length. Its sender cuts it into full pieces and one last shorter piece
/// (possibly empty), so the receiver knows the end without a header.
class MpiReceive final : public Request {
 public:
  MpiReceive(MPI_Comm comm, void* data, std::int64_t capacity, int from, int tag, std::int64_t* received);
  MpiReceive(const MpiReceive&) = delete;
  MpiReceive& operator=(const MpiReceive&) = delete;
  ~MpiReceive() override;
  bool test() override;

 private:
  void post();
  MPI_Comm comm_;
  std::byte* data_;
  std::int64_t capacity_, total_ = 0;
  int from_, tag_;
  std::int64_t* received_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  bool done_ = false;
};

/// Requests that are done together, for what one MPI call cannot do.
class RequestGroup final : public Request {
 public:
  void add(RequestPtr request) { parts_.push_back(std::move(request)); }
  bool test() override;

 private:
  std::vector<RequestPtr> parts_;
};

/// Holds the int arrays of a v-collective until it is done.
class MpiVector final : public Request {
 public:
  std::vector<int> receive_counts, receive_offsets;
  MpiRequests requests;
  bool test() override { return requests.test(); }
  static std::vector<int> ints(std::span<const std::int64_t> values) {
    return {values.begin(), values.end()};
  }
};

}  // namespace thinwire
