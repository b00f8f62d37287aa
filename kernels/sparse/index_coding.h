// The positions of k kept elements of n on the wire. Their size depends on n and k alone.
//   compact  k = n: nothing. Else Elias-Fano (Elias 1974, Fano 1971) with L = 8 or 16 low bits, whichever is
//            smaller: the low L bits of every position, then one bit stream in which every element is a 1 and
//            the end of every bucket of 2^L positions is a 0; bits are taken from the lowest of each byte on,
//            the last byte is filled with ones.  k L / 8 + ceil((k + ceil(n / 2^L)) / 8) bytes.
//   int32    flat positions, 4 bytes each, ascending.
//   int64    the same in 8 bytes, as the released code of Bian et al. sends them (docs/papers/activation_compression.md, "Sizes").
// All numbers are little-endian.
#pragma once

#include "kernels/codec/payload/message_key.h"
#include "kernels/sparse/positions.h"

namespace thinwire {

enum class IndexForm { compact, int32, int64 };

std::size_t index_bytes(IndexForm form, std::int64_t elements, std::int64_t kept);

/// Writes index_bytes() bytes to `out`.
class IndexWriter {
 public:
  void write(IndexForm form, const SparsePositions& positions, std::byte* out);

 private:
  struct Scratch {
    Buffer offsets;
  };
  std::vector<Scratch> scratch_;
  Buffer counts_;
};

/// Positions read from bytes that are not trusted: open() and offsets() throw CorruptData, naming the
/// message, where they are not k ascending positions of the tensor. The bytes must outlive the reader's use.
class IndexReader final : public SparsePositions {
 public:
  void open(IndexForm form, std::int64_t elements, std::int64_t kept, std::span<const std::byte> bytes,
            const MessageKey& key);

  std::int64_t elements() const override { return elements_; }
  std::int64_t start(std::int64_t block) const override { return starts_[static_cast<std::size_t>(block)]; }
  std::span<const std::uint16_t> offsets(std::int64_t block, std::uint16_t* scratch) const override;

 private:
  void open_compact();
  void open_flat();
  std::int64_t flat(std::int64_t i) const;
  [[noreturn]] void corrupt(const char* why) const;

  IndexForm form_ = IndexForm::compact;
  int low_bits_ = 0;
  std::int64_t elements_ = 0, kept_ = 0;
  std::span<const std::byte> bytes_;
  MessageKey key_;
  std::vector<std::int64_t> starts_;   // per block and one more
  std::vector<std::int64_t> bits_;     // where a block's part of the bit stream starts
  std::vector<std::uint64_t> stream_;  // a padded copy of the bit stream
};

}  // namespace thinwire
