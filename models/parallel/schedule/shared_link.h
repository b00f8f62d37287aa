// One rank's link in a walk through a schedule: transfers of a stream follow each other, streams that have one under way share the rate evenly.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <optional>

namespace thinwire {

/// Of a transfer, in any unit of time: on its link, if that has nothing else to carry, and besides (latencies, codecs), when others may have it.
struct TransferTime {
  double link = 0, beside = 0;
  TransferTime(double on_link = 0, double besides = 0) : link(on_link), beside(besides) {}
  double total() const { return link + beside; }
};

class SharedLink {
 public:
  enum Stream : std::size_t { gathers, reductions };
  struct Transfer {
    double begin = 0, arrival = 0;
  };

  /// A transfer that is ready at `now`, which must not lie before an earlier call's; `id` is the caller's.
  void start(Stream stream, std::size_t id, double now, TransferTime time);
  /// The oldest transfer of a stream that is finished, or will be with nothing further started; nothing: none is left.
  struct Done {
    std::size_t id;
    Transfer at;
  };
  std::optional<Done> next_done(Stream stream);

 private:
  struct Pending {
    std::size_t id;
    double ready, left, beside;
    std::optional<double> begin;
  };
  struct Queue {
    std::deque<Pending> waiting;  ///< the first is under way once it is ready and the one before it has arrived
    std::deque<Done> done;
    double free_from = 0;
  };
  /// On to the next event, not beyond `until`; false: nothing is left.
  bool advance(double until);

  std::array<Queue, 2> queues_;
  double now_ = 0;
};

}  // namespace thinwire
