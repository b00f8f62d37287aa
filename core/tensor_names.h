// Names of tensors behind the numbers that key their messages, so that errors can name them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace thinwire {

/// hash_name(name), remembered for tensor_label. Thread-safe.
std::uint64_t tensor_id(std::string_view name);
/// The name behind an id of tensor_id; "tensor 0x..." for ids that it never saw.
std::string tensor_label(std::uint64_t id);

}  // namespace thinwire
