#include "models/capture/capture_writer.h"

#include <algorithm>

#include "core/half.h"
#include "kernels/convert.h"

namespace thinwire {

std::string capture_path(const CaptureSlot& s, std::int64_t step, int part) {
  const std::string leaf = s.part_kind == "rank"
                               ? "rank" + std::to_string(part) + "_of" + std::to_string(s.parts)
                               : "micro" + std::to_string(part);
  return "traffic/" + s.traffic + "/" + s.tensor + "/" + s.point + "/b" + std::to_string(s.batch) + "_s" +
         std::to_string(s.seq) + "/step" + std::to_string(step) + "/" + leaf;
}

std::size_t CaptureWriter::declare(const CaptureSlot& slot) {
  slots_.push_back(slot);
  counts_.emplace_back();
  return slots_.size() - 1;
}

void CaptureWriter::write(std::size_t number, std::int64_t step, int part, const float* values) {
  const CaptureSlot& slot = slots_.at(number);
  TW_ASSERT(part >= 0 && part < slot.parts, slot.tensor);
  const auto n = static_cast<std::size_t>(slot.shape.elements());
  std::span<const float> source(values, n);
  if (slot.scale != 1.0) {
    scaled_.resize(n);
    scale(scaled_, source, static_cast<float>(slot.scale));
    source = scaled_;
  }
  halves_.resize(n);
  convert(source, std::span(halves_));
  std::int64_t flushed = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if ((halves_[i].bits & 0x7c00u) == 0x7c00u)
      throw RuntimeFailure(
          "Captured tensor " + slot.traffic + "/" + slot.tensor + ", step " + std::to_string(step) +
          ", part " + std::to_string(part) + ", element " + std::to_string(i) + ": " +
          std::to_string(values[i]) + " times " + std::to_string(slot.scale) +
          " is not a finite f16. Lower --loss-scale, or the learning rate if training diverged.");
    flushed += (halves_[i].bits & 0x7fffu) == 0 && values[i] != 0.0f;
  }
  file_.write(capture_path(slot, step, part), ConstTensorView(halves_.data(), slot.shape));
  Count& count = counts_[number];
  if (count.steps.empty() || count.steps.back() != step) count.steps.push_back(step);
  count.flushed_to_zero += flushed;
  count.values += static_cast<std::int64_t>(n);
  bytes_ += static_cast<std::int64_t>(2 * n);
}

void CaptureWriter::step_done(const std::string& point, std::int64_t batch, std::int64_t seq,
                              std::int64_t step, double loss) {
  steps_.push_back({point, batch, seq, step, loss});
}

void CaptureWriter::finish(const CaptureInfo& info) {
  using results::Table;
  const auto text = [](auto& rows, const char* name, auto member) {
    std::vector<std::string> v;
    for (const auto& r : rows) v.push_back(member(r));
    return results::TableColumn{name, std::move(v)};
  };
  const auto number = [](auto& rows, const char* name, auto member) {
    std::vector<std::int64_t> v;
    for (const auto& r : rows) v.push_back(member(r));
    return results::TableColumn{name, std::move(v)};
  };
  const auto real = [](auto& rows, const char* name, auto member) {
    std::vector<double> v;
    for (const auto& r : rows) v.push_back(member(r));
    return results::TableColumn{name, std::move(v)};
  };
  Table index;
  using S = CaptureSlot;
  index.columns = {text(slots_, "traffic", [](const S& s) { return s.traffic; }),
                   text(slots_, "tensor", [](const S& s) { return s.tensor; }),
                   text(slots_, "point", [](const S& s) { return s.point; }),
                   number(slots_, "batch", [](const S& s) { return s.batch; }),
                   number(slots_, "seq", [](const S& s) { return s.seq; }),
                   text(slots_, "part_kind", [](const S& s) { return s.part_kind; }),
                   number(slots_, "parts", [](const S& s) { return std::int64_t{s.parts}; }),
                   number(slots_, "rank", [](const S& s) { return std::int64_t{s.shape.rank()}; })};
  for (int axis = 0; axis < 3; ++axis)
    index.columns.push_back(number(slots_, ("extent" + std::to_string(axis)).c_str(), [axis](const S& s) {
      return axis < s.shape.rank() ? s.shape[axis] : std::int64_t{1};
    }));
  index.columns.push_back(real(slots_, "scale", [](const S& s) { return s.scale; }));
  index.columns.push_back(number(counts_, "first_step", [](const Count& c) {
    return c.steps.empty() ? std::int64_t{-1} : c.steps.front();
  }));
  index.columns.push_back(
      number(counts_, "steps", [](const Count& c) { return static_cast<std::int64_t>(c.steps.size()); }));
  index.columns.push_back(
      number(counts_, "non_finite", [](const Count&) { return std::int64_t{0}; }));  // write() refuses them
  index.columns.push_back(real(counts_, "flushed_to_zero", [](const Count& c) {
    return c.values ? static_cast<double>(c.flushed_to_zero) / static_cast<double>(c.values) : 0.0;
  }));
  file_.write_table("tensors", index);
  Table steps;
  steps.columns = {text(steps_, "point", [](const Step& s) { return s.point; }),
                   number(steps_, "batch", [](const Step& s) { return s.batch; }),
                   number(steps_, "seq", [](const Step& s) { return s.seq; }),
                   number(steps_, "step", [](const Step& s) { return s.step; }),
                   real(steps_, "loss", [](const Step& s) { return s.loss; })};
  file_.write_table("captured_steps", steps);

  file_.set_attribute("", "kind", "capture");
  file_.set_attribute("", "capture_version", capture_schema_version);
  file_.set_attribute("", "dtype", "f16");
  file_.set_attribute("", "corpus", info.corpus);
  file_.set_attribute("", "seed", static_cast<std::int64_t>(info.seed));
  file_.set_attribute("", "hidden", info.hidden);
  file_.set_attribute("", "layers", info.layers);
  file_.set_attribute("", "heads", info.heads);
  file_.set_attribute("", "vocab", info.vocab);
  file_.set_attribute("", "loss_scale", info.loss_scale);
  file_.set_attribute("", "bigram_entropy", info.bigram_entropy);
  file_.set_attribute("", "unigram_entropy", info.unigram_entropy);
  file_.set_attribute("", "loss_early", info.loss_early);
  file_.set_attribute("", "loss_late", info.loss_late);
}

}  // namespace thinwire
