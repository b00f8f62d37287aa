// The k largest of every chunk: SparseLoCo (arXiv 2508.15706) and DeMo (2411.19870; docs/papers/low_communication.md, "Chunked Top-K").
//   a chunk is chunk x chunk neighbours of the matrix, the last ones cut off where it ends; of a tensor of one row chunk^2 neighbours, so that it keeps the same share
//   Y = x of the chunk, or with transform=dct C x C^T with zeros where it was cut off (kernels/matrix/dct.h; a row folded into rows of `chunk`)
//   kept = the min(k, size) elements of largest |Y|, among equal ones the lower position;  decoded = Y with zeros elsewhere, transformed back
// SparseLoCo: k=64,values=codebook2 (14 bits per kept value). values=sign,index=rice needs 9 for less error (the page, "Where we deviate, and why"). DeMo: transform=dct,k=32.
// Payload, chunks in order of rows of chunks: all values (kernels/sparse/chunk_values.h), then all positions in the chunk (kernels/sparse/chunk_index.h); of Rice's
// code all first parts, then all second parts, which make its size vary. No header.
// mean=senders: of a sum over ranks by gather, an element (or coefficient) is as many times its mean over the ranks that sent it as there are ranks (the authors' codes; means over all ranks divide by those
// that sent nothing, too, so one is up to as many times the other).
// Released form: chunks are the largest divisors of the extents up to `chunk`, of a row too (97 has chunks of 1); the code book is not symmetric; mean=senders.
#include "kernels/codec/codecs/sparse/chunk_topk.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/codec/reference_check.h"
#include "kernels/codec/registry.h"
#include "kernels/simd/codes/uniform_codes.h"
#include "kernels/simd/tiles.h"
#include "kernels/threads.h"

namespace thinwire {

ChunkTopK::ChunkTopK(const ChunkTopKOptions& options) : options_(options), values_(options.values, !options.released) {
  traits_.fixed_size = options.index != ChunkIndexForm::rice;
  traits_.encode_goal = 0.3, traits_.decode_goal = 0.5;
}

std::int64_t ChunkTopK::index_before(const ChunkGrid& grid, std::int64_t number) const {
  return grid.before(number, [&](std::int64_t kept) { return chunk_index_bytes(options_.index, grid.area(), kept); });
}
std::int64_t ChunkTopK::ends_before(const ChunkGrid& grid, std::int64_t number) const {
  return options_.index != ChunkIndexForm::rice ? 0 : grid.before(number, [&](std::int64_t kept) { return most_rice_bytes(grid.area(), kept); });
}

ChunkTopK::Layout ChunkTopK::layout(const ChunkGrid& grid) const {
  Layout l;
  l.index = values_.bytes(grid);
  l.ends = l.index + static_cast<std::size_t>(index_before(grid, grid.chunks()));
  l.most = l.ends + static_cast<std::size_t>(ends_before(grid, grid.chunks()));
  return l;
}

std::size_t ChunkTopK::max_payload_bytes(const Shape& shape) const { return layout(grid_of(shape)).most; }

void ChunkTopK::make_scratch() {
  while (scratch_.size() < static_cast<std::size_t>(omp_get_max_threads())) scratch_.push_back(std::make_unique<Scratch>());
}

std::size_t ChunkTopK::write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) {
  const ChunkGrid grid = grid_of(x.shape());
  const Layout parts = layout(grid);
  TW_ASSERT(payload.size() >= parts.most);
  make_scratch();
  const auto kept = static_cast<std::size_t>(grid.kept());
  float* const list = list_.as<float>(kept);
  index_out_ = payload.data() + parts.index, ends_out_ = payload.data() + parts.ends;
  ends_of_.resize(static_cast<std::size_t>(grid.chunks()));
  if (!select_chunks(x, grid)) {
    check_finite(x, text_of(key));
    throw NotRepresentable("chunk_topk: a coefficient of " + text_of(key) + " is beyond f32; scale the tensor");
  }
  if (!values_.write(grid, {list, kept}, payload.data()))
    throw NotRepresentable("chunk_topk: " + text_of(key) + " has a value beyond what travels; use values=f32, or scale the tensor");
  if (options_.index != ChunkIndexForm::rice) return parts.most;
  std::byte* end = ends_out_;  // each was written where the largest before it would end
  for (std::int64_t number = 0; number < grid.chunks(); ++number) {
    const std::size_t size = ends_of_[static_cast<std::size_t>(number)];
    std::memmove(end, ends_out_ + ends_before(grid, number), size);
    end += size;
  }
  return static_cast<std::size_t>(end - payload.data());
}

void ChunkTopK::keep(const ChunkGrid& grid, const Chunk& chunk, const ChunkSelection& selection) {
  const std::span<const std::uint16_t> positions = selection.positions();
  std::copy_n(selection.values().data(), positions.size(), reinterpret_cast<float*>(list_.data()) + grid.kept_before(chunk.number));
  write_chunk_index(options_.index, grid.area(), positions, index_out_ + index_before(grid, chunk.number));
  if (options_.index == ChunkIndexForm::rice)
    ends_of_[static_cast<std::size_t>(chunk.number)] = static_cast<std::uint32_t>(write_rice_ends(grid.area(), positions, ends_out_ + ends_before(grid, chunk.number)));
}

void ChunkTopK::expand(std::span<const std::byte> payload, const MessageKey& key, TensorView out, bool add) {
  const ChunkGrid grid = grid_of(out.shape());
  open(payload, key, out.shape(), grid);
  read_values(payload, key, grid);
  place_chunks(grid, key, out, add);
}

// Values are made larger before they are placed, so that coefficients are averaged as elements are.
void ChunkTopK::decode_together(std::span<const std::span<const std::byte>> payloads, const MessageKey& key, TensorView sum) {
  const ChunkGrid grid = grid_of(sum.shape());
  const auto area = static_cast<std::size_t>(grid.area());
  senders_.assign(static_cast<std::size_t>(grid.chunks()) * area, 0);
  const auto for_kept = [&](const auto& body) {
    for (std::int64_t number = 0; number < grid.chunks(); ++number) {
      const Chunk chunk = grid.chunk(number);
      body(chunk, positions_of(grid, chunk, key, scratch(0)), senders_.data() + static_cast<std::size_t>(number) * area);
    }
  };
  for (const std::span<const std::byte> payload : payloads) {
    open(payload, key, sum.shape(), grid);
    for_kept([](const Chunk&, std::span<const std::uint16_t> positions, std::uint32_t* senders) {
      for (const std::uint16_t position : positions) ++senders[position];
    });
  }
  for (std::size_t r = 0; r < payloads.size(); ++r) {
    open(payloads[r], key, sum.shape(), grid);
    read_values(payloads[r], key, grid);
    for_kept([&](const Chunk& chunk, std::span<const std::uint16_t> positions, const std::uint32_t* senders) {
      float* const values = reinterpret_cast<float*>(list_.data()) + grid.kept_before(chunk.number);
      for (std::size_t i = 0; i < positions.size(); ++i) values[i] *= static_cast<float>(payloads.size()) / static_cast<float>(senders[positions[i]]);
    });
    place_chunks(grid, key, sum, r > 0);
  }
}

void ChunkTopK::open(std::span<const std::byte> payload, const MessageKey& key, const Shape& shape, const ChunkGrid& grid) {
  const Layout parts = layout(grid);
  const auto wrong_size = [&](std::size_t wanted) { check_payload_size(payload.size(), wanted, "chunk_topk", shape, key); };
  if (traits_.fixed_size || payload.size() < parts.ends) wrong_size(parts.ends);
  index_in_ = payload.data() + parts.index, ends_in_ = payload.data() + parts.ends;
  if (!traits_.fixed_size) {
    std::span<const std::byte> rest = payload.subspan(parts.ends);
    ends_of_.resize(static_cast<std::size_t>(grid.chunks()));
    for (std::int64_t number = 0; number < grid.chunks(); ++number) {
      ends_of_[static_cast<std::size_t>(number)] = static_cast<std::uint32_t>(rest.data() - ends_in_);
      const std::size_t size = rice_bytes_of(rest, grid.chunk(number).kept);
      if (size == 0) throw CorruptData("chunk_topk: the positions of chunk " + std::to_string(number) + " of " + text_of(key) + " do not end: the payload is damaged");
      rest = rest.subspan(size);
    }
    if (!rest.empty()) wrong_size(payload.size() - rest.size());
  }
  make_scratch();
}

void ChunkTopK::read_values(std::span<const std::byte> payload, const MessageKey& key, const ChunkGrid& grid) {
  const auto kept = static_cast<std::size_t>(grid.kept());
  if (!values_.read(grid, payload.data(), {list_.as<float>(kept), kept})) throw CorruptData("chunk_topk: a value or a scale of " + text_of(key) + " is NaN, infinite or negative: the payload is damaged");
}

std::span<const std::uint16_t> ChunkTopK::positions_of(const ChunkGrid& grid, const Chunk& chunk, const MessageKey& key, Scratch& s) const {
  const std::byte* const ends = traits_.fixed_size ? nullptr : ends_in_ + ends_of_[static_cast<std::size_t>(chunk.number)];
  bool good = read_chunk_index(options_.index, grid.area(), chunk.kept, index_in_ + index_before(grid, chunk.number), ends, s.positions);
  if (good && !options_.dct && (chunk.rows < grid.height() || chunk.columns < grid.width()))
    for (std::int64_t i = 0; i < chunk.kept; ++i) good = good && s.positions[i] / grid.width() < chunk.rows && s.positions[i] % grid.width() < chunk.columns;
  if (!good) throw CorruptData("chunk_topk: positions of chunk " + std::to_string(chunk.number) + " of " + text_of(key) + " are not ascending inside of it: the payload is damaged");
  return {s.positions, static_cast<std::size_t>(chunk.kept)};
}

namespace {

constexpr std::size_t stream_from_bytes = 8 << 20;  // larger outputs bypass the caches

class PlainChunkTopK final : public ChunkTopK {
 public:
  using ChunkTopK::ChunkTopK;

 private:
  template <typename Body>
  void for_chunks(const ChunkGrid& grid, const Body& body) {
    parallel_ranges(grid.chunks(), std::max<std::int64_t>(1, default_grain / grid.area()), 1, [&](std::int64_t first, std::int64_t last, int thread) {
      for (std::int64_t number = first; number < last; ++number) body(grid.chunk(number), scratch(thread));
      simd::stream_fence();
    });
  }

  bool select_chunks(ConstTensorView x, const ChunkGrid& grid) override {
    const float* const values = x.as<float>().data();
    const auto stride = static_cast<std::size_t>(grid.columns());
    bool good = true;
    for_chunks(grid, [&](const Chunk& chunk, Scratch& s) {
      const ChunkSelection::Values of{values + chunk.row * grid.columns() + chunk.column, stride, static_cast<std::size_t>(chunk.rows), static_cast<std::size_t>(chunk.columns),
                                      static_cast<std::size_t>(grid.width())};
      if (s.selection.select(of, static_cast<std::size_t>(chunk.kept))) return keep(grid, chunk, s.selection);
#pragma omp atomic write
      good = false;
    });
    return good;
  }

  void place_chunks(const ChunkGrid& grid, const MessageKey& key, TensorView out, bool add) override {
    float* const values = out.as<float>().data();
    const bool stream = out.bytes() >= stream_from_bytes;
    for_chunks(grid, [&](const Chunk& chunk, Scratch& s) {
      const auto positions = positions_of(grid, chunk, key, s);
      const auto kept = values_of(grid, chunk);
      float* const to = values + chunk.row * grid.columns() + chunk.column;
      if (add) {
        for (std::size_t i = 0; i < kept.size(); ++i) to[positions[i] / grid.width() * grid.columns() + positions[i] % grid.width()] += kept[i];
        return;
      }
      for (std::size_t i = 0; i < kept.size(); ++i) s.zeros[positions[i]] = kept[i];
      simd::place_tile(s.zeros, static_cast<std::size_t>(grid.width()), static_cast<std::size_t>(chunk.rows), static_cast<std::size_t>(chunk.columns), to, static_cast<std::size_t>(grid.columns()), false, stream);
      for (const std::uint16_t position : positions) s.zeros[position] = 0;
    });
  }
};

ChunkTopKOptions options_of(const Parameters& p, Form form) {
  ChunkTopKOptions o;
  o.released = form == Form::released;
  o.dct = p.choice("transform") == "dct";
  o.grid = {.chunk = p.integer("chunk"), .kept = p.integer("k"), .divisors = o.released, .padded = o.dct};
  const std::string &index = p.choice("index"), &values = p.choice("values"), &mean = p.choice("mean");
  o.of_senders = mean == "senders" || (mean == "automatic" && o.released);
  o.index = index == "12bit" ? ChunkIndexForm::bits12 : index == "rice" ? ChunkIndexForm::rice : ChunkIndexForm::int64;
  o.values = values == "f32"         ? ChunkValueForm::f32
             : values == "f16"       ? ChunkValueForm::f16
             : values == "bf16"      ? ChunkValueForm::bf16
             : values == "codebook2" ? ChunkValueForm::codebook2
                                     : ChunkValueForm::sign;
  return o;
}

/// Energy of Y of a chunk without its largest `kept`, in float64.
double least_lost(std::span<const float> x, const ChunkGrid& grid, const Chunk& chunk, bool dct, std::int64_t fold) {
  const bool folded = dct && grid.height() == 1 && fold > 0;
  const std::int64_t h = folded ? fold : grid.height(), w = folded ? fold : grid.width();
  std::vector<double> y(static_cast<std::size_t>(h * w), 0), half(y.size(), 0);
  for (std::int64_t r = 0; r < chunk.rows; ++r)
    for (std::int64_t c = 0; c < chunk.columns; ++c) y[static_cast<std::size_t>(r * grid.width() + c)] = x[static_cast<std::size_t>((chunk.row + r) * grid.columns() + chunk.column + c)];
  const auto cosine = [](std::int64_t n, std::int64_t u, std::int64_t i) {
    return std::sqrt((u == 0 ? 1.0 : 2.0) / static_cast<double>(n)) * std::cos(3.14159265358979323846 * static_cast<double>((2 * i + 1) * u) / static_cast<double>(2 * n));
  };
  if (dct) {
    std::vector<double> down(static_cast<std::size_t>(h * h)), across(static_cast<std::size_t>(w * w));
    for (std::int64_t i = 0; i < h * h; ++i) down[static_cast<std::size_t>(i)] = cosine(h, i / h, i % h);
    for (std::int64_t i = 0; i < w * w; ++i) across[static_cast<std::size_t>(i)] = cosine(w, i / w, i % w);
    for (std::int64_t u = 0; u < h; ++u)
      for (std::int64_t r = 0; r < h; ++r)
        for (std::int64_t c = 0; c < w; ++c) half[static_cast<std::size_t>(u * w + c)] += down[static_cast<std::size_t>(u * h + r)] * y[static_cast<std::size_t>(r * w + c)];
    std::fill(y.begin(), y.end(), 0.0);
    for (std::int64_t u = 0; u < h; ++u)
      for (std::int64_t v = 0; v < w; ++v)
        for (std::int64_t c = 0; c < w; ++c) y[static_cast<std::size_t>(u * w + v)] += half[static_cast<std::size_t>(u * w + c)] * across[static_cast<std::size_t>(v * w + c)];
  }
  for (double& v : y) v *= v;
  std::nth_element(y.begin(), y.end() - static_cast<std::ptrdiff_t>(chunk.kept), y.end());
  double lost = 0;
  for (auto it = y.begin(); it != y.end() - static_cast<std::ptrdiff_t>(chunk.kept); ++it) lost += *it;
  return lost;
}

// No other choice of as many elements of a chunk, or coefficients, loses less; the few bits of signs and code books lose more of what is kept, but never make the chunk worse than zeros.
std::string check_formula(const CodecStack& stack, ConstTensorView tensor, std::span<const float> decoded) {
  const ChunkTopKOptions o = options_of(stack.expression.codec.parameters, stack.form);
  const ChunkGrid grid(tensor.shape(), o.grid);
  const std::span<const float> x = tensor.as<float>();
  const bool exact = o.values == ChunkValueForm::f32 || o.values == ChunkValueForm::f16 || o.values == ChunkValueForm::bf16;
  double all_lost = 0, all_energy = 0;
  for (std::int64_t number = 0; number < grid.chunks(); ++number) {
    const Chunk chunk = grid.chunk(number);
    double lost = 0, energy = 0;
    for (std::int64_t r = 0; r < chunk.rows; ++r)
      for (std::int64_t c = 0; c < chunk.columns; ++c) {
        const auto at = static_cast<std::size_t>((chunk.row + r) * grid.columns() + chunk.column + c);
        lost += (double{x[at]} - decoded[at]) * (double{x[at]} - decoded[at]);
        energy += double{x[at]} * x[at];
      }
    all_lost += lost, all_energy += energy;
    if (exact && lost > least_lost(x, grid, chunk, o.dct, o.released ? 0 : o.grid.chunk) + 1e-4 * energy)
      throw WrongResult("chunk " + std::to_string(number) + " loses more than the largest of it leave");
  }
  if (all_lost > all_energy) throw WrongResult("it loses more than zeros would");
  return exact ? "least lost energy of every chunk, in float64" : "lost energy";
}

const bool registered = register_codec(
    {.name = "chunk_topk",
     .summary = "the k largest elements of every 64 x 64 chunk, or of its cosine transform",
     .source = "SparseLoCo (arXiv 2508.15706), DeMo (2411.19870)",
     .wire = "values of all chunks, k each, then positions in the chunk: two in three bytes, or Rice's code; released: int64 positions",
     .parameters = {{.name = "chunk", .kind = ParameterSpec::Kind::integer, .default_value = "64", .minimum = 2, .maximum = largest_chunk, .help = "rows and columns of a chunk"},
                    {.name = "k", .kind = ParameterSpec::Kind::integer, .default_value = "64", .minimum = 1, .maximum = largest_area, .help = "kept elements of a chunk"},
                    {.name = "transform", .kind = ParameterSpec::Kind::choice, .default_value = "none", .choices = {"none", "dct"}, .help = "dct: coefficients are kept instead of elements"},
                    {.name = "index", .kind = ParameterSpec::Kind::choice, .default_value = "12bit", .choices = {"12bit", "rice", "int64"}, .help = "how positions are sent; rice: about 7.6 bits at the default k"},
                    {.name = "values",
                     .kind = ParameterSpec::Kind::choice,
                     .default_value = "f16",
                     .choices = {"f32", "f16", "bf16", "codebook2", "sign"},
                     .help = "how values are sent; codebook2: 2 bits; sign: 1 bit and a scale per chunk"},
                    {.name = "mean",
                     .kind = ParameterSpec::Kind::choice,
                     .default_value = "automatic",
                     .choices = {"automatic", "ranks", "senders"},
                     .help = "what a mean over ranks divides an element by: all of them, or those that sent it; automatic: all, but in the released form those that sent it"}},
     .presets = {"values=codebook2", "index=rice,values=sign", "k=32,transform=dct"},
     .has_released_form = true,
     .make =
         [](const Parameters& p, Form form) -> std::unique_ptr<Codec> {
           const ChunkTopKOptions options = options_of(p, form);
           if (options.dct) return make_dct_chunk_topk(options);
           return std::make_unique<PlainChunkTopK>(options);
         },
     .check = check_formula});

}  // namespace
}  // namespace thinwire
