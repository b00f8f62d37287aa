#include "models/capture/capture_plan.h"

#include <algorithm>
#include <charconv>

namespace thinwire {
namespace {

std::int64_t parse_extent(std::string_view text, const std::string& whole) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 1 || value > 1 << 20)
    throw UsageError("Capture shape '" + whole + "' is not BATCHxSEQ with two positive numbers, e.g. 8x128.");
  return value;
}

}  // namespace

std::vector<CaptureShape> parse_capture_shapes(const std::string& text) {
  std::vector<CaptureShape> shapes;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string item = text.substr(at, comma - at);
    const std::size_t cross = item.find('x');
    if (cross == std::string::npos)
      throw UsageError("Capture shape '" + item + "' is not BATCHxSEQ, e.g. 8x128.");
    const CaptureShape shape{parse_extent(std::string_view(item).substr(0, cross), item),
                             parse_extent(std::string_view(item).substr(cross + 1), item)};
    if (std::find(shapes.begin(), shapes.end(), shape) != shapes.end())
      throw UsageError("Capture shape '" + item + "' is named twice.");
    shapes.push_back(shape);
    at = comma + 1;
  }
  return shapes;
}

std::int64_t CapturePlan::bytes() const {
  std::int64_t total = 0;
  for (const PlannedSlot& p : kept) total += p.bytes();
  return total;
}

CapturePlan plan_capture(const CapturePlanOptions& o) {
  std::vector<PlannedSlot> all;
  const std::string last = "layer" + std::to_string(o.layers - 1),
                    middle = "layer" + std::to_string(o.layers / 2);
  const CaptureShape base = o.shapes.front();
  const std::int64_t h = o.hidden;
  for (const CaptureShape& s : o.shapes)
    for (const std::string point : {"late", "early"}) {
      const bool early = point == "early", is_base = s == base;
      if (early && !is_base) continue;
      const int steps = is_base ? o.base_steps : o.other_steps;
      const Shape activation{s.batch, s.seq, h};
      const auto add = [&](const std::string& traffic, const std::string& tensor, const char* kind, int parts,
                           Shape shape, int priority) {
        const bool gradient = traffic != "tp_forward" && traffic != "pp_forward" && traffic != "param_all_gather";
        all.push_back(
            {{traffic, tensor, point, s.batch, s.seq, kind, parts, shape, gradient ? o.loss_scale : 1.0},
             steps,
             priority});
      };
      for (int t : o.tensor_ranks)
        for (const char* linear : {".attention.projection", ".mlp.projection"})
          add("tp_forward", last + linear, "rank", t, activation, early ? 4 : 0);
      for (std::int64_t boundary = 1; boundary < o.layers; ++boundary)
        for (const char* traffic : {"pp_forward", "pp_backward"}) {
          const bool middle_boundary = boundary == o.layers / 2;
          // At the other shapes the outer boundaries are the first to go: they differ little from the middle
          // one.
          add(traffic, "boundary" + std::to_string(boundary), "micro",
              is_base ? std::min(o.pipeline_micro, o.replicas) : o.other_micro, activation,
              middle_boundary ? (early ? 4 : 0) : (is_base && !early ? 2 : 6));
        }
      if (!is_base) continue;
      const int needed = early ? 3 : 0;
      add("dp_gradient", middle + ".attention.qkv.weight", "micro", o.replicas, {h, 3 * h}, needed);
      add("dp_gradient", middle + ".attention.projection.weight", "micro", o.replicas, {h, h}, needed);
      add("dp_gradient", middle + ".mlp.expand.weight", "micro", o.replicas, {h, 4 * h}, early ? 7 : 5);
      if (!early) add("param_all_gather", middle + ".attention.qkv.weight", "micro", 1, {h, 3 * h}, 5);
      add("embedding", "token.first_use", "micro", o.replicas, {o.vocab, h}, needed);
      add("embedding", "token.last_use", "micro", o.replicas, {o.vocab, h}, needed);
    }

  CapturePlan plan;
  const std::int64_t cap = o.max_mib << 20;
  std::int64_t needed = 0;
  for (const PlannedSlot& p : all)
    if (p.priority == 0) needed += p.bytes();
  if (needed > cap)
    throw UsageError("The capture needs at least " + std::to_string((needed >> 20) + 1) +
                     " MiB for these shapes, more than --max-mib " + std::to_string(o.max_mib) +
                     ". Raise --max-mib, or name fewer or smaller --shapes, or lower --hidden.");
  std::stable_sort(all.begin(), all.end(),
                   [](const PlannedSlot& a, const PlannedSlot& b) { return a.priority < b.priority; });
  std::int64_t total = 0;
  for (PlannedSlot& p : all) {
    const bool fits = total + p.bytes() <= cap;
    if (fits) total += p.bytes();
    (fits ? plan.kept : plan.left_out).push_back(std::move(p));
  }
  return plan;
}

}  // namespace thinwire
