#include "models/capture/capture_reader.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "kernels/convert.h"
#include "models/capture/capture_writer.h"
#include "results/hdf5/hdf5.h"
#include "results/record.h"

namespace thinwire {
namespace {

constexpr const char* remedy = " Make a new one with: capture_traffic --out FILE.";

template <typename T>
const std::vector<T>& column(const results::Table& table, const char* name, const std::string& where) {
  const results::TableColumn* found = table.find(name);
  const auto* values = found ? std::get_if<std::vector<T>>(&found->values) : nullptr;
  if (!values) throw CorruptData(where + " lacks the column `" + name + "` or it has another type." + remedy);
  return *values;
}

bool matches(const CaptureTensor& t, const CaptureQuery& q) {
  return (q.traffic.empty() || q.traffic == t.traffic) && (q.tensor.empty() || q.tensor == t.tensor) &&
         (q.point.empty() || q.point == t.point) && (q.batch == 0 || q.batch == t.batch) &&
         (q.seq == 0 || q.seq == t.seq) && (q.parts == 0 || q.parts == t.parts) &&
         t.parts >= q.at_least_parts;
}

std::string describe(const CaptureTensor& t) {
  return t.traffic + "/" + t.tensor + "/" + t.point + " b" + std::to_string(t.batch) + " s" +
         std::to_string(t.seq) + " parts " + std::to_string(t.parts);
}

}  // namespace

struct CaptureReader::File {
  h5::File file;
  std::vector<CaptureSlot> slots;  // same order as tensors_
};

CaptureReader::CaptureReader(CaptureReader&&) noexcept = default;
CaptureReader& CaptureReader::operator=(CaptureReader&&) noexcept = default;
CaptureReader::~CaptureReader() = default;

CaptureReader::CaptureReader(const std::string& path) : file_(new File{h5::File::open_read(path), {}}) {
  const h5::File& file = file_->file;
  results::require_schema(file);
  if (!file.has_attribute("", "capture_version"))
    throw CorruptData("'" + path + "' is an HDF5 file of thinwire but no capture of traffic." + remedy);
  info_.path = path;
  info_.schema_version = static_cast<int>(file.int_attribute("", "capture_version"));
  if (info_.schema_version != capture_schema_version)
    throw CorruptData("Capture '" + path + "' has version " + std::to_string(info_.schema_version) +
                      ", this program reads version " + std::to_string(capture_schema_version) + "." +
                      remedy);
  info_.corpus = file.text_attribute("", "corpus");
  info_.seed = static_cast<std::uint64_t>(file.int_attribute("", "seed"));
  info_.hidden = file.int_attribute("", "hidden");
  info_.layers = file.int_attribute("", "layers");
  info_.heads = file.int_attribute("", "heads");
  info_.vocab = file.int_attribute("", "vocab");
  info_.loss_scale = file.float_attribute("", "loss_scale");
  info_.unigram_entropy = file.float_attribute("", "unigram_entropy");
  info_.bigram_entropy = file.float_attribute("", "bigram_entropy");
  info_.loss_early = file.float_attribute("", "loss_early");
  info_.loss_late = file.float_attribute("", "loss_late");

  const results::Table steps = file.read_table("captured_steps"), index = file.read_table("tensors");
  const std::string where_steps = path + ": /captured_steps", where = path + ": /tensors";
  const auto& step_numbers = column<std::int64_t>(steps, "step", where_steps);
  std::map<std::int64_t, double> losses;
  for (std::size_t i = 0; i < step_numbers.size(); ++i)
    losses[step_numbers[i]] = column<double>(steps, "loss", where_steps)[i];

  std::vector<std::pair<CaptureTensor, CaptureSlot>> found;
  for (std::size_t i = 0; i < index.rows(); ++i) {
    const auto integer = [&](const char* name) { return column<std::int64_t>(index, name, where)[i]; };
    const auto text = [&](const char* name) { return column<std::string>(index, name, where)[i]; };
    CaptureSlot s{text("traffic"),
                  text("tensor"),
                  text("point"),
                  integer("batch"),
                  integer("seq"),
                  text("part_kind"),
                  static_cast<int>(integer("parts")),
                  {},
                  column<double>(index, "scale", where)[i]};
    const std::int64_t e0 = integer("extent0"), e1 = integer("extent1"), e2 = integer("extent2"),
                       rank = integer("rank");
    constexpr std::int64_t most = std::int64_t{1} << 40;  // so that no product of two overflows unseen
    const auto fits = [](std::int64_t a, std::int64_t b) { return b == 0 || a <= most / b; };
    if (rank < 2 || rank > 3 || e0 < 0 || e1 < 0 || e2 < 0 || s.parts < 1 || e0 > most || e1 > most || !fits(e0, e1) || (rank == 3 && !fits(e0 * e1, e2)))
      throw CorruptData(where + ": row " + std::to_string(i) + " has an impossible shape." + remedy);
    s.shape = rank == 2 ? Shape{e0, e1} : Shape{e0, e1, e2};
    CaptureTensor t{s.traffic, s.tensor, s.point, s.batch, s.seq, s.parts, s.shape, {}, {}};
    const std::int64_t first_step = integer("first_step"), count = integer("steps");
    if (first_step < 0 || first_step > most || count > most) throw CorruptData(where + ": row " + std::to_string(i) + " has impossible steps." + remedy);
    for (std::int64_t k = 0; k < count; ++k) {
      t.steps.push_back(first_step + k);
      const auto loss = losses.find(t.steps.back());
      if (loss == losses.end())
        throw CorruptData(where + ": step " + std::to_string(t.steps.back()) + " is not in /captured_steps." +
                          remedy);
      t.losses.push_back(loss->second);
    }
    found.emplace_back(std::move(t), std::move(s));
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    const auto key = [](const CaptureTensor& t) {
      return std::tie(t.traffic, t.tensor, t.point, t.batch, t.seq, t.parts);
    };
    return key(a.first) < key(b.first);
  });
  for (auto& [tensor, slot] : found) {
    tensors_.push_back(std::move(tensor));
    file_->slots.push_back(std::move(slot));
  }
}

std::vector<CaptureTensor> CaptureReader::matching(const CaptureQuery& query) const {
  std::vector<CaptureTensor> out;
  std::copy_if(tensors_.begin(), tensors_.end(), std::back_inserter(out),
               [&](const CaptureTensor& t) { return matches(t, query); });
  return out;
}

const CaptureTensor& CaptureReader::find(const CaptureQuery& q) const {
  const CaptureTensor* only = nullptr;
  int count = 0;
  std::string candidates;
  for (const CaptureTensor& t : tensors_) {
    if (matches(t, q)) only = &t, ++count;
    if (q.traffic.empty() || t.traffic == q.traffic) candidates += "\n  " + describe(t);
  }
  if (count == 1) return *only;
  const CaptureTensor asked{q.traffic, q.tensor, q.point, q.batch, q.seq, std::max(q.parts, q.at_least_parts),
                            {},        {},       {}};
  throw UsageError("Capture '" + info_.path + "' holds " +
                   (count == 0 ? std::string("no tensor") : std::to_string(count) + " tensors") + " for " +
                   describe(asked) + " (0 or empty = any). It holds of this class:" +
                   (candidates.empty() ? " nothing" : candidates) +
                   "\nAsk for one of these, or capture again with other --shapes.");
}

void CaptureReader::load(const CaptureTensor& tensor, int step_index, int part, std::span<float> to) const {
  const auto it = std::find_if(tensors_.begin(), tensors_.end(),
                               [&](const CaptureTensor& t) { return describe(t) == describe(tensor); });
  if (it == tensors_.end())
    throw UsageError("Capture '" + info_.path + "' does not hold " + describe(tensor) + ".");
  if (step_index < 0 || step_index >= static_cast<int>(it->steps.size()) || part < 0 || part >= it->parts)
    throw UsageError("Capture '" + info_.path + "': " + describe(*it) + " has steps 0.." +
                     std::to_string(it->steps.size() - 1) + " and parts 0.." + std::to_string(it->parts - 1) +
                     "; asked for step " + std::to_string(step_index) + ", part " + std::to_string(part) +
                     ".");
  TW_ASSERT(static_cast<std::int64_t>(to.size()) == it->shape.elements(), tensor.tensor);
  const CaptureSlot& slot = file_->slots[static_cast<std::size_t>(it - tensors_.begin())];
  const std::string path = capture_path(slot, it->steps[static_cast<std::size_t>(step_index)], part);
  const Tensor stored = file_->file.read(path);
  if (stored.dtype() != DType::f16 || stored.shape() != it->shape)
    throw CorruptData("Capture '" + info_.path + "': /" + path + " is " + stored.shape().to_string() +
                      " of " + std::string(name_of(stored.dtype())) + " where the index says " +
                      it->shape.to_string() + " of f16." + remedy);
  convert(stored.as<Half>(), to);
}

Tensor CaptureReader::load(const CaptureTensor& tensor, int step_index, int part) const {
  Tensor out(tensor.shape);
  load(tensor, step_index, part, out.as<float>());
  return out;
}

}  // namespace thinwire
