// The name of a message between two stages: the same on ranks and within one.
#pragma once

#include <string>
#include <vector>

#include "collectives/communicator/cost_terms.h"
#include "models/compute/pass.h"

namespace thinwire {

/// Of rows `rows` of the micro-batch `pass.micro` at the boundary in front of layer `boundary`. It names the dataset's samples where the rows are those of whole ones:
/// a channel copies the ids, which are the batch's.
inline MessageKey boundary_key(int boundary, const PassContext& pass, const RowBlock& rows) {
  MessageKey key = message_key("boundary" + std::to_string(boundary), pass);
  if (static_cast<std::int64_t>(pass.samples.size()) == pass.batch && rows.first % pass.seq == 0 && rows.count % pass.seq == 0)
    key.samples = pass.samples.subspan(static_cast<std::size_t>(rows.first / pass.seq), static_cast<std::size_t>(rows.count / pass.seq));
  return key;
}

/// Token ids of rows `rows` of a pass that has them: the batch's own, or, of a slice of its sequences, put together in `cut`.
inline std::span<const std::int32_t> token_ids(const PassContext& pass, const RowBlock& rows, std::vector<std::int32_t>& cut) {
  if (!pass.sliced()) return pass.tokens.subspan(static_cast<std::size_t>(rows.first), static_cast<std::size_t>(rows.count));
  cut.clear();
  for (std::int64_t row = rows.first; row < rows.first + rows.count; ++row)
    cut.push_back(pass.tokens[static_cast<std::size_t>(row / pass.seq * pass.length + pass.first_token + row % pass.seq)]);
  return cut;
}

}  // namespace thinwire
