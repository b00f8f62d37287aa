// labels: unit
// Partition properties of layouts: every global index is owned exactly once per replication group, whatever
// the kind of tensor parallelism; and a parameter has the same values however it is split.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "models/layout/grid_sharding.h"

namespace thinwire {
namespace {

struct Scheme {
  const char* name;
  int ranks;
  std::function<LinearLayouts(int rank)> layouts;
};

std::vector<Scheme> schemes() {
  constexpr std::int64_t in = 72, out = 144;  // multiples of every split below
  std::vector<Scheme> all;
  for (int p : {1, 2, 3, 4, 8})
    all.push_back({"1-D column", p, [p](int r) { return column_parallel("l", in, out, p, r); }}),
        all.push_back({"1-D row", p, [p](int r) { return row_parallel("l", in, out, p, r); }});
  for (int q : {1, 2, 3}) {
    all.push_back({"2-D", q * q, [q](int r) { return summa_2d("l", in, out, q, r); }});
    for (int d : {1, 2, 4})
      all.push_back({"2.5-D", q * q * d, [q, d](int r) { return tesseract_25d("l", in, out, q, d, r); }});
    for (bool swapped : {false, true})
      all.push_back({"3-D", q * q * q, [q, swapped](int r) { return cube_3d("l", in, out, q, r, swapped); }});
  }
  return all;
}

/// How many ranks own each element of a parameter.
std::vector<int> owners(const Scheme& s,
                        const std::function<const ParameterLayout&(const LinearLayouts&)>& which) {
  std::vector<int> count;
  for (int r = 0; r < s.ranks; ++r) {
    const LinearLayouts all = s.layouts(r);
    const ParameterLayout& p = which(all);
    count.resize(static_cast<std::size_t>(p.global().elements()));
    for (std::int64_t i = 0; i < p.local().elements(); ++i)
      ++count[static_cast<std::size_t>(p.global_index(i))];
  }
  return count;
}

/// How many ranks own each element of an activation [batch, seq, hidden].
std::vector<int> holders(const Scheme& s, const Shape& global,
                         const std::function<const Layout&(const LinearLayouts&)>& which) {
  std::vector<int> count(static_cast<std::size_t>(global.elements()));
  for (int r = 0; r < s.ranks; ++r) {
    const LinearLayouts all = s.layouts(r);
    const Layout& l = which(all);
    const AxisRange b = split_axis("b", global[0], l.batch), t = split_axis("s", global[1], l.sequence),
                    h = split_axis("h", global[2], l.hidden);
    for (std::int64_t i = b.begin; i < b.begin + b.count; ++i)
      for (std::int64_t j = t.begin; j < t.begin + t.count; ++j)
        for (std::int64_t k = h.begin; k < h.begin + h.count; ++k)
          ++count[static_cast<std::size_t>((i * global[1] + j) * global[2] + k)];
  }
  return count;
}

}  // namespace

TEST(ParameterLayouts, EveryWeightElementIsOwnedOncePerReplicationGroup) {
  for (const Scheme& s : schemes()) {
    const int replicas = s.layouts(0).weight.replica_count();
    for (int n : owners(s, [](const LinearLayouts& l) -> const ParameterLayout& { return l.weight; }))
      ASSERT_EQ(n, replicas) << s.name << " on " << s.ranks;
  }
}

TEST(ParameterLayouts, EveryBiasElementIsOwnedOncePerReplicationGroup) {
  for (const Scheme& s : schemes()) {
    const int replicas = s.layouts(0).bias.replica_count();
    for (int n : owners(s, [](const LinearLayouts& l) -> const ParameterLayout& { return l.bias; }))
      ASSERT_EQ(n, replicas) << s.name << " on " << s.ranks;
  }
}

TEST(ParameterLayouts, OneMemberOfEachReplicationGroupCountsInTheNorm) {
  for (const Scheme& s : schemes()) {
    std::int64_t counted = 0;
    for (int r = 0; r < s.ranks; ++r)
      for (const LinearLayouts& l = s.layouts(r); const ParameterLayout& p : {l.weight, l.bias})
        if (p.counts_in_norm()) counted += p.local().elements();
    EXPECT_EQ(counted, 72 * 144 + 144) << s.name << " on " << s.ranks;
  }
}

TEST(ParameterLayouts, ValuesDoNotDependOnTheLayout) {
  Tensor whole(Shape{72, 144});
  initialise_normal(ParameterLayout::whole("l.weight", {72, 144}), 5, 0.02, whole.view());
  for (const Scheme& s : schemes())
    for (int r = 0; r < s.ranks; ++r) {
      const ParameterLayout p = s.layouts(r).weight;
      Tensor part(p.local());
      initialise_normal(p, 5, 0.02, part.view());
      for (std::int64_t i = 0; i < part.elements(); i += 7)
        ASSERT_EQ(part.as<float>()[static_cast<std::size_t>(i)],
                  whole.as<float>()[static_cast<std::size_t>(p.global_index(i))])
            << s.name;
    }
}

TEST(ParameterLayouts, PaddingIsWhatLiesBeyondTheModelsOwnExtentOnEveryRank) {
  const SplitGroups second{{"tensor", 2, 1}};
  const ParameterLayout plain("table", {16, 8}, second, {}), padded = plain.padded_after(13);
  EXPECT_EQ(plain.used(), plain.global());
  EXPECT_EQ(padded.used(), (Shape{13, 8}));
  EXPECT_EQ(padded.global(), plain.global()) << "it is held all the same";
  EXPECT_EQ(padded.local(), plain.local());
  EXPECT_EQ(padded.rows(), plain.rows());
  EXPECT_EQ(padded.absent().used(), padded.used());
  EXPECT_EQ(ParameterLayout("bias", {16}, {}, second).padded_after(13).used(), Shape{13});
}

TEST(ActivationLayouts, EveryElementIsHeldByEquallyManyRanks) {
  const Shape global{72, 3, 72};
  for (const Scheme& s : schemes())
    for (const auto& which : {+[](const LinearLayouts& l) -> const Layout& { return l.input; },
                              +[](const LinearLayouts& l) -> const Layout& { return l.output; }}) {
      const LinearLayouts first = s.layouts(0);
      const int parts = static_cast<int>(global.elements() / which(first).local(global).elements());
      for (int n : holders(s, global, which)) ASSERT_EQ(n, s.ranks / parts) << s.name << " on " << s.ranks;
    }
}

TEST(ActivationLayouts, TheSwappedCubeLinearContinuesWhereTheNormalOneEnds) {
  for (int q : {2, 3})
    for (int r = 0; r < q * q * q; ++r) {
      const LinearLayouts first = cube_3d("a", 72, 144, q, r, false),
                          second = cube_3d("b", 144, 72, q, r, true);
      EXPECT_EQ(first.output, second.input);
      EXPECT_EQ(second.output, first.input);
    }
}

TEST(ActivationLayouts, SequenceParallelismSplitsTheSequenceInOrder) {
  const Layout l{{}, {{"tensor", 4, 2}}, {}};
  EXPECT_EQ(l.local({8, 128, 512}), (Shape{8, 32, 512}));
  EXPECT_EQ(split_axis("sequence", 128, l.sequence), (AxisRange{64, 32}));
}

std::string refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}
void expect_all(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is missing in: " << text;
}

TEST(GridShapes, ANumberOfRanksThatMakesNoGridIsRefusedNamingTheNearestAndWhatItMakes) {
  expect_all(refusal([] { parse_grid("2d", 8); }), {"square", "not 8", "4 (2x2)", "9 (3x3)", "2.5d 2x2x2", "3d 2x2x2"});
  expect_all(refusal([] { parse_grid("2.5d:depth=2", 12); }), {"q x q x 2", "not 12", "8 (2x2x2)", "18 (3x3x2)"});
  expect_all(refusal([] { parse_grid("3d", 12); }), {"cube", "not 12", "8 (2x2x2)", "27 (3x3x3)", "sides"});
  expect_all(refusal([] { parse_grid("3d:sides=2x2x2", 12); }), {"8", "12"});
  for (const char* bad : {"", "4d", "2d:q=2", "2.5d", "2.5d:depth=0", "2.5d:depth=x", "3d:sides=2x2", "3d:sides=2x2x2x2", "3d:2x2x2", "3D"})
    EXPECT_FALSE(refusal([&] { parse_grid(bad, 8); }).empty()) << bad;
  EXPECT_EQ(parse_grid("3d:sides=1x2x4", 8), (GridShape{GridKind::three_d, {1, 2, 4}}));
  EXPECT_EQ(parse_grid("2.5d:depth=2", 8), (GridShape{GridKind::two_and_half_d, {2, 2, 2}}));
}

TEST(GridShapes, SizesThatDoNotDivideAreRefusedTogetherWithTheNearestThatDo) {
  const GridShape cube = parse_grid("3d", 8);
  expect_all(refusal([&] { check_grid(cube, {6, 66, 5}); }), {"micro-batch 6", "4 or 8", "hidden size 66", "64 or 68", "heads 5", "4 or 6", "3d 2x2x2"});
  check_grid(cube, {8, 64, 8});
  check_grid(parse_grid("2.5d:depth=2", 8), {4, 64, 2});
}

TEST(GridShapes, EveryGridOfANumberOfRanksIsEnumerated) {
  std::string all;
  for (const GridShape& s : grids_of(64)) all += s.describe() + " ";
  EXPECT_EQ(all, "1d 64 2d 8x8 2.5d 4x4x4 3d 4x4x4 ");
  EXPECT_EQ(grids_of(7).size(), 1u);
}

TEST(GridShapes, BoxesOfUnequalSidesShareEveryTensorOutExactlyOnce) {
  for (const std::array<int, 3>& sides : {std::array{2, 3, 2}, {1, 2, 4}, {3, 1, 2}, {2, 2, 3}})
    for (const bool swapped : {false, true})
      for (const WeightCut cut : {WeightCut::rows, WeightCut::columns}) {
        const GridShape shape{GridKind::three_d, sides};
        const Scheme s{"box", shape.ranks(), [&](int r) { return grid_linear(shape, "l", 72, 144, r, swapped, cut); }};
        for (int n : owners(s, [](const LinearLayouts& l) -> const ParameterLayout& { return l.weight; })) ASSERT_EQ(n, 1) << shape.describe();
        for (int n : owners(s, [](const LinearLayouts& l) -> const ParameterLayout& { return l.bias; })) ASSERT_EQ(n, 1) << shape.describe();
        for (int n : holders(s, {72, 2, 72}, [](const LinearLayouts& l) -> const Layout& { return l.input; })) ASSERT_EQ(n, 1);
        for (int n : holders(s, {72, 2, 144}, [](const LinearLayouts& l) -> const Layout& { return l.output; })) ASSERT_EQ(n, 1);
      }
}

TEST(ParameterLayouts, AnExtentThatCannotBeSplitIsRefusedNamingBothNumbers) {
  try {
    column_parallel("layer0.mlp.expand", 8, 10, 4, 0);
    FAIL() << "10 columns were split over 4 ranks";
  } catch (const UsageError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("10"), std::string::npos) << text;
    EXPECT_NE(text.find("4"), std::string::npos) << text;
    EXPECT_NE(text.find("layer0.mlp.expand"), std::string::npos) << text;
  }
}

}  // namespace thinwire
