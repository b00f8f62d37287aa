// What the two chunk_topk codecs share, with the transform and without: payloads, and the order of work. chunk_topk.cpp has the formula and the layout.
#pragma once

#include <memory>
#include <vector>

#include "kernels/codec/joint_sum.h"
#include "kernels/sparse/chunk_grid.h"
#include "kernels/sparse/chunk_index.h"
#include "kernels/sparse/chunk_selection.h"
#include "kernels/sparse/chunk_values.h"

namespace thinwire {

struct ChunkTopKOptions {
  ChunkGrid::Rule grid;
  bool dct = false, released = false;
  bool of_senders = false;  ///< a mean over ranks is one over those that sent the element
  ChunkIndexForm index = ChunkIndexForm::bits12;
  ChunkValueForm values = ChunkValueForm::f16;
};

class ChunkTopK : public Codec, public JointSum {
 public:
  explicit ChunkTopK(const ChunkTopKOptions& options);
  const CodecTraits& traits() const override { return traits_; }
  std::size_t max_payload_bytes(const Shape& shape) const override;
  bool sums_jointly() const final { return options_.of_senders; }
  void decode_together(std::span<const std::span<const std::byte>> payloads, const MessageKey& key, TensorView sum) final;

 protected:
  /// Of a thread; grows only.
  struct Scratch {
    ChunkSelection selection;
    std::uint16_t positions[largest_area];
    alignas(64) float zeros[largest_area];  ///< all 0 between chunks
  };
  /// Selects in every chunk and calls keep() for it. False for NaN or infinity in x.
  virtual bool select_chunks(ConstTensorView x, const ChunkGrid& grid) = 0;
  /// Calls positions_of() for every chunk, and puts the values there into `out`.
  virtual void place_chunks(const ChunkGrid& grid, const MessageKey& key, TensorView out, bool add) = 0;

  /// Puts the selection of a chunk into the message.
  void keep(const ChunkGrid& grid, const Chunk& chunk, const ChunkSelection& selection);
  /// CorruptData where they are none of the chunk.
  std::span<const std::uint16_t> positions_of(const ChunkGrid& grid, const Chunk& chunk, const MessageKey& key, Scratch& scratch) const;
  std::span<const float> values_of(const ChunkGrid& grid, const Chunk& chunk) const {
    return {reinterpret_cast<const float*>(list_.data()) + grid.kept_before(chunk.number), static_cast<std::size_t>(chunk.kept)};
  }
  Scratch& scratch(int thread) { return *scratch_[static_cast<std::size_t>(thread)]; }
  const ChunkTopKOptions& options() const { return options_; }
  CodecTraits& own_traits() { return traits_; }

 private:
  /// Where the parts of a payload begin. Ends (of Rice's code): the largest that they can be.
  struct Layout {
    std::size_t index = 0, ends = 0, most = 0;
  };
  Layout layout(const ChunkGrid& grid) const;
  ChunkGrid grid_of(const Shape& shape) const { return ChunkGrid(shape, options_.grid); }
  std::size_t write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) final;
  void read_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) final { expand(payload, key, out, false); }
  void add_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) final { expand(payload, key, out, true); }
  void expand(std::span<const std::byte> payload, const MessageKey& key, TensorView out, bool add);
  /// The message that positions_of reads from then on.
  void open(std::span<const std::byte> payload, const MessageKey& key, const Shape& shape, const ChunkGrid& grid);
  /// Its values, into list_.
  void read_values(std::span<const std::byte> payload, const MessageKey& key, const ChunkGrid& grid);
  void make_scratch();
  std::int64_t index_before(const ChunkGrid& grid, std::int64_t number) const;
  std::int64_t ends_before(const ChunkGrid& grid, std::int64_t number) const;

  ChunkTopKOptions options_;
  CodecTraits traits_;
  ChunkValues values_;
  std::vector<std::unique_ptr<Scratch>> scratch_;  // by thread
  Buffer list_;                                    // kept values of all chunks, f32
  std::byte* index_out_ = nullptr;                 // of the message that is being written
  std::byte* ends_out_ = nullptr;
  const std::byte* index_in_ = nullptr;            // and read
  const std::byte* ends_in_ = nullptr;
  std::vector<std::uint32_t> ends_of_;             // by chunk: sizes when writing, beginnings when reading
  std::vector<std::uint32_t> senders_;             // of messages that are decoded together, by chunk and position
};

std::unique_ptr<Codec> make_dct_chunk_topk(const ChunkTopKOptions& options);

}  // namespace thinwire
