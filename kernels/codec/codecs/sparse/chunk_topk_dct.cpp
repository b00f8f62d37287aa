// chunk_topk:transform=dct. Bands of up to 16 neighbouring chunks are transformed at once, each by one thread, so that a band and its halfway product stay in its cache.
#include <algorithm>

#include "kernels/codec/capabilities.h"
#include "kernels/codec/codecs/sparse/chunk_topk.h"
#include "kernels/matrix/dct.h"
#include "kernels/simd/tiles.h"
#include "kernels/threads.h"

namespace thinwire {
namespace {

constexpr std::int64_t most_tiles = 16;

class DctChunkTopK final : public ChunkTopK, public Products {
 public:
  explicit DctChunkTopK(const ChunkTopKOptions& options) : ChunkTopK(options) {
    own_traits().reordered_sums = true;
    own_traits().encode_goal = own_traits().decode_goal = 0;  // most of its time goes to products
  }

  std::int64_t product_width(const Shape&) const override { return options().grid.chunk; }
  /// Both products of all chunks, as two of the same work on the whole tensor. What is left over of the last chunks is not counted.
  std::vector<CodecProduct> encode_products(const Shape& shape) const override {
    const CodecProduct one = product(shape);
    return {one, one};
  }
  /// The first product of decoding has few coefficients and is none.
  std::vector<CodecProduct> decode_products(const Shape& shape) const override { return {product(shape)}; }

 private:
  /// Chunks that are transformed together, as a matrix: a row of the tensor folded, or a part of a band.
  struct Band {
    std::int64_t first = 0, tiles = 0;
    std::int64_t element = 0, stride = 0, rows = 0, columns = 0;
    std::int64_t rest = 0;  ///< elements of a folded row's last row, where these are fewer than its columns
  };
  struct Work {
    std::vector<BandDct> transforms;
    Buffer coefficients, folded;
  };

  CodecProduct product(const Shape& shape) const {
    const std::int64_t chunk = options().grid.chunk;
    return {false, true, shape.elements() / chunk, chunk, chunk, CodecProduct::Operand::tensor, CodecProduct::Operand::right, CodecProduct::Operand::out};
  }

  bool folds(const ChunkGrid& grid) const { return grid.height() == 1 && !options().released; }

  BandDct& transform(const ChunkGrid& grid, Work& work) const {
    const std::int64_t fold = options().grid.chunk, height = folds(grid) ? fold : grid.height(), width = folds(grid) ? fold : grid.width();
    for (BandDct& dct : work.transforms)
      if (dct.height() == height && dct.width() == width) return dct;
    return work.transforms.emplace_back(height, width);
  }

  template <typename Body>
  void for_bands(const ChunkGrid& grid, const Body& body) {
    while (work_.size() < static_cast<std::size_t>(omp_get_max_threads())) work_.push_back(std::make_unique<Work>());
    const std::int64_t fold = options().grid.chunk, tiles = folds(grid) ? 1 : most_tiles, per_row = (grid.across() + tiles - 1) / tiles;
    parallel_ranges(grid.down() * per_row, std::max<std::int64_t>(1, default_grain / (tiles * grid.area())), 1, [&](std::int64_t first, std::int64_t last, int thread) {
      for (std::int64_t unit = first; unit < last; ++unit) {
        Band band;
        band.first = unit / per_row * grid.across() + unit % per_row * tiles;
        band.tiles = std::min(tiles, grid.across() - unit % per_row * tiles);
        const Chunk chunk = grid.chunk(band.first);
        band.element = chunk.row * grid.columns() + chunk.column;
        band.stride = grid.columns(), band.rows = chunk.rows, band.columns = std::min(band.tiles * grid.width(), grid.columns() - chunk.column);
        if (folds(grid)) band.stride = fold, band.rows = (chunk.columns + fold - 1) / fold, band.columns = fold, band.rest = chunk.columns % fold;
        Work& work = *work_[static_cast<std::size_t>(thread)];
        body(band, transform(grid, work), work, scratch(thread));
      }
    });
  }

  bool select_chunks(ConstTensorView x, const ChunkGrid& grid) override {
    const float* const values = x.as<float>().data();
    bool good = true;
    for_bands(grid, [&](const Band& band, BandDct& dct, Work& work, Scratch& s) {
      const float* from = values + band.element;
      if (band.rest > 0) {
        float* const folded = work.folded.as<float>(largest_area);
        std::fill_n(std::copy_n(from, (band.rows - 1) * band.columns + band.rest, folded), band.columns - band.rest, 0.0f);
        from = folded;
      }
      const std::int64_t length = band.tiles * dct.width();
      float* const coefficients = work.coefficients.as<float>(static_cast<std::size_t>(dct.height() * length));
      dct.forward(from, band.stride, band.rows, band.columns, band.tiles, coefficients);
      for (std::int64_t t = 0; t < band.tiles; ++t) {
        const Chunk chunk = grid.chunk(band.first + t);
        const auto width = static_cast<std::size_t>(dct.width());
        if (s.selection.select({coefficients + t * dct.width(), static_cast<std::size_t>(length), static_cast<std::size_t>(dct.height()), width, width}, static_cast<std::size_t>(chunk.kept))) {
          keep(grid, chunk, s.selection);
        } else {
#pragma omp atomic write
          good = false;
        }
      }
    });
    return good;
  }

  void place_chunks(const ChunkGrid& grid, const MessageKey& key, TensorView out, bool add) override {
    float* const values = out.as<float>().data();
    for_bands(grid, [&](const Band& band, BandDct& dct, Work& work, Scratch& s) {
      dct.begin_inverse(band.tiles);
      for (std::int64_t t = 0; t < band.tiles; ++t) {
        const Chunk chunk = grid.chunk(band.first + t);
        const auto positions = positions_of(grid, chunk, key, s);
        const auto kept = values_of(grid, chunk);
        for (std::size_t i = 0; i < kept.size(); ++i) dct.add(t, positions[i], kept[i]);
      }
      float* const to = values + band.element;
      if (band.rest == 0) return dct.end_inverse(to, band.stride, band.rows, band.columns, add);
      float* const folded = work.folded.as<float>(largest_area);
      dct.end_inverse(folded, band.stride, band.rows, band.columns, false);
      const auto count = static_cast<std::size_t>((band.rows - 1) * band.columns + band.rest);
      simd::place_tile(folded, count, 1, count, to, count, add, false);
    });
  }

  std::vector<std::unique_ptr<Work>> work_;  // by thread
};

}  // namespace

std::unique_ptr<Codec> make_dct_chunk_topk(const ChunkTopKOptions& options) { return std::make_unique<DctChunkTopK>(options); }

}  // namespace thinwire
