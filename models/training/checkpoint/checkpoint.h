// Checkpoints of a training run: one HDF5 file that does not depend on how the model was split over ranks.
//   /<kind>/<name>                  state slots (models/store/state_slot.h), each parameter once, at its global shape, unpadded: weights; of AdamW
//                                   first_moment, second_moment; full_precision_weights where a sharded optimizer keeps more bits than it sends
//   /per_replica/<r>/<kind>/<name>  likewise what replicas hold apart
//   /config                         every setting of the run as text, by its flag
//   /codec_state/rank<r>/<i>        what the codecs of rank r remember, by channel
//   attributes                      steps taken, hash of the text; update_numbers: what the update keeps besides slots, as JSON
// The position in the data and all random numbers are functions of (seed, step, sample): the number of steps says where they are.
#pragma once

#include <string>
#include <vector>

#include "models/training/parallel_trainer.h"

namespace thinwire {

inline constexpr int checkpoint_version = 2;
inline constexpr const char* checkpoint_kind = "thinwire-checkpoint";  ///< of its seal (results/sealed_file.h)

/// Collective over `world`, between steps. Rank 0 gathers the parameters one by one (its memory: one whole parameter) and writes;
/// the file appears complete or not at all. Throws the same error on all ranks: RuntimeFailure (disk full), EnvironmentError (no
/// right to write).
void save_checkpoint(Communicator& world, ParallelTrainer& trainer, const TrainConfig& config, const std::string& path);

/// SHA-256 (hex) of the state that a checkpoint holds: number of steps, text, what the update keeps, every dataset and codec state. Equal states have equal hashes, whatever the
/// file is called and whenever it was written. One process reads the whole file. Errors as of load_checkpoint.
std::string checkpoint_content(const std::string& path);

enum class CodecStateUse {
  none,       ///< neither run compresses anything
  continued,  ///< same layout and rules: goes on bit-equal
  reset,      ///< starts anew, as config.reset_codec_state asks
};

struct ResumeReport {
  std::int64_t steps = 0;  ///< taken before the checkpoint
  CodecStateUse codec_state = CodecStateUse::none;
  std::vector<std::string> remarks;  ///< settings that differ and may: they change the run from here on
};

/// Collective over `world`: gives `trainer`, fresh from make(), the state of the file. Only rank 0 reads it. Nothing of the trainer
/// changes when it throws, the same error on all ranks:
///   UsageError       another version; another model, seed, dtype, text or optimizer, each with both values; codec state of another layout
///                    or of other rules, unless config.reset_codec_state; state of another number of replicas, unless
///                    config.reset_replica_state
///   CorruptData      the file is cut or changed
///   EnvironmentError the file is not there
ResumeReport load_checkpoint(Communicator& world, ParallelTrainer& trainer, const TrainConfig& config, const std::string& path);

}  // namespace thinwire
