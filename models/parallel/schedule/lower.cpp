#include "models/parallel/schedule/lower.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/error.h"

namespace thinwire {
namespace {

using Kind = InstructionKind;
using List = std::vector<Instruction>;
using UnitKey = std::pair<int, int>;  ///< chunk, unit

bool goes_back(Kind kind) { return kind == Kind::receive_backward || kind == Kind::backward || kind == Kind::send_backward; }

Instruction of_unit(Instruction i, Kind kind, int unit) {
  i.kind = kind;
  i.peer = -1;
  i.unit = unit;
  return i;
}

/// Passes per unit, and reductions.
List split_passes(const List& whole, const std::vector<int>& units, const LoweringOptions& options) {
  std::map<int, std::size_t> last_of_chunk;
  for (std::size_t k = 0; k < whole.size(); ++k)
    if (whole[k].kind == Kind::backward) last_of_chunk[whole[k].chunk] = k;
  List list;
  for (std::size_t k = 0; k < whole.size(); ++k) {
    const Instruction& i = whole[k];
    if (!options.backward && goes_back(i.kind)) continue;
    const int count = units[static_cast<std::size_t>(i.chunk)];
    if (i.kind == Kind::forward) {
      for (int u = 0; u < count; ++u) list.push_back(of_unit(i, Kind::forward, u));
    } else if (i.kind == Kind::backward) {
      const bool completes = options.reduce == ReduceWhen::every ? i.slice == 0 : options.reduce == ReduceWhen::last && last_of_chunk[i.chunk] == k;
      for (int u = count; u-- > 0;) {
        list.push_back(of_unit(i, Kind::backward, u));
        if (completes && options.reduce_inside) list.push_back(of_unit(i, Kind::reduce, u));
      }
      if (completes && !options.reduce_inside)
        for (int u = count; u-- > 0;) list.push_back(of_unit(i, Kind::reduce, u));
    } else {
      list.push_back(i);
    }
  }
  return list;
}

/// Passes of a list, by their number among them, between which a unit stays gathered.
struct Stay {
  std::size_t first = 0, last = 0;
  UnitKey unit;
};

std::vector<Stay> stays_of(const List& passes, const LoweringOptions& options) {
  std::map<UnitKey, std::vector<Stay>> by_unit;
  std::map<UnitKey, int> open;  ///< micro-batches whose backward pass through the unit is to come
  for (std::size_t p = 0; p < passes.size(); ++p) {
    const UnitKey unit{passes[p].chunk, passes[p].unit};
    std::vector<Stay>& stays = by_unit[unit];
    const bool neighbours = !stays.empty() && p == stays.back().last + 1;
    const bool held = options.keep == KeepGathered::step || (options.keep == KeepGathered::micro_batch && options.backward && open[unit] > 0);
    if (stays.empty() || !(held || neighbours))
      stays.push_back({p, p, unit});
    else
      stays.back().last = p;
    open[unit] += passes[p].kind == Kind::forward ? 1 : -1;
  }
  std::vector<Stay> all;
  for (const auto& [unit, stays] : by_unit) all.insert(all.end(), stays.begin(), stays.end());
  std::ranges::sort(all, {}, &Stay::first);
  return all;
}

List with_gathers(const List& list, const LoweringOptions& options) {
  List passes;
  for (const Instruction& i : list)
    if (is_computation(i.kind)) passes.push_back(i);
  std::vector<List> before(passes.size()), needed(passes.size()), behind(passes.size());
  std::map<UnitKey, std::size_t> free_from;  ///< pass after which the unit's last stay has ended
  std::size_t start = 0;  // gathers start in the order in which they are waited for
  for (const Stay& stay : stays_of(passes, options)) {
    const auto ahead = static_cast<std::size_t>(options.prefetch);
    start = std::max(start, stay.first - std::min(stay.first, ahead));
    if (const auto found = free_from.find(stay.unit); found != free_from.end()) start = std::max(start, found->second);
    before[start].push_back(of_unit(passes[stay.first], Kind::unshard, stay.unit.second));
    needed[stay.first].push_back(of_unit(passes[stay.first], Kind::wait_unshard, stay.unit.second));
    behind[stay.last].push_back(of_unit(passes[stay.last], Kind::reshard, stay.unit.second));
    free_from[stay.unit] = stay.last + 1;
  }
  List all;
  std::size_t p = 0;
  const auto append = [&](const List& part) { all.insert(all.end(), part.begin(), part.end()); };
  for (const Instruction& i : list) {
    if (!is_computation(i.kind)) {
      all.push_back(i);
      continue;
    }
    append(before[p]);
    append(needed[p]);
    all.push_back(i);
    append(behind[p]);
    ++p;
  }
  return all;
}

}  // namespace

Schedule lower(const Schedule& schedule, const UnitCounts& units, const LoweringOptions& options) {
  if (options.prefetch < 0) throw UsageError("a gather cannot start " + std::to_string(-options.prefetch) + " passes after its parameters are needed");
  if (units.size() != schedule.stage.size()) throw UsageError("units are given for " + std::to_string(units.size()) + " stages, not " + std::to_string(schedule.stages));
  Schedule lowered = schedule;
  lowered.units = units;
  for (std::size_t stage = 0; stage < units.size(); ++stage) {
    const bool fits = static_cast<int>(units[stage].size()) == schedule.virtual_stages;
    if (!fits || std::ranges::any_of(units[stage], [](int count) { return count < 1; }))
      throw UsageError("stage " + std::to_string(stage) + " of schedule " + schedule.name + " needs " + std::to_string(schedule.virtual_stages) +
                       " chunks of at least one unit each");
    lowered.stage[stage] = split_passes(schedule.stage[stage], units[stage], options);
    if (options.gathers) lowered.stage[stage] = with_gathers(lowered.stage[stage], options);
  }
  return lowered;
}

std::size_t end_of_joined_pass(const List& list, std::size_t begin) {
  std::size_t end = begin + 1;
  const int step = list[begin].kind == Kind::forward ? 1 : -1;
  for (; list[begin].unit >= 0 && end < list.size(); ++end) {
    Instruction next = list[end - 1];
    next.unit += step;
    if (list[end] != next) break;
  }
  return end;
}

std::int64_t peak_lent(const Schedule& schedule, int stage, const std::function<std::vector<LentMatrix>(int chunk, int unit)>& matrices) {
  struct OfSize {
    std::int64_t lent = 0, most = 0;
  };
  std::map<std::int64_t, OfSize> pool;
  const auto take = [&](std::int64_t bytes) {
    OfSize& size = pool[bytes];
    size.most = std::max(size.most, ++size.lent);
  };
  const auto give = [&](std::int64_t bytes) { --pool[bytes].lent; };
  std::map<int, int> readers;                 ///< units that hold a matrix's values
  std::map<int, std::int64_t> adding, leaving;  ///< gradients, and those that travel
  for (const Instruction& i : schedule.stage.at(static_cast<std::size_t>(stage))) {
    if (i.unit < 0) continue;
    const std::vector<LentMatrix> list = matrices(i.chunk, i.unit);
    if (i.kind == Kind::reduce || i.kind == Kind::backward) {
      // A pass waits for its own unit's messages, a reduction for all.
      std::erase_if(leaving, [&](const auto& matrix) {
        const bool arrived = i.kind == Kind::reduce || std::ranges::find(list, matrix.first, &LentMatrix::id) != list.end();
        if (arrived) give(matrix.second);
        return arrived;
      });
    }
    for (const LentMatrix& m : list) {
      if (i.kind == Kind::unshard && readers[m.id]++ == 0) take(m.bytes);
      if (i.kind == Kind::reshard && --readers[m.id] == 0) give(m.bytes);
      if (i.kind == Kind::backward && adding.emplace(m.id, m.bytes).second) take(m.bytes);
      if (i.kind == Kind::reduce && m.completes && adding.erase(m.id) > 0) leaving.emplace(m.id, m.bytes);
    }
  }
  std::int64_t most = 0;
  for (const auto& [bytes, size] : pool) most += bytes * size.most;
  return most;
}

}  // namespace thinwire
