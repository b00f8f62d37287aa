// What the products of a grid borrow from the pool that all layers share, and send, with sizes in the place of tensors: the order of calls
// decides the pool's size, and every line of ranks keeps the buffers of the largest message of each kind.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "models/parallel/tensor/tensor_grid.h"
#include "models/stage/geometry.h"

namespace thinwire {

/// What one call after another borrows and sends, in elements.
class Footprint {
 public:
  explicit Footprint(const GridShape& shape) : shape_(shape) {}

  /// A buffer of the pool from here to the end of the scope.
  class Lent {
   public:
    Lent() = default;
    Lent(Footprint& from, std::int64_t elements) : from_(elements > 0 ? &from : nullptr), capacity_(elements > 0 ? from.take(elements) : 0) {}
    Lent(Lent&& other) noexcept : from_(std::exchange(other.from_, nullptr)), capacity_(other.capacity_) {}
    Lent& operator=(Lent&& other) noexcept {
      release();
      from_ = std::exchange(other.from_, nullptr), capacity_ = other.capacity_;
      return *this;
    }
    ~Lent() { release(); }
    void release() {
      if (auto* pool = std::exchange(from_, nullptr)) pool->free_.insert(capacity_);
    }

   private:
    Footprint* from_ = nullptr;
    std::int64_t capacity_ = 0;
  };
  int size(int axis) const { return shape_.sides[static_cast<std::size_t>(axis)]; }
  /// Of a gathered tensor of this size: nothing where the line has one rank.
  std::int64_t over(int axis, std::int64_t elements) const { return size(axis) > 1 ? elements : 0; }

  void all_gather(GridUse use, int axis, std::int64_t whole) { note(use, axis, whole / size(axis), whole, 0); }
  void reduce_scatter(GridUse use, int axis, std::int64_t whole) { note(use, axis, whole, whole / size(axis), whole / size(axis)); }
  void all_reduce(GridUse use, int axis, std::int64_t elements) { note(use, axis, elements, elements, (elements + size(axis) - 1) / size(axis)); }
  void broadcast(GridUse use, int axis, std::int64_t elements) { note(use, axis, 0, elements, 0); }
  void reduce(GridUse use, int axis, std::int64_t elements) { note(use, axis, elements, elements, 0); }

  std::int64_t pool() const { return pool_; }
  /// Buffers of the channels: two blocks of a ring that adds, and what is converted where the wire's type is another than the model's.
  void add_channels(PassMemory& memory) const {
    for (const auto& [line, m] : lines_) {
      const bool exact = line.first == GridUse::exact || line.first == GridUse::maximum;
      (exact ? memory.exact : memory.wire) += 2 * m.block;
      if (!exact) memory.converted += m.in + m.out;
    }
  }

 private:
  struct Most {
    std::int64_t in = 0, out = 0, block = 0;
  };
  void note(GridUse use, int axis, std::int64_t in, std::int64_t out, std::int64_t block) {
    if (size(axis) == 1) return;
    Most& m = lines_[{use, axis}];
    m.in = std::max(m.in, in), m.out = std::max(m.out, out), m.block = std::max(m.block, block);
  }
  // As GridScratch::take.
  std::int64_t take(std::int64_t elements) {
    auto found = free_.lower_bound(elements);
    if (found == free_.end() && !free_.empty()) --found;
    const std::int64_t had = found == free_.end() ? 0 : *found, has = std::max(had, elements);
    if (found != free_.end()) free_.erase(found);
    pool_ += has - had;
    return has;
  }
  const GridShape shape_;
  std::multiset<std::int64_t> free_;
  std::int64_t pool_ = 0;
  std::map<std::pair<GridUse, int>, Most> lines_;
};

/// One product: rows of its operands in a rank's hands, columns of the shards.
struct ProductSizes {
  std::int64_t rows, in, out;
  bool swapped = false, transposed = false;
};

/// As product_3d.cpp and product_2d.cpp borrow and send in a forward and in a backward pass.
void forward_3d(Footprint& footprint, const ProductSizes& product);
void backward_3d(Footprint& footprint, const ProductSizes& product);
void forward_2d(Footprint& footprint, const ProductSizes& product);
void backward_2d(Footprint& footprint, const ProductSizes& product);

}  // namespace thinwire
