#include "kernels/codec/wrappers/sample_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "kernels/codec/payload/wire_values.h"
#include "kernels/codec/state.h"
#include "kernels/convert.h"
#include "kernels/threads.h"

namespace thinwire {
namespace {

constexpr std::size_t chunk_bytes = std::size_t{1} << 22;

float largest_code(CacheType type) { return type == CacheType::int8 ? 127.0f : 7.0f; }

/// A file of this size without a name, as memory.
std::byte* map_file(std::size_t bytes, const std::string& owner) {
  const char* const folder = std::getenv("TMPDIR");
  std::string path = std::string(folder != nullptr && *folder != '\0' ? folder : "/tmp") + "/thinwire-cache-XXXXXX";
  const auto failed = [&](const std::string& what) {
    return EnvironmentError(owner + ": " + what + " " + path + " of " + std::to_string(bytes) + " bytes failed: " + std::strerror(errno) +
                            "; set TMPDIR to a folder with room, or keep the cache in memory (where=memory)");
  };
  const int file = mkstemp(path.data());
  if (file < 0) throw failed("creating");
  unlink(path.c_str());
  // Room is taken at once: a full disk is an error here, not a signal at some later store.
  const int refused = posix_fallocate(file, 0, static_cast<off_t>(bytes));
  void* const at = refused == 0 ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  if (refused != 0) errno = refused;
  const int reason = errno;
  close(file);
  errno = reason;
  if (at == MAP_FAILED) throw failed("a file");
  return static_cast<std::byte*>(at);
}

}  // namespace

/// Memory of one tensor's samples. Grows by pieces, so that what was given stays where it is.
class SampleCache::Slots {
 public:
  Slots(std::size_t slot, bool mapped, const std::string& owner) : slot_((slot + 63) / 64 * 64), mapped_(mapped), owner_(owner) {}
  ~Slots() {
    for (const Piece& piece : pieces_)
      if (mapped_)
        munmap(piece.data, piece.bytes);
      else
        std::free(piece.data);
  }
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;

  std::byte* next() {
    if (pieces_.empty() || used_ + slot_ > pieces_.back().bytes) {
      const std::size_t bytes = std::max(slot_, chunk_bytes / slot_ * slot_);
      pieces_.reserve(pieces_.size() + 1);
      std::byte* const data = mapped_ ? map_file(bytes, owner_) : static_cast<std::byte*>(std::aligned_alloc(64, bytes));
      if (data == nullptr) throw std::bad_alloc();
      pieces_.push_back({data, bytes});
      used_ = 0;
    }
    std::byte* const at = pieces_.back().data + used_;
    used_ += slot_;
    return at;
  }
  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const Piece& piece : pieces_) sum += piece.bytes;
    return sum;
  }

 private:
  struct Piece {
    std::byte* data;
    std::size_t bytes;
  };
  std::size_t slot_;
  bool mapped_;
  std::string owner_;
  std::vector<Piece> pieces_;
  std::size_t used_ = 0;  ///< of the last piece
};

SampleCache::SampleCache(std::string owner, std::string what, CacheType type, bool mapped, std::int64_t limit)
    : owner_(std::move(owner)), what_(std::move(what)), type_(type), mapped_(mapped), limit_(limit) {}
SampleCache::~SampleCache() = default;
SampleCache::SampleCache(SampleCache&&) noexcept = default;
SampleCache& SampleCache::operator=(SampleCache&&) noexcept = default;

std::size_t SampleCache::slot_bytes(std::int64_t rows, std::int64_t columns) const {
  const auto count = static_cast<std::size_t>(rows * columns), steps = sizeof(float) * static_cast<std::size_t>(columns);
  switch (type_) {
    case CacheType::f32:
      return 4 * count;
    case CacheType::f16:
      return 2 * count;
    case CacheType::int8:
      return steps + count;
    case CacheType::int4:
      return steps + (count + 1) / 2;
  }
  return 0;
}

bool SampleCache::knows(const MessageKey& key, const Shape& shape) const {
  const auto samples = static_cast<std::int64_t>(key.samples.size());
  if (samples == 0)
    throw UsageError(owner_ + ": " + text_of(key) + " does not say which samples it holds, and what is remembered is remembered sample by sample; it is for the "
                     "activations and gradients of whole samples between stages (--scatter-gather false where rows of a sample are shared out)");
  if (shape.rows() % samples != 0)
    throw UsageError(owner_ + ": the " + std::to_string(shape.rows()) + " rows of " + text_of(key) + " do not divide into " + std::to_string(samples) + " samples");
  const auto found = tensors_.find(key.state_key());
  if (found == tensors_.end()) return false;
  const OfTensor& tensor = found->second;
  if (tensor.rows != shape.rows() / samples || tensor.columns != shape.columns())
    throw UsageError(owner_ + ": samples of " + text_of(key) + " have " + std::to_string(shape.rows() / samples) + " rows of " + std::to_string(shape.columns()) +
                     " here, and had " + std::to_string(tensor.rows) + " of " + std::to_string(tensor.columns) + " before; give tensors of different shape different names");
  return std::ranges::all_of(key.samples, [&](std::int64_t sample) { return tensor.samples.contains(sample); });
}

SampleCache::OfTensor& SampleCache::at(std::uint64_t key, std::int64_t rows, std::int64_t columns) {
  OfTensor& tensor = tensors_[key];
  if (tensor.slots == nullptr) {
    tensor.rows = rows;
    tensor.columns = columns;
    tensor.slots = std::make_unique<Slots>(slot_bytes(rows, columns), mapped_, owner_);
  }
  return tensor;
}

std::byte* SampleCache::slot(OfTensor& tensor, std::int64_t sample) {
  const auto found = tensor.samples.find(sample);
  if (found != tensor.samples.end()) return found->second;
  if (static_cast<std::int64_t>(tensor.samples.size()) == limit_)
    throw RuntimeFailure(owner_ + ": more than " + std::to_string(limit_) + " different samples of one tensor have passed, and more are not remembered; train on data "
                         "with epochs (--data text:windows=N), or raise samples=");
  return tensor.samples.emplace(sample, tensor.slots->next()).first->second;
}

void SampleCache::read(const MessageKey& key, TensorView to) const {
  const OfTensor& tensor = tensors_.at(key.state_key());
  float* const out = to.as<float>().data();
  parallel_ranges(static_cast<std::int64_t>(key.samples.size()), 1, 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t s = begin; s < end; ++s)
      unpack(tensor.samples.at(key.samples[static_cast<std::size_t>(s)]), tensor.rows, tensor.columns, out + s * tensor.rows * tensor.columns);
  });
}

void SampleCache::write(const MessageKey& key, ConstTensorView x) {
  if (!write_if_it_fits(key, x)) throw NotRepresentable(owner_ + ": a value of " + text_of(key) + " is too large for a cache of " + (type_ == CacheType::f16 ? "f16; use store=f32" : "numbers"));
}

bool SampleCache::write_if_it_fits(const MessageKey& key, ConstTensorView x) {
  const float limit = type_ == CacheType::f16 ? 65520.0f : std::numeric_limits<float>::infinity();
  const std::span<const float> all = x.as<float>();
  if (!std::all_of(all.begin(), all.end(), [=](float v) { return std::abs(v) < limit; })) return false;  // so is NaN
  const auto samples = static_cast<std::int64_t>(key.samples.size());
  const float* const values = all.data();
  OfTensor& tensor = at(key.state_key(), x.shape().rows() / samples, x.shape().columns());
  const std::int64_t count = tensor.rows * tensor.columns;
  for (std::int64_t s = 0; s < samples; ++s)  // one after the other: a sample may come twice
    pack(values + s * count, tensor.rows, tensor.columns, slot(tensor, key.samples[static_cast<std::size_t>(s)]));
  return true;
}

void SampleCache::pack(const float* from, std::int64_t rows, std::int64_t columns, std::byte* to) const {
  const auto count = static_cast<std::size_t>(rows * columns);
  if (type_ == CacheType::f32) {
    std::memcpy(to, from, 4 * count);
    return;
  }
  if (type_ == CacheType::f16) return convert(std::span(from, count), std::span(reinterpret_cast<Half*>(to), count));
  auto* const steps = reinterpret_cast<float*>(to);
  auto* const codes = reinterpret_cast<std::uint8_t*>(to + sizeof(float) * static_cast<std::size_t>(columns));
  std::fill_n(steps, columns, 0.0f);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) steps[c] = std::max(steps[c], std::abs(from[r * columns + c]));
  const float most = largest_code(type_);
  for (std::int64_t c = 0; c < columns; ++c) steps[c] /= most;
  const auto code = [&](std::int64_t i) {
    const float step = steps[i % columns];
    return step == 0 ? 0 : static_cast<int>(std::clamp(std::nearbyint(from[i] / step), -most, most));
  };
  const auto all = static_cast<std::int64_t>(count);
  if (type_ == CacheType::int8) {
    for (std::int64_t i = 0; i < all; ++i) codes[i] = static_cast<std::uint8_t>(code(i));
    return;
  }
  for (std::int64_t i = 0; i < all; i += 2) {
    const int high = i + 1 < all ? code(i + 1) : 0;
    codes[i / 2] = static_cast<std::uint8_t>((code(i) & 0xf) | (high & 0xf) << 4);
  }
}

void SampleCache::unpack(const std::byte* from, std::int64_t rows, std::int64_t columns, float* to) const {
  const auto count = static_cast<std::size_t>(rows * columns);
  if (type_ == CacheType::f32) {
    std::memcpy(to, from, 4 * count);
    return;
  }
  if (type_ == CacheType::f16) return convert(std::span(reinterpret_cast<const Half*>(from), count), std::span(to, count));
  const auto* const steps = reinterpret_cast<const float*>(from);
  const auto* const codes = reinterpret_cast<const std::uint8_t*>(from + sizeof(float) * static_cast<std::size_t>(columns));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::int64_t i = r * columns + c;
      const int code = type_ == CacheType::int8 ? static_cast<std::int8_t>(codes[i]) : static_cast<std::int8_t>(codes[i / 2] << (i % 2 == 0 ? 4 : 0)) >> 4;
      to[i] = static_cast<float>(code) * steps[c];
    }
}

std::size_t SampleCache::bytes() const {
  std::size_t sum = 0;
  for (const auto& [key, tensor] : tensors_) sum += tensor.slots->bytes();
  return sum;
}

void SampleCache::save(StateWriter& to) const {
  for (const auto& [key, tensor] : tensors_) {
    const std::size_t size = slot_bytes(tensor.rows, tensor.columns);
    std::vector<std::int64_t> ids = {tensor.rows, tensor.columns};
    std::vector<std::byte> values;
    values.reserve(size * tensor.samples.size());
    for (const auto& [sample, at] : tensor.samples) {
      ids.push_back(sample);
      values.insert(values.end(), at, at + size);
    }
    to.put(what_ + " samples", key, std::as_bytes(std::span(ids)));
    to.put(what_ + " values", key, values);
  }
}

void SampleCache::load(StateReader& from) {
  tensors_.clear();
  const auto refuse = [&](const std::string& why) { return CorruptData(owner_ + ": the samples of '" + what_ + "' " + why); };
  std::map<std::uint64_t, std::vector<std::int64_t>> ids;
  for (const StateEntry* entry : from.take(what_ + " samples", DType::u8)) {
    std::vector<std::int64_t>& numbers = ids[entry->key];
    if (entry->bytes.size() < 2 * sizeof(std::int64_t) || entry->bytes.size() % sizeof(std::int64_t) != 0) throw refuse("have a list of a wrong size");
    numbers.resize(entry->bytes.size() / sizeof(std::int64_t));
    std::memcpy(numbers.data(), entry->bytes.data(), entry->bytes.size());
  }
  for (const StateEntry* entry : from.take(what_ + " values", DType::u8)) {
    const auto found = ids.find(entry->key);
    if (found == ids.end()) throw refuse("have values without numbers");
    const std::vector<std::int64_t> numbers = std::move(found->second);
    ids.erase(found);
    const std::int64_t rows = numbers[0], columns = numbers[1], count = static_cast<std::int64_t>(numbers.size()) - 2;
    constexpr std::int64_t most = std::int64_t{1} << 31;
    if (rows < 0 || columns < 0 || rows > most || columns > most || count > limit_ || (columns > 0 && rows > std::numeric_limits<std::int64_t>::max() / 8 / columns))
      throw refuse("have no shape that fits");
    const std::size_t size = slot_bytes(rows, columns);
    if (entry->bytes.size() / std::max<std::size_t>(1, size) != static_cast<std::size_t>(count) || entry->bytes.size() != size * static_cast<std::size_t>(count))
      throw refuse("have " + std::to_string(entry->bytes.size()) + " bytes of values, which is not that of " + std::to_string(count) + " samples of this type");
    OfTensor& tensor = at(entry->key, rows, columns);
    for (std::int64_t n = 0; n < count; ++n) {
      const std::int64_t sample = numbers[static_cast<std::size_t>(n) + 2];
      if (tensor.samples.contains(sample)) throw refuse("name one of them twice");
      std::memcpy(slot(tensor, sample), entry->bytes.data() + static_cast<std::size_t>(n) * size, size);
    }
  }
  if (!ids.empty()) throw refuse("have numbers without values");
}

}  // namespace thinwire
