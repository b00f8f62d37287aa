// The state of codecs and wrappers as a stream of bytes, for checkpoints: named entries, a version, a check sum.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/device/tensor.h"

namespace thinwire {

/// Collects entries and turns them into bytes. Equal states give equal bytes: write entries in a fixed order.
class StateWriter {
 public:
  StateWriter();
  /// Prefix of the names that follow ("codec/", "wrapper 0/").
  void set_scope(std::string scope) { scope_ = std::move(scope); }
  /// `values` has shape.elements() elements. `key` tells entries of one name apart (a state key, a tensor).
  void put(const std::string& name, std::uint64_t key, const Shape& shape, std::span<const float> values);
  void put(const std::string& name, std::uint64_t key, std::span<const std::byte> bytes);
  void put(const std::string& name, const std::string& text);
  /// All entries and their check sum. The writer is empty afterwards.
  std::vector<std::byte> finish();

 private:
  void begin(const std::string& name, std::uint64_t key, DType dtype, const Shape& shape);
  std::string scope_;
  std::vector<std::byte> bytes_;
  std::uint32_t entries_ = 0;
};

/// One entry, as it lies in the bytes that the reader was given.
struct StateEntry {
  std::string name;
  std::uint64_t key = 0;
  DType dtype = DType::u8;
  Shape shape{0};
  std::span<const std::byte> bytes;
  bool taken = false;

  std::vector<float> floats() const;
  std::string text() const;
};

/// Takes bytes of a StateWriter apart. Throws CorruptData for anything else: cut off, changed, of another version.
class StateReader {
 public:
  /// `bytes` must live as long as the reader.
  explicit StateReader(std::span<const std::byte> bytes);
  void set_scope(std::string scope) { scope_ = std::move(scope); }
  /// All entries of this name in the scope, in the order written; each can be taken once.
  std::vector<const StateEntry*> take(const std::string& name, DType dtype);
  /// The one entry of this name; CorruptData when there is none or more.
  std::string take_text(const std::string& name);
  /// CorruptData naming an entry that nobody took: the state belongs to something else.
  void check_all_taken() const;

 private:
  std::string scope_;
  std::vector<StateEntry> entries_;
};

}  // namespace thinwire
