// What the targets of codecs share: the first line of their inputs, "EXPRESSION FORM STEP EXTENT...", says which codec reads the rest, as a message of which shape and step.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/codec/registry.h"

namespace thinwire::fuzz {

struct CodecMessage {
  std::string codec;
  Form form = Form::fair;
  std::int64_t step = 0;  ///< steps before it went well: what both ends remember of a tensor is there
  Shape shape{0};

  std::string line() const;  ///< with its end
  /// None: no such line, or a tensor of more than 131,072 elements. A codec that does not exist is an error, as anywhere.
  static std::optional<CodecMessage> parse(std::string_view line);

  /// A codec as it is before this message: fitted, where it needs that, and with the messages of earlier steps sent and received.
  CodecStack stack() const;
  /// The same key for both ends, with samples and tokens.
  MessageKey key(std::int64_t of_step) const;
  /// What is sent in a step: a function of it.
  std::vector<float> tensor(std::int64_t of_step) const;

 private:
  mutable std::vector<std::int64_t> samples_;
  mutable std::vector<std::int32_t> tokens_;
};

/// Every codec with each value of its parameters, and every wrapper around one codec that takes it: as messages of some shapes.
const std::vector<CodecMessage>& codec_messages();

}  // namespace thinwire::fuzz
