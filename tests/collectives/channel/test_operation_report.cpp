// labels: unit
// The sum of reports: every field takes part. The structured bindings below name all fields, so that a new one does not compile
// until it is added here, and then fails until operator+= knows it.
#include <gtest/gtest.h>

#include <array>
#include <type_traits>
#include <utility>

#include "collectives/channel/operation_report.h"

namespace thinwire {
namespace {

/// The times and the counts of a report, all of them.
std::pair<std::array<double*, 7>, std::array<std::int64_t*, 5>> numbers_of(OperationReport& report) {
  auto& [encode, transfer, decode, total, untimed, encode_cpu, decode_cpu, dense, payload, link, received, reused, algorithm] = report;
  (void)algorithm;
  return {{&encode, &transfer, &decode, &total, &untimed, &encode_cpu, &decode_cpu}, {&dense, &payload, &link, &received, &reused}};
}

TEST(OperationReport, ASumAddsEveryFieldToItself) {
  OperationReport a, b;
  std::int64_t value = 0;
  const auto give_distinct_values = [&](const auto& of_a, const auto& of_b) {
    for (std::size_t i = 0; i < of_a.size(); ++i) {
      ++value;
      *of_a[i] = static_cast<std::remove_pointer_t<std::remove_cvref_t<decltype(of_a[i])>>>(value);
      *of_b[i] = static_cast<std::remove_pointer_t<std::remove_cvref_t<decltype(of_b[i])>>>(1000 * value);
    }
  };
  give_distinct_values(numbers_of(a).first, numbers_of(b).first);
  give_distinct_values(numbers_of(a).second, numbers_of(b).second);
  a += b;
  value = 0;
  for (const double* sum : numbers_of(a).first) EXPECT_EQ(*sum, static_cast<double>(1001 * ++value)) << "field " << value;
  for (const std::int64_t* sum : numbers_of(a).second) EXPECT_EQ(*sum, 1001 * ++value) << "field " << value;
}

TEST(OperationReport, ASumNamesTheLastAlgorithmThatWasNamed) {
  OperationReport sum, ring, silent;
  ring.algorithm = "ring all_reduce";
  sum += ring;
  EXPECT_STREQ(sum.algorithm, "ring all_reduce");
  sum += silent;
  EXPECT_STREQ(sum.algorithm, "ring all_reduce");
}

}  // namespace
}  // namespace thinwire
