// Layout, little-endian as the machine: "TWSTATE" 0, version u32, entries u32, then per entry
//   name length u32, name, key u64, dtype u8, dimensions u8, dimensions i64 each, bytes
// and at the end a 64-bit FNV-1a sum of everything before it.
#include "kernels/codec/state.h"

#include <bit>
#include <cstring>
#include <type_traits>

#include "core/random.h"

namespace thinwire {
namespace {

static_assert(std::endian::native == std::endian::little, "checkpoints are little-endian");
constexpr char magic[8] = {'T', 'W', 'S', 'T', 'A', 'T', 'E', 0};
constexpr std::uint32_t version = 1;
constexpr std::size_t entries_at = sizeof magic + sizeof version;
constexpr std::size_t header = entries_at + sizeof(std::uint32_t);

std::uint64_t sum_of(std::span<const std::byte> bytes) {
  return hash_name({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

void append(std::vector<std::byte>& to, const void* from, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(from);
  to.insert(to.end(), begin, begin + bytes);
}
template <typename T>
void append(std::vector<std::byte>& to, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  append(to, &value, sizeof value);
}

[[noreturn]] void damaged(const std::string& what) {
  throw CorruptData("the saved state of a codec is damaged: " + what + "; use another checkpoint, or reset the codec's state");
}

Shape shape_of(const std::int64_t* e, int dimensions) {
  switch (dimensions) {
    case 0:
      return {};
    case 1:
      return {e[0]};
    case 2:
      return {e[0], e[1]};
    case 3:
      return {e[0], e[1], e[2]};
    default:
      return {e[0], e[1], e[2], e[3]};
  }
}

/// Reads from the front of what is left.
class Bytes {
 public:
  explicit Bytes(std::span<const std::byte> bytes) : left_(bytes) {}
  std::span<const std::byte> take(std::size_t count) {
    if (count > left_.size()) damaged("it ends inside an entry");
    const auto front = left_.first(count);
    left_ = left_.subspan(count);
    return front;
  }
  template <typename T>
  T take() {
    T value{};
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  bool empty() const { return left_.empty(); }
  std::size_t size() const { return left_.size(); }

 private:
  std::span<const std::byte> left_;
};

}  // namespace

StateWriter::StateWriter() {
  append(bytes_, magic, sizeof magic);
  append(bytes_, version);
  append(bytes_, std::uint32_t{0});
}

void StateWriter::begin(const std::string& name, std::uint64_t key, DType dtype, const Shape& shape) {
  const std::string full = scope_ + name;
  append(bytes_, static_cast<std::uint32_t>(full.size()));
  append(bytes_, full.data(), full.size());
  append(bytes_, key);
  append(bytes_, static_cast<std::uint8_t>(dtype));
  append(bytes_, static_cast<std::uint8_t>(shape.rank()));
  for (int i = 0; i < shape.rank(); ++i) append(bytes_, static_cast<std::int64_t>(shape[i]));
  ++entries_;
}

void StateWriter::put(const std::string& name, std::uint64_t key, const Shape& shape, std::span<const float> values) {
  TW_ASSERT(shape.elements() == static_cast<std::int64_t>(values.size()), name);
  begin(name, key, DType::f32, shape);
  append(bytes_, values.data(), values.size_bytes());
}
void StateWriter::put(const std::string& name, std::uint64_t key, std::span<const std::byte> bytes) {
  begin(name, key, DType::u8, Shape{static_cast<std::int64_t>(bytes.size())});
  append(bytes_, bytes.data(), bytes.size());
}
void StateWriter::put(const std::string& name, const std::string& text) { put(name, 0, std::as_bytes(std::span(text))); }

std::vector<std::byte> StateWriter::finish() {
  std::memcpy(bytes_.data() + entries_at, &entries_, sizeof entries_);
  append(bytes_, sum_of(bytes_));
  std::vector<std::byte> done = std::move(bytes_);
  *this = StateWriter();
  return done;
}

std::vector<float> StateEntry::floats() const {
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}
std::string StateEntry::text() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

StateReader::StateReader(std::span<const std::byte> bytes) {
  if (bytes.size() < header + sizeof(std::uint64_t)) damaged(std::to_string(bytes.size()) + " bytes are too few");
  if (std::memcmp(bytes.data(), magic, sizeof magic) != 0) damaged("it does not begin as one");
  std::uint64_t sum = 0;
  const auto body = bytes.first(bytes.size() - sizeof sum);
  std::memcpy(&sum, bytes.data() + body.size(), sizeof sum);
  if (sum != sum_of(body)) damaged("its check sum is wrong (cut off or changed)");
  Bytes in(body.subspan(sizeof magic));
  const auto found = in.take<std::uint32_t>();
  if (found != version)
    throw CorruptData("the saved state of a codec has version " + std::to_string(found) + ", this program reads version " +
                      std::to_string(version) + "; reset the codec's state, or use the program that wrote it");
  const auto entries = in.take<std::uint32_t>();
  for (std::uint32_t i = 0; i < entries; ++i) {
    StateEntry& entry = entries_.emplace_back();
    const auto name = in.take(in.take<std::uint32_t>());
    entry.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
    entry.key = in.take<std::uint64_t>();
    const auto dtype = in.take<std::uint8_t>();
    if (dtype != static_cast<std::uint8_t>(DType::f32) && dtype != static_cast<std::uint8_t>(DType::u8))
      damaged("entry '" + entry.name + "' has an unknown element type");
    entry.dtype = static_cast<DType>(dtype);
    const auto dimensions = in.take<std::uint8_t>();
    if (dimensions > Shape::max_rank) damaged("entry '" + entry.name + "' has " + std::to_string(dimensions) + " dimensions");
    std::int64_t extents[Shape::max_rank] = {};
    std::uint64_t elements = 1;
    for (int d = 0; d < dimensions; ++d) {
      const auto extent = in.take<std::int64_t>();
      if (extent < 0) damaged("entry '" + entry.name + "' has a negative dimension");
      if (extent > 0 && elements > in.size() / static_cast<std::uint64_t>(extent))
        damaged("entry '" + entry.name + "' is larger than what is left");
      elements *= static_cast<std::uint64_t>(extent);
      extents[d] = extent;
    }
    entry.shape = shape_of(extents, dimensions);
    entry.bytes = in.take(static_cast<std::size_t>(elements) * size_of(entry.dtype));
  }
  if (!in.empty()) damaged("it has bytes behind its last entry");
}

std::vector<const StateEntry*> StateReader::take(const std::string& name, DType dtype) {
  std::vector<const StateEntry*> found;
  for (StateEntry& entry : entries_) {
    if (entry.taken || entry.name != scope_ + name) continue;
    if (entry.dtype != dtype)
      damaged("entry '" + entry.name + "' holds " + std::string(name_of(entry.dtype)) + " instead of " + std::string(name_of(dtype)));
    entry.taken = true;
    found.push_back(&entry);
  }
  return found;
}

std::string StateReader::take_text(const std::string& name) {
  const auto found = take(name, DType::u8);
  if (found.size() != 1) damaged("it has " + std::to_string(found.size()) + " entries '" + scope_ + name + "' instead of one");
  return found[0]->text();
}

void StateReader::check_all_taken() const {
  for (const StateEntry& entry : entries_)
    if (!entry.taken) damaged("entry '" + entry.name + "' belongs to no part of this codec");
}

}  // namespace thinwire
