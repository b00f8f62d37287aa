#include "models/layout/grid_shape.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/joined.h"

namespace thinwire {
namespace {

/// Largest n with n^power <= value.
int root_below(int value, int power) {
  int n = 1;
  const auto raised = [&](int base) {
    std::int64_t r = 1;
    for (int i = 0; i < power; ++i) r *= base;
    return r;
  };
  while (raised(n + 1) <= value) ++n;
  return n;
}

std::string text_of(std::int64_t value) { return std::to_string(value); }

int positive(const std::string& text, const std::string& whole) {
  const bool digits = !text.empty() && text.size() <= 6 && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  const int value = digits ? std::stoi(text) : 0;
  if (value < 1) throw UsageError("--tensor-parallel " + whole + ": '" + text + "' is not a positive number");
  return value;
}

/// "4 (2x2) or 9 (3x3)".
std::string neighbours(int ranks, int power, int depth) {
  const int q = root_below(std::max(1, ranks / depth), power);
  std::string text;
  for (int side : {q, q + 1}) {
    std::string shape = text_of(side);
    int product = side * depth;
    for (int i = 1; i < power; ++i) shape += "x" + text_of(side), product *= side;
    if (depth > 1) shape += "x" + text_of(depth);
    text += (text.empty() ? "" : " or ") + text_of(product) + " (" + shape + ")";
  }
  return text;
}

std::string valid_for(int ranks) {
  return joined(grids_of(ranks), ", ", &GridShape::describe);
}

GridShape parse_square(const std::string& text, int ranks) {
  const int q = root_below(ranks, 2);
  if (q * q != ranks)
    throw UsageError("--tensor-parallel " + text + " needs a square number of tensor ranks, not " + text_of(ranks) + "; the nearest are " +
                     neighbours(ranks, 2, 1) + ". Grids of " + text_of(ranks) + ": " + valid_for(ranks));
  return {GridKind::two_d, {q, q, 1}};
}

GridShape parse_tesseract(const std::string& text, const std::string& options, int ranks) {
  if (options.rfind("depth=", 0) != 0) throw UsageError("--tensor-parallel " + text + ": write 2.5d:depth=D, as in 2.5d:depth=2");
  const int depth = positive(options.substr(6), text), q = root_below(std::max(1, ranks / depth), 2);
  if (q * q * depth != ranks)
    throw UsageError("--tensor-parallel " + text + " needs q x q x " + text_of(depth) + " tensor ranks, not " + text_of(ranks) +
                     "; the nearest are " + neighbours(ranks, 2, depth) + ". Grids of " + text_of(ranks) + ": " + valid_for(ranks));
  return {GridKind::two_and_half_d, {q, q, depth}};
}

GridShape parse_cube(const std::string& text, const std::string& options, int ranks) {
  if (options.empty()) {
    const int q = root_below(ranks, 3);
    if (q * q * q != ranks)
      throw UsageError("--tensor-parallel " + text + " needs a cube number of tensor ranks, not " + text_of(ranks) + "; the nearest are " +
                       neighbours(ranks, 3, 1) + ", or give the sides of a box as in 3d:sides=" + text_of(ranks) + "x1x1. Grids of " +
                       text_of(ranks) + ": " + valid_for(ranks));
    return {GridKind::three_d, {q, q, q}};
  }
  if (options.rfind("sides=", 0) != 0) throw UsageError("--tensor-parallel " + text + ": write 3d or 3d:sides=XxYxZ, as in 3d:sides=2x2x1");
  GridShape shape{GridKind::three_d, {}};
  std::string rest = options.substr(6);
  for (int axis = 0; axis < 3; ++axis) {
    const std::size_t end = axis < 2 ? rest.find('x') : rest.size();
    if (end == std::string::npos) throw UsageError("--tensor-parallel " + text + ": three sides are needed, as in 3d:sides=2x2x1");
    shape.sides[static_cast<std::size_t>(axis)] = positive(rest.substr(0, end), text);
    rest = end < rest.size() ? rest.substr(end + 1) : "";
  }
  if (shape.ranks() != ranks)
    throw UsageError("--tensor-parallel " + text + " is a box of " + text_of(shape.ranks()) + " tensor ranks, not of " + text_of(ranks) +
                     "; launch that many, or choose sides whose product is " + text_of(ranks));
  return shape;
}

/// Multiples of `of` around `value`: "8 or 16".
std::string nearest(std::int64_t value, std::int64_t of) {
  const std::int64_t below = value / of * of;
  return (below > 0 ? text_of(below) + " or " : "") + text_of(below + of);
}

}  // namespace

std::string name_of(GridKind kind) {
  switch (kind) {
    case GridKind::one_d: return "1d";
    case GridKind::two_d: return "2d";
    case GridKind::two_and_half_d: return "2.5d";
    case GridKind::three_d: return "3d";
  }
  return {};
}

int GridShape::index(int axis, int rank) const {
  TW_ASSERT(axis >= 0 && axis < 3 && rank >= 0 && rank < ranks());
  if (axis == 0) return rank % sides[0];
  if (axis == 1) return rank / sides[0] % sides[1];
  return rank / (sides[0] * sides[1]);
}

SplitGroup GridShape::group(int axis, int rank) const {
  static const char* const names[4][3] = {
      {"tensor", "", ""}, {"column", "row", "depth"}, {"column", "row", "depth"}, {"weight", "input", "output"}};
  return {names[static_cast<int>(kind)][axis], sides[static_cast<std::size_t>(axis)], index(axis, rank)};
}

std::string GridShape::describe() const {
  std::string text = name_of(kind) + " " + text_of(sides[0]);
  const int axes = kind == GridKind::one_d ? 1 : kind == GridKind::two_d ? 2 : 3;
  for (int axis = 1; axis < axes; ++axis) text += "x" + text_of(sides[static_cast<std::size_t>(axis)]);
  return text;
}

GridShape parse_grid(const std::string& text, int ranks) {
  TW_ASSERT(ranks >= 1);
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon), options = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (kind == "2.5d") return parse_tesseract(text, options, ranks);
  if (kind == "3d") return parse_cube(text, options, ranks);
  if ((kind == "1d" || kind == "2d") && options.empty() && colon == std::string::npos)
    return kind == "1d" ? GridShape{GridKind::one_d, {ranks, 1, 1}} : parse_square(text, ranks);
  throw UsageError("--tensor-parallel " + text + ": choose 1d, 2d, 2.5d:depth=D, 3d or 3d:sides=XxYxZ");
}

std::vector<GridShape> grids_of(int ranks) {
  std::vector<GridShape> all = {{GridKind::one_d, {ranks, 1, 1}}};
  if (ranks == 1) return all;
  if (const int q = root_below(ranks, 2); q * q == ranks) all.push_back({GridKind::two_d, {q, q, 1}});
  for (int depth = 2; depth <= ranks; ++depth) {
    const int q = root_below(std::max(1, ranks / depth), 2);
    if (q * q * depth == ranks && depth <= q) all.push_back({GridKind::two_and_half_d, {q, q, depth}});
  }
  if (const int q = root_below(ranks, 3); q * q * q == ranks) all.push_back({GridKind::three_d, {q, q, q}});
  return all;
}

void check_grid(const GridShape& shape, const GridSizes& sizes) {
  const auto [a, b, c] = shape.sides;
  std::int64_t batch = 1, hidden = 1, heads = 1;
  switch (shape.kind) {
    case GridKind::one_d: hidden = heads = a; break;
    case GridKind::two_d:
    case GridKind::two_and_half_d: batch = static_cast<std::int64_t>(b) * c, hidden = heads = a; break;
    case GridKind::three_d:
      // X splits the batch by x*y and Y by x*z; both kinds of weight split rows by one side times x, columns by the other.
      batch = std::lcm(static_cast<std::int64_t>(a) * b, static_cast<std::int64_t>(a) * c);
      hidden = std::lcm(static_cast<std::int64_t>(a) * b, static_cast<std::int64_t>(a) * c), heads = b;
      break;
  }
  std::string wrong;
  const auto test = [&](const char* what, std::int64_t value, std::int64_t divisor) {
    if (value == 0 || value % divisor == 0) return;
    wrong += (wrong.empty() ? "" : "; ") + std::string(what) + " " + text_of(value) + " is no multiple of " + text_of(divisor) + " (nearest: " +
             nearest(value, divisor) + ")";
  };
  test("micro-batch", sizes.batch, batch);
  test("hidden size", sizes.hidden, hidden);
  test("number of heads", sizes.heads, heads);
  if (!wrong.empty()) throw UsageError("Tensor parallelism " + shape.describe() + " cannot split this model: " + wrong + ".");
}

std::int64_t grid_vocabulary(const GridShape& shape, std::int64_t vocab) {
  std::int64_t parts = 1;
  switch (shape.kind) {
    case GridKind::one_d: parts = shape.sides[0]; break;
    case GridKind::two_d:
    case GridKind::two_and_half_d: parts = shape.sides[0]; break;
    case GridKind::three_d: parts = static_cast<std::int64_t>(shape.sides[0]) * shape.sides[1]; break;
  }
  if (parts == 1) return vocab;
  const std::int64_t multiple = 8 * parts;
  return (vocab + multiple - 1) / multiple * multiple;
}

}  // namespace thinwire
