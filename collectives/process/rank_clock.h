// A rank's time where networks and computing are played by waits: late wake-ups do not count.
#pragma once

#include <cstdint>

namespace thinwire {

/// CLOCK_MONOTONIC less the time by which this rank has been woken too late. A sleep ends some tens of microseconds late, a poll
/// finds a message up to a nap after it has come; on a real machine nothing would sleep there. So a rank goes on at the moment that it waited for,
/// and what it sends then sets out at that moment: what it forwards along a ring of emulated cards takes the link's time, hop for hop.
/// What it does itself counts as it comes. The difference shrinks with the next replayed section, which ends when its own time is up. Of this thread.
///
/// A message's moment is known over an emulated network (happened()). After any other wait a rank goes on at the time that it is.
class RankClock {
 public:
  static std::int64_t now_ns();
  /// A wait begins, or goes on: until happened() or busy() the time that passes is not of this rank's making.
  static void idle();
  /// What was waited for happened at `when_ns`, now or earlier. The rank goes on there, or where it was when it began to wait, if that is later.
  static void happened(std::int64_t when_ns);
  /// The rank works: its time passes as the machine's.
  static void busy();
  /// Sleeps until now_ns() would be `deadline_ns`, and goes on exactly there.
  static void sleep_until_ns(std::int64_t deadline_ns);
  /// From here on all is as the machine says: where ranks meet without a network between them.
  static void synchronise();
};

}  // namespace thinwire
