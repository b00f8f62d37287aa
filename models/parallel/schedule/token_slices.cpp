#include "models/parallel/schedule/token_slices.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/error.h"
#include "core/joined.h"

namespace thinwire {
namespace {

constexpr double unreachable = std::numeric_limits<double>::infinity();

void require_positive(const char* what, int value) {
  if (value < 1) throw UsageError(std::string("token slices: ") + what + " must be at least 1, not " + std::to_string(value));
}

/// t of b sequences by (tokens, context) in units of the granularity, triangular: tokens + context <= units.
class TimeTable {
 public:
  TimeTable(const SliceTime& time, int units, int granularity) : units_(units), values_(static_cast<std::size_t>(units) * static_cast<std::size_t>(units)) {
    for (int tokens = 1; tokens <= units; ++tokens)
      for (int context = 0; context + tokens <= units; ++context) {
        const double t = time(tokens * granularity, context * granularity);
        if (!(t > 0) || std::isinf(t))
          throw RuntimeFailure("the time of a slice of " + std::to_string(tokens * granularity) + " tokens after " + std::to_string(context * granularity) + " is " +
                               std::to_string(t) + "; times must be above 0 and finite");
        values_[index(tokens, context)] = t;
      }
  }
  double at(int tokens, int context) const { return values_[index(tokens, context)]; }
  void append_to(std::vector<double>& all) const {
    for (int tokens = 1; tokens <= units_; ++tokens)
      for (int context = 0; context + tokens <= units_; ++context) all.push_back(at(tokens, context));
  }

 private:
  std::size_t index(int tokens, int context) const { return static_cast<std::size_t>(tokens - 1) * static_cast<std::size_t>(units_) + static_cast<std::size_t>(context); }
  int units_;
  std::vector<double> values_;
};

struct Cut {
  double sum = unreachable;  ///< f[units]
  double largest = 0;
  std::vector<int> units;
};

/// The least sum of slice times, none above `bound`.
Cut least_sum(const TimeTable& t, int units, double bound) {
  std::vector<double> f(static_cast<std::size_t>(units) + 1, unreachable);
  std::vector<int> last(f.size(), 0);
  f[0] = 0;
  for (int n = 1; n <= units; ++n)
    for (int s = 1; s <= n; ++s) {
      const double own = t.at(s, n - s), all = f[static_cast<std::size_t>(n - s)] + own;
      if (own <= bound && all < f[static_cast<std::size_t>(n)]) f[static_cast<std::size_t>(n)] = all, last[static_cast<std::size_t>(n)] = s;
    }
  Cut cut;
  cut.sum = f.back();
  if (cut.sum == unreachable) return cut;
  for (int n = units; n > 0; n -= last[static_cast<std::size_t>(n)]) {
    const int s = last[static_cast<std::size_t>(n)];
    cut.units.push_back(s);
    cut.largest = std::max(cut.largest, t.at(s, n - s));
  }
  std::reverse(cut.units.begin(), cut.units.end());
  return cut;
}

/// The bounds worth trying, ascending: of all values within eps of the smallest one left, the largest, under which each of them fits.
std::vector<double> bounds_of(std::vector<double> values, double eps) {
  std::sort(values.begin(), values.end());
  std::vector<double> bounds;
  double group = -unreachable;
  for (const double value : values) {
    if (bounds.empty() || value - group >= eps) {
      if (!bounds.empty() && value == bounds.back()) continue;
      bounds.push_back(value), group = value;
    } else {
      bounds.back() = value;
    }
  }
  return bounds;
}

int units_of(int length, const SliceSearch& search) {
  require_positive("the length", length);
  require_positive("the granularity", search.granularity);
  if (length % search.granularity != 0)
    throw UsageError("token slices: sequences of " + std::to_string(length) + " tokens are no multiple of the granularity " + std::to_string(search.granularity));
  return length / search.granularity;
}

std::vector<int> in_tokens(std::vector<int> units, int granularity) {
  for (int& u : units) u *= granularity;
  return units;
}

}  // namespace

double sliced_step(const BatchSliceTime& time, const std::vector<SlicedBatch>& micro_batches, int stages) {
  require_positive("stages", stages);
  double sum = 0, largest = 0;
  for (const SlicedBatch& m : micro_batches) {
    require_positive("the sequences of a micro-batch", m.batch);
    int context = 0;
    for (const int s : m.slices) {
      require_positive("a slice", s);
      const double t = time(m.batch, s, context);
      sum += t, largest = std::max(largest, t), context += s;
    }
  }
  if (largest == 0) throw UsageError("token slices: there is no slice");
  return sum + (stages - 1) * largest;
}

double sliced_step(const SliceTime& time, const std::vector<int>& slices, int stages) {
  return sliced_step([&](int, int s, int c) { return time(s, c); }, {{1, slices}}, stages);
}

std::vector<int> uniform_slices(int length, int count) {
  require_positive("the length", length);
  require_positive("the number of slices", count);
  if (length % count != 0) {
    int below = std::min(count, length), above = count;
    while (length % below != 0) --below;
    while (above <= length && length % above != 0) ++above;
    throw UsageError("token slices: sequences of " + std::to_string(length) + " tokens cannot be cut into " + std::to_string(count) + " equal slices; " +
                     std::to_string(below) + (above <= length ? " or " + std::to_string(above) : "") + " would do, or name the slices (\"32,16,16\")");
  }
  return std::vector<int>(static_cast<std::size_t>(count), length / count);
}

std::vector<int> parse_slices(const std::string& text, int length) {
  std::vector<int> numbers;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t to = std::min(text.find(',', from), text.size());
    int value = 0;
    const auto [end, error] = std::from_chars(text.data() + from, text.data() + to, value);
    if (error != std::errc() || end != text.data() + to || value < 1)
      throw UsageError("token slices `" + text + "`: a number of equal slices (\"4\") or the tokens of each (\"32,16,16\")");
    numbers.push_back(value);
    from = to + 1;
  }
  if (numbers.size() == 1) return uniform_slices(length, numbers.front());
  const long long sum = std::accumulate(numbers.begin(), numbers.end(), 0LL);
  if (sum != length)
    throw UsageError("token slices `" + text + "` make up " + std::to_string(sum) + " tokens, but sequences have " + std::to_string(length));
  return numbers;
}

std::string format_slices(const std::vector<int>& slices) {
  return joined(slices, ",", [](int slice) { return std::to_string(slice); });
}

SlicePlan best_slices(const SliceTime& time, int length, int stages, const SliceSearch& search) {
  const int units = units_of(length, search);
  require_positive("stages", stages);
  const TimeTable t(time, units, search.granularity);
  std::vector<double> times;
  t.append_to(times);
  SlicePlan best;
  best.step = unreachable;
  for (const double bound : bounds_of(std::move(times), search.eps)) {
    if (stages * (bound - search.eps) >= best.step) break;  // a cut below this bound may stay eps below it
    const Cut cut = least_sum(t, units, bound);
    // The cut may stay below the bound; its own largest slice time is what counts.
    const double step = cut.sum + (stages - 1) * cut.largest;
    if (step < best.step) best = {in_tokens(cut.units, search.granularity), step};
  }
  return best;
}

BatchPlan best_batches_and_slices(const BatchSliceTime& time, int batch, int length, int stages, const SliceSearch& search, int most_together) {
  const int units = units_of(length, search);
  require_positive("stages", stages);
  require_positive("the batch", batch);
  const int most = most_together > 0 ? std::min(most_together, batch) : batch;
  std::vector<TimeTable> tables;
  std::vector<double> times;
  for (int b = 1; b <= most; ++b) {
    tables.emplace_back([&](int s, int c) { return time(b, s, c); }, units, search.granularity);
    tables.back().append_to(times);
  }
  BatchPlan best;
  best.step = unreachable;
  for (const double bound : bounds_of(std::move(times), search.eps)) {
    if (stages * (bound - search.eps) >= best.step) break;  // a cut below this bound may stay eps below it
    std::vector<Cut> cuts;
    for (const TimeTable& t : tables) cuts.push_back(least_sum(t, units, bound));
    std::vector<double> g(static_cast<std::size_t>(batch) + 1, unreachable);
    std::vector<int> last(g.size(), 0);
    g[0] = 0;
    for (int n = 1; n <= batch; ++n)
      for (int b = 1; b <= std::min(most, n); ++b) {
        const double sum = g[static_cast<std::size_t>(n - b)] + cuts[static_cast<std::size_t>(b - 1)].sum;
        if (sum < g[static_cast<std::size_t>(n)]) g[static_cast<std::size_t>(n)] = sum, last[static_cast<std::size_t>(n)] = b;
      }
    if (g.back() == unreachable) continue;
    BatchPlan plan;
    double largest = 0;
    for (int n = batch; n > 0; n -= last[static_cast<std::size_t>(n)]) {
      const int b = last[static_cast<std::size_t>(n)];
      const Cut& cut = cuts[static_cast<std::size_t>(b - 1)];
      plan.micro_batches.push_back({b, in_tokens(cut.units, search.granularity)});
      largest = std::max(largest, cut.largest);
    }
    plan.step = g.back() + (stages - 1) * largest;
    if (plan.step < best.step) best = std::move(plan);
  }
  return best;
}

}  // namespace thinwire
