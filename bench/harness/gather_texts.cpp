#include "bench/harness/gather_texts.h"

namespace thinwire::bench {

std::vector<std::string> gather_texts(Communicator& world, const std::string& text) {
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<std::int64_t> sizes(ranks, 0);
  const auto mine = static_cast<std::int64_t>(text.size());
  world.all_gather(&mine, sizeof mine, sizes.data())->wait();
  std::vector<std::string> texts;
  // One after the other to rank 0 alone: timelines are long, and nobody else wants them.
  constexpr int tag = 7;
  if (world.rank() != 0) {
    if (mine > 0) world.send(text.data(), mine, 0, tag)->wait();
    return texts;
  }
  for (int rank = 0; rank < world.size(); ++rank) {
    std::string theirs(static_cast<std::size_t>(sizes[static_cast<std::size_t>(rank)]), ' ');
    if (rank == 0)
      theirs = text;
    else if (!theirs.empty())
      world.receive(theirs.data(), static_cast<std::int64_t>(theirs.size()), rank, tag)->wait();
    texts.push_back(std::move(theirs));
  }
  return texts;
}

}  // namespace thinwire::bench
