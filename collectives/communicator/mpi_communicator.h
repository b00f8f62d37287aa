// The MPI implementation of Communicator. Non-blocking calls throughout: operations are resumable.
#pragma once

#include <mpi.h>

#include "collectives/communicator/communicator.h"

namespace thinwire {

class MpiCommunicator final : public Communicator {
 public:
  /// `owned`: freed at destruction.
  MpiCommunicator(MPI_Comm comm, bool owned);
  ~MpiCommunicator() override;
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<Communicator> duplicate() override;
  std::unique_ptr<Communicator> split(int color, int key) override;
  bool supports(DType dtype, ReduceOp op) const override;
  /// Open MPI says whether it is CUDA-aware; THINWIRE_CUDA_AWARE_MPI = 0 or 1 overrules it.
  bool takes_device_addresses() const override;
  std::string transport() const override { return "MPI"; }
  RequestPtr all_reduce(const void* send, void* receive, std::int64_t elements, DType dtype,
                        ReduceOp op) override;
  RequestPtr reduce_scatter(const void* send, void* receive, std::int64_t elements_per_rank, DType dtype,
                            ReduceOp op) override;
  RequestPtr reduce_scatter_v(const void* send, void* receive, std::span<const std::int64_t> counts,
                              DType dtype, ReduceOp op) override;
  RequestPtr reduce(const void* send, void* receive, std::int64_t elements, DType dtype, ReduceOp op,
                    int root) override;
  RequestPtr all_gather(const void* send, std::int64_t bytes, void* receive) override;
  RequestPtr all_gather_v(const void* send, std::int64_t bytes, void* receive,
                          std::span<const std::int64_t> counts,
                          std::span<const std::int64_t> offsets) override;
  RequestPtr all_to_all_v(const void* send, std::span<const std::int64_t> send_counts,
                          std::span<const std::int64_t> send_offsets, void* receive,
                          std::span<const std::int64_t> receive_counts,
                          std::span<const std::int64_t> receive_offsets) override;
  RequestPtr broadcast(void* data, std::int64_t bytes, int root) override;
  RequestPtr send(const void* data, std::int64_t bytes, int to, int tag) override;
  RequestPtr receive(void* data, std::int64_t bytes, int from, int tag, std::int64_t* received) override;
  void barrier() override;

  /// Largest piece handed to one MPI call, in bytes: counts of MPI 3 are 32-bit. Only tests change it, on all
  /// ranks alike.
  static std::int64_t piece_bytes;

 private:
  MPI_Comm comm_;
  bool owned_;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace thinwire
