// A long text as ids: each different word is cut into pieces once.
#pragma once

#include <string_view>
#include <vector>

#include "models/data/text/wordpiece.h"

namespace thinwire::text {

/// The ids of WordPiece::encode, line by line; ends of lines leave no trace. A text of 80 MB is 24 million ids.
std::vector<Vocabulary::Id> encode_text(std::string_view text, const WordPiece& pieces);

}  // namespace thinwire::text
