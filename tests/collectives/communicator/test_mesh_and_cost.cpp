// labels: unit
// Meshes as pure data, closed forms of link bytes, names, links.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "collectives/channel/channel.h"
#include "collectives/link/link_calibration.h"
#include "collectives/communicator/process_mesh.h"

namespace thinwire {
namespace {

const std::vector<std::string> orders = {"tp-pp-dp", "tp-dp-pp", "pp-tp-dp",
                                         "pp-dp-tp", "dp-tp-pp", "dp-pp-tp"};

TEST(ProcessMesh, TheExampleOfTheDesignHasMegatronsGroups) {
  const MeshGroups groups = mesh_groups({.tp = 2, .pp = 2, .dp = 2, .order = "tp-pp-dp"});
  EXPECT_EQ(groups.tp, (std::vector<std::vector<int>>{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(groups.pp, (std::vector<std::vector<int>>{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(groups.dp, (std::vector<std::vector<int>>{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(groups.embedding, groups.pp);  // with two stages they are the same
}

TEST(ProcessMesh, CoordinatesAndRanksAreInverseForEveryOrderAndTheFirstAxisIsAdjacent) {
  for (const std::string& order : orders) {
    const MeshShape shape{.tp = 2, .pp = 3, .dp = 5, .order = order};
    std::set<int> seen;
    for (int rank = 0; rank < shape.ranks(); ++rank) {
      EXPECT_EQ(mesh_rank(shape, mesh_coordinates(shape, rank)), rank) << order;
      seen.insert(rank);
    }
    const MeshCoordinates second = mesh_coordinates(shape, 1);
    EXPECT_EQ(order.substr(0, 2) == "tp" ? second.tp : order.substr(0, 2) == "pp" ? second.pp : second.dp, 1);
  }
}

TEST(ProcessMesh, EveryGroupKindPartitionsTheRanksAndMembersDifferInOneCoordinate) {
  for (const std::string& order : orders) {
    for (int tp : {1, 2, 4}) {
      for (int pp : {1, 2, 3}) {
        for (int dp : {1, 2}) {
          const MeshShape shape{.tp = tp, .pp = pp, .dp = dp, .order = order};
          const MeshGroups groups = mesh_groups(shape);
          const auto check = [&](const std::vector<std::vector<int>>& kind, int size, auto along) {
            std::vector<int> all;
            for (const auto& group : kind) {
              ASSERT_EQ(static_cast<int>(group.size()), size);
              for (std::size_t i = 0; i < group.size(); ++i) {
                MeshCoordinates c = mesh_coordinates(shape, group[i]);
                EXPECT_EQ(along(c), static_cast<int>(i));
                along(c) = 0;
                EXPECT_EQ(c, mesh_coordinates(shape, group[0]));
                all.push_back(group[i]);
              }
            }
            std::sort(all.begin(), all.end());
            std::vector<int> expected(static_cast<std::size_t>(shape.ranks()));
            std::iota(expected.begin(), expected.end(), 0);
            EXPECT_EQ(all, expected);
          };
          check(groups.tp, tp, [](MeshCoordinates& c) -> int& { return c.tp; });
          check(groups.pp, pp, [](MeshCoordinates& c) -> int& { return c.pp; });
          check(groups.dp, dp, [](MeshCoordinates& c) -> int& { return c.dp; });
          for (const auto& group : groups.embedding) {
            EXPECT_EQ(mesh_coordinates(shape, group.front()).pp, 0);
            EXPECT_EQ(mesh_coordinates(shape, group.back()).pp, pp - 1);
            EXPECT_EQ(mesh_coordinates(shape, group.front()).tp, mesh_coordinates(shape, group.back()).tp);
          }
        }
      }
    }
  }
}

TEST(DataAxis, IsAProductWhoseFactorsAreGroupsWithTheRanksOfANodeAdjacent) {
  const MeshShape shape{.tp = 1, .pp = 1, .dp = 8, .dp_replicas = 2, .dp_nodes = 2};
  EXPECT_EQ(shape.data(), (DataAxis{2, 2, 2}));
  using Groups = std::vector<std::vector<int>>;
  EXPECT_EQ(data_groups(shape, "inside"), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(data_groups(shape, "node"), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(data_groups(shape, "within_replica"), (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(data_groups(shape, "replica"), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(data_groups(shape, "data"), (Groups{{0, 1, 2, 3, 4, 5, 6, 7}}));
  EXPECT_EQ(data_coordinates(shape, 6), (DataCoordinates{1, 1, 0, 2}));
}

TEST(DataAxis, EveryGroupKeepsTheOtherCoordinatesOfEveryOrder) {
  for (const std::string& order : orders) {
    const MeshShape shape{.tp = 2, .pp = 3, .dp = 12, .order = order, .dp_replicas = 3, .dp_nodes = 2};
    for (const std::string& name : data_group_names()) {
      std::set<int> seen;
      for (const auto& group : data_groups(shape, name))
        for (const int rank : group) {
          seen.insert(rank);
          const MeshCoordinates mine = mesh_coordinates(shape, rank), first = mesh_coordinates(shape, group[0]);
          EXPECT_EQ(std::pair(mine.tp, mine.pp), std::pair(first.tp, first.pp));
          const DataCoordinates a = data_coordinates(shape, mine.dp), b = data_coordinates(shape, first.dp);
          if (name == "inside" || name == "node" || name == "within_replica") {
            EXPECT_EQ(a.replica, b.replica);
          }
          if (name == "inside" || name == "replica") {
            EXPECT_EQ(a.node, b.node);
          }
          if (name == "node" || name == "replica") {
            EXPECT_EQ(a.inside, b.inside);
          }
        }
      EXPECT_EQ(static_cast<int>(seen.size()), shape.ranks()) << name;
    }
  }
}

TEST(DataAxis, WithoutFactorsIsAllInsideAndBadFactorsAreUsageErrors) {
  EXPECT_EQ((MeshShape{.dp = 4}.data()), (DataAxis{1, 1, 4}));
  EXPECT_EQ(describe_mesh({.dp = 4}).find("replica"), std::string::npos);
  EXPECT_NE(describe_mesh({.dp = 4, .dp_replicas = 2}).find("replica: [0 2] [1 3]"), std::string::npos);
  EXPECT_THROW(check_mesh({.dp = 6, .dp_nodes = 4}), UsageError);
  EXPECT_THROW(check_mesh({.dp = 6, .dp_replicas = 0}), UsageError);
  EXPECT_THROW(data_groups({.dp = 6}, "nodes"), UsageError);
}

TEST(ProcessMesh, BadMeshesAreUsageErrors) {
  EXPECT_THROW(mesh_groups({.tp = 0}), UsageError);
  EXPECT_THROW(mesh_groups({.order = "tp-pp"}), UsageError);
  EXPECT_THROW(mesh_groups({.order = "tp-tp-dp"}), UsageError);
}

TEST(CostTerms, EqualBlocksGiveTheTextbookForms) {
  for (int n : {1, 2, 4, 8}) {
    const std::int64_t elements = 8 * 1000, bytes = elements * 2;
    for (int rank = 0; rank < n; ++rank) {
      EXPECT_EQ(ring_all_reduce_bytes(elements, 2, rank, n).sent, 2 * (n - 1) * bytes / n);
      EXPECT_EQ(ring_all_reduce_bytes(elements, 2, rank, n).received, 2 * (n - 1) * bytes / n);
      EXPECT_EQ(ring_reduce_scatter_bytes(shard_counts(elements, n, 2), rank).sent, (n - 1) * bytes / n);
      const std::vector<std::int64_t> payloads(static_cast<std::size_t>(n), 77);
      EXPECT_EQ(ring_all_gather_bytes(payloads, rank).sent, (n - 1) * 77);
      EXPECT_EQ(direct_all_to_all_bytes(payloads, payloads, rank).sent, (n - 1) * 77);
    }
  }
}

TEST(CostTerms, WhatAllRanksSendIsWhatAllRanksReceiveAndNothingTravelsTwice) {
  for (int n : {1, 2, 3, 5, 8}) {
    for (std::int64_t elements : {0, 1, 7, 100, 1009}) {
      const auto blocks = shard_counts(elements, n, 4);
      LinkBytes reduce, scatter, gather, broadcast, to_root;
      for (int rank = 0; rank < n; ++rank) {
        reduce += ring_all_reduce_bytes(elements, 4, rank, n);
        scatter += ring_reduce_scatter_bytes(blocks, rank);
        gather += ring_all_gather_bytes(blocks, rank);
        broadcast += chain_broadcast_bytes(elements * 4, rank, n, n / 2);
        to_root += chain_reduce_bytes(elements * 4, rank, n, n / 2);
      }
      const std::int64_t once = (n - 1) * elements * 4;
      EXPECT_EQ(reduce, (LinkBytes{2 * once, 2 * once})) << n << " ranks, " << elements;
      EXPECT_EQ(scatter, (LinkBytes{once, once}));
      EXPECT_EQ(gather, (LinkBytes{once, once}));
      EXPECT_EQ(broadcast, (LinkBytes{once, once}));
      EXPECT_EQ(to_root, (LinkBytes{once, once}));
    }
  }
}

TEST(CostTerms, ShardsAreContiguousCoverAllRowsAndDifferByAtMostOne) {
  for (std::int64_t rows : {0, 1, 3, 8, 13}) {
    for (int n : {1, 2, 3, 8}) {
      std::int64_t next = 0;
      for (int i = 0; i < n; ++i) {
        const RowBlock block = shard_rows(rows, i, n);
        EXPECT_EQ(block.first, next);
        EXPECT_TRUE(block.count == rows / n || block.count == rows / n + 1);
        next += block.count;
      }
      EXPECT_EQ(next, rows);
    }
  }
}

TEST(Names, RoundTripAndUnknownOnesListWhatExists) {
  for (int i = 0; i < 9; ++i) {
    const auto traffic = static_cast<TrafficClass>(i);
    EXPECT_EQ(parse_traffic(name_of(traffic)), traffic);
  }
  for (int i = 0; i < 6; ++i) {
    const auto protocol = static_cast<Protocol>(i);
    EXPECT_EQ(parse_protocol(name_of(protocol)), protocol);
  }
  try {
    parse_protocol("gathr");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'gather'"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("two_shot"), std::string::npos);
  }
}

TEST(Links, RatesAndBucketsFollowFromTheName) {
  EXPECT_DOUBLE_EQ(nominal_link_gbps("netns:100mbit"), 0.1);
  EXPECT_DOUBLE_EQ(nominal_link_gbps("netns:4gbit"), 4);
  EXPECT_TRUE(std::isnan(nominal_link_gbps("shm")));
  EXPECT_THROW(nominal_link_gbps("netns:"), UsageError);
  EXPECT_THROW(nominal_link_gbps("netns:3furlong"), UsageError);
  EXPECT_EQ(token_bucket_bytes("shm"), 0);
  EXPECT_EQ(token_bucket_bytes("netns:100mbit"), 6056);  // four frames of 1514 bytes
  EXPECT_EQ(token_bucket_bytes("netns:1gbit"), 60000);   // 480 us
}

// docs/papers/optimus_cc.md, "Worked examples" 7: Megatron-LM puts replicas before stages.
TEST(FusedEmbeddingGroups, JoinTheReplicasThatHoldTheSameRowsOfTheVocabulary) {
  EXPECT_EQ(fused_embedding_groups({8, 4, 4, "tp-dp-pp"}, Form::fair)[1], (std::vector<int>{1, 9, 17, 25, 97, 105, 113, 121}));
  EXPECT_EQ(fused_embedding_groups({2, 2, 2, "tp-dp-pp"}, Form::fair), (std::vector<std::vector<int>>{{0, 2, 4, 6}, {1, 3, 5, 7}}));
}

TEST(FusedEmbeddingGroups, OfTheReleasedFormJoinAllTensorRanks) {
  const auto groups = fused_embedding_groups({8, 4, 4, "tp-dp-pp"}, Form::released);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].size(), 64u);
  EXPECT_EQ(fused_embedding_groups({1, 4, 2, "tp-dp-pp"}, Form::released), fused_embedding_groups({1, 4, 2, "tp-dp-pp"}, Form::fair)) << "with one tensor rank the two agree";
  EXPECT_EQ(group_of(groups, 8), 0);
  EXPECT_EQ(group_of(fused_embedding_groups({2, 4, 1, "tp-dp-pp"}, Form::fair), 2), -1) << "a stage between holds no table";
}

}  // namespace
}  // namespace thinwire
