// tensor_parallel.C4: what really travels is what the formulas say, to the byte, for every operator of every grid.
#include <cmath>
#include <cstdio>

#include "experiments/claims/tensor_parallel/cells/probe.h"
#include "models/parallel/tensor/grid_check_cases.h"
#include "models/cost_model/grid_cost.h"

namespace thinwire::claims {
namespace {

using namespace tensor_parallel;

constexpr std::int64_t word = 8;

/// Counted against formula, in bytes over all ranks.
struct Account {
  Table table{"received elements per rank", {"ranks", "counted", "formula", "difference"}, {}};
  int compared = 0, off = 0;
  std::int64_t largest = 0, spread = 0;
  std::string where;

  /// `elements`: mean over ranks.
  void compare(const std::string& name, int ranks, std::int64_t bytes, double elements) {
    const std::int64_t apart = bytes - word * std::llround(elements * ranks);
    const double counted = static_cast<double>(bytes) / word / ranks;
    table.rows.push_back({name, {static_cast<double>(ranks), counted, elements, counted - elements}});
    ++compared;
    if (apart == 0) return;
    ++off;
    if (std::abs(apart) > std::abs(largest)) largest = apart, where = name + " on " + std::to_string(ranks) + " ranks";
  }
};

void add_linears(Account& account, const results::CellRecord& record, const GridShape& shape) {
  const GridCheckSizes n(shape);
  const double rows = static_cast<double>(n.rows()), in = static_cast<double>(n.in), out = static_cast<double>(n.out);
  const auto both = [&](const std::string& method, const std::string& tensor, const GridCost& cost) {
    for (const bool backward : {false, true}) {
      const std::string pass = backward ? "backward" : "forward";
      const Amount amount = received_of(record, method, tensor, pass);
      account.compare(method + ": " + tensor + " " + pass, shape.ranks(), amount.sum, (backward ? cost.backward : cost.forward).elements);
      account.spread = std::max(account.spread, amount.most - amount.least);
    }
  };
  if (shape.kind == GridKind::one_d) {
    GridCost pair = linear_cost(shape, rows, in, out, false);
    pair += linear_cost(shape, rows, out, in, true);
    return both(shape.describe().substr(0, shape.describe().find(' ')) + " " + std::to_string(shape.ranks()), "pair of linears", pair);
  }
  for (const GridCheckCase& c : grid_check_cases(shape)) {
    GridCostOptions options;
    options.gather = c.options.gather;
    both(c.name(), "linear", linear_cost(shape, rows, in, out, c.swapped, options));
    if (c.options.cut == WeightCut::rows && !c.swapped) both(c.name(), "tied head", head_cost(shape, rows, in, out, options));
  }
}

void add_layers(Account& account, const results::CellRecord& record, const GridShape& shape) {
  const GridCheckSizes n(shape);
  const double rows = static_cast<double>(n.rows()), in = static_cast<double>(n.in), out = static_cast<double>(n.out);
  const double vocabulary = static_cast<double>(grid_vocabulary(shape, n.vocab));
  for (const GridCheckCase& c : grid_check_cases(shape)) {
    if (c.options.gather != GatherPolicy::again || c.options.cut != WeightCut::rows) continue;
    const auto received = [&](const std::string& tensor, const std::string& operation) { return received_of(record, c.name(), tensor, operation).sum; };
    const auto compare = [&](const std::string& name, std::int64_t bytes, double elements) { account.compare(c.name() + ": " + name, shape.ranks(), bytes, elements); };
    const GridCost bias = vector_cost(shape, out, c.swapped);
    compare("bias forward", received("bias", "forward"), bias.forward.elements);
    compare("bias backward", received("bias", "backward"), bias.backward.elements);
    if (c.swapped) continue;
    const GridCost norm = layernorm_cost(shape, rows, in), embedding = embedding_cost(shape, rows, in, vocabulary), loss = loss_cost(shape, rows);
    compare("layernorm forward", received("layernorm", "forward"), norm.forward.elements);
    compare("layernorm backward", received("layernorm", "backward"), norm.backward.elements);
    compare("embedding forward", received("embedding", "forward"), embedding.forward.elements);
    // Positions are a table of their own, replicated; their gradient is no part of the formula.
    compare("embedding backward", received("embedding", "backward") - received("embedding", "backward: all_reduce position gradient"), embedding.backward.elements);
    compare("cross-entropy", received("cross-entropy", "maximum") + received("cross-entropy", "sums"), loss.forward.elements);
    GridCost head = head_cost(shape, rows, in, vocabulary);
    head += norm, head += loss;
    const std::string tensor = "norm, tied head, cross-entropy";
    // Nor is the one number by which ranks share the mean loss.
    compare(tensor + " forward", received(tensor, "forward") - received(tensor, "forward: all_reduce loss"), head.forward.elements);
    compare(tensor + " backward", received(tensor, "backward"), head.backward.elements);
  }
}

Finding measure(JudgeContext& context) {
  const std::vector<int> ranks = {4, 8, 9, 16, 27};
  std::vector<CellRequest> requests;
  for (const int p : ranks)
    for (const char* what : {"linears", "layers"}) requests.push_back(check_request(what, p));
  const std::vector<results::CellRecord> records = context.cells.run(requests);
  Account account;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    for (const GridShape& shape : grids_of(ranks[i])) {
      add_linears(account, records[2 * i], shape);
      if (shape.kind != GridKind::one_d) add_layers(account, records[2 * i + 1], shape);
    }
  Finding found;
  found.measures = {{"largest difference of received bytes, all ranks together", static_cast<double>(account.largest), no_number, no_number, 0, "bytes", "largest"},
                {"most - least bytes that a rank receives in a linear", static_cast<double>(account.spread), no_number, no_number, 0, "bytes", "spread"},
                {"passes compared", static_cast<double>(account.compared), no_number, no_number, no_number, "", "compared"}};
  found.tables = {std::move(account.table)};
  char text[700];
  if (account.off == 0)
    std::snprintf(text, sizeof text, "%d passes of operators on 4, 8, 9, 16 and 27 ranks: counted messages equal the formulas to the byte, and all ranks receive equally much in a linear", account.compared);
  else
    std::snprintf(text, sizeof text, "%d of %d passes differ, most by %lld bytes (%s)", account.off, account.compared, static_cast<long long>(account.largest), account.where.c_str());
  found.note = text;
  if (account.spread != 0) found.note += "; ranks receive unequally much in a linear";
  return found;
}

const bool registered = register_claim(
    {.id = "tensor_parallel.C4",
     .statement = "The bytes that a rank receives are those of the cost formulas.",
     .provenance = "derived, as the formulas; those of 3-D linears by a simulation of the grid, too",
     .basis = Basis::exact,
     .from = Profile::standard,
     .rule = {.settings = {{"ranks", "4, 8, 9, 16, 27"}, {"grids", "1-D, 2-D, 2.5-D, 3-D (layouts P and H; keep, again, literally again)"}, {"operators", "linear, head, bias, layernorm, embedding, cross-entropy"}},
              .quantities = {{"largest", "counted bytes of a pass of an operator, all ranks, minus those of the formula: the largest difference of all passes"},
                             {"spread", "most - least bytes that a rank receives in a linear, the largest"},
                             {"compared", "passes compared"}},
              .clauses = {{Verdict::pass, "largest == 0 && spread == 0 && compared > 0"}},
              .otherwise = Verdict::fail},
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
