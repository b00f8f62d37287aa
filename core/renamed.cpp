#include "core/renamed.h"

namespace thinwire {

std::span<const RenamedWord> renamed_words() {
  static constexpr RenamedWord words[] = {
      {"wire", "comm-dtype"},
      {"parallel.wire", "parallel.comm_dtype"},
      {"bucket-mib", "bucket-cap-mb"},
      {"parallel.bucket_mib", "parallel.bucket_cap_mb"},
      {"floor", "min-lr"},
      {"train.floor", "train.min_lr"},
  };
  return words;
}

std::string_view renamed_to(std::string_view name) {
  for (const RenamedWord& word : renamed_words())
    if (word.old_name == name) return word.new_name;
  return {};
}

}  // namespace thinwire
