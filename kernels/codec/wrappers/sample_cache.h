// A tensor remembered for each sample, on the host: what AQ-SGD's caches hold. In memory, or in a file without a name that is mapped into it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/codec/codec.h"

namespace thinwire {

/// How a remembered value is stored: as it is; as the nearest f16; or as an integer of 8 or 4 bits with an f32 step for each column of each sample (step = largest
/// magnitude / 127 or 7, rounded half to even).
enum class CacheType : std::uint8_t { f32, f16, int8, int4 };

class SampleCache {
 public:
  /// `owner` names the wrapper in messages, `what` the cache, there and in checkpoints. At most `limit` samples of a tensor: RuntimeFailure beyond. `mapped`: in files of
  /// $TMPDIR (or /tmp), which the system writes out when memory is short and which go with the process.
  SampleCache(std::string owner, std::string what, CacheType type, bool mapped, std::int64_t limit);
  ~SampleCache();
  SampleCache(SampleCache&&) noexcept;
  SampleCache& operator=(SampleCache&&) noexcept;

  /// Whether every sample of the message is remembered. UsageError where the key has none, where the rows do not divide into them, or where a tensor came with other
  /// numbers of rows or columns before.
  bool knows(const MessageKey& key, const Shape& shape) const;
  /// to (f32) = what is remembered of the message's samples, all of which are known.
  void read(const MessageKey& key, TensorView to) const;
  /// Remembers x (f32) from now on. Of a sample that comes twice in a message, the later rows stay. False, and nothing is remembered, where a number is not finite or too large for the type.
  bool write_if_it_fits(const MessageKey& key, ConstTensorView x);
  /// The same; NotRepresentable where it does not fit.
  void write(const MessageKey& key, ConstTensorView x);
  /// Bytes of memory or file that hold samples.
  std::size_t bytes() const;

  void save(StateWriter& to) const;
  /// CorruptData for what is not a cache of this type.
  void load(StateReader& from);

 private:
  class Slots;
  struct OfTensor {
    std::int64_t rows = 0, columns = 0;  ///< of one sample
    std::map<std::int64_t, std::byte*> samples;
    std::unique_ptr<Slots> slots;
  };
  std::size_t slot_bytes(std::int64_t rows, std::int64_t columns) const;
  OfTensor& at(std::uint64_t key, std::int64_t rows, std::int64_t columns);
  std::byte* slot(OfTensor& tensor, std::int64_t sample);
  void pack(const float* from, std::int64_t rows, std::int64_t columns, std::byte* to) const;
  void unpack(const std::byte* from, std::int64_t rows, std::int64_t columns, float* to) const;

  std::string owner_, what_;
  CacheType type_;
  bool mapped_;
  std::int64_t limit_;
  std::map<std::uint64_t, OfTensor> tensors_;  // by key.state_key()
};

}  // namespace thinwire
