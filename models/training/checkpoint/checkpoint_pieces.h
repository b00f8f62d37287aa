// How the parameters of a model move between the ranks that hold parts of them and rank 0, which sees them whole, one at a time.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "collectives/communicator/communicator.h"
#include "models/training/parallel_trainer.h"
#include "results/hdf5/hdf5.h"

namespace thinwire {

/// A block of a dataset that lies on this rank: `local`, [rows.count, columns.count] and contiguous.
struct Piece {
  std::string dataset;  ///< "weights/layer3.qkv.weight"
  Shape global;         ///< of the dataset: one axis for a vector
  AxisRange rows, columns;
  TensorView local;
};

/// What a checkpoint file holds of parameters and their state.
struct CheckpointContents {
  std::set<std::string> datasets;       ///< "weights/layer3.qkv.weight", "per_replica/0/momentum/layer3.qkv.weight"
  std::map<std::string, int> replicas;  ///< by kind of state that replicas hold apart, how many there were
  /// Names one by line, for a broadcast; and back.
  std::string text() const;
  static CheckpointContents parse(const std::string& text);
};

bool has_shape(const std::vector<std::int64_t>& extents, const Shape& wanted);

/// The pieces that this rank contributes to a checkpoint: each element of each dataset comes from exactly one rank. Padding
/// (ParameterLayout::used) belongs to no dataset.
std::vector<Piece> pieces_to_save(ParallelTrainer& trainer);
/// The pieces that this rank needs: replicas and copies, too. `reset_replica_state`: slots that each replica has of its own begin as what replicas
/// share (StateSlot::sources), or are left as they are. Else UsageError where the file has them of another number of replicas.
std::vector<Piece> pieces_to_load(ParallelTrainer& trainer, const CheckpointContents& file, bool reset_replica_state);

/// The pieces of all ranks as rank 0 sees them: by dataset, in the order in which they travel.
class PieceCatalogue {
 public:
  struct Entry {
    int rank = 0;
    AxisRange rows, columns;
  };
  struct Dataset {
    Shape global;
    std::vector<Entry> entries;
  };
  /// Collective. Sorts `own`; the result is empty but on rank 0.
  static PieceCatalogue gather(Communicator& world, std::vector<Piece>& own);
  const std::map<std::string, Dataset>& datasets() const { return datasets_; }

 private:
  std::map<std::string, Dataset> datasets_;
};

/// Rank 0's end of the exchange. The other ranks call send_pieces or receive_pieces meanwhile. Messages are at most 16 MiB.
class PieceExchange {
 public:
  PieceExchange(Communicator& world, std::vector<Piece>& own, DType dtype) : world_(world), own_(own), dtype_(dtype) {}
  /// Fills `whole` from its pieces. RuntimeFailure when they do not cover it.
  void collect(const std::string& name, const PieceCatalogue::Dataset& dataset, TensorView whole);
  void distribute(const std::string& name, const PieceCatalogue::Dataset& dataset, ConstTensorView whole);

 private:
  Piece& own(const std::string& name, const PieceCatalogue::Entry& entry);
  Communicator& world_;
  std::vector<Piece>& own_;
  DType dtype_;
  Tensor buffer_;
};
/// The other ranks' ends: all pieces, in order.
void send_pieces(Communicator& world, const std::vector<Piece>& own);
void receive_pieces(Communicator& world, std::vector<Piece>& own);

}  // namespace thinwire
