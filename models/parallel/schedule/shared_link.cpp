#include "models/parallel/schedule/shared_link.h"

#include <algorithm>
#include <limits>

namespace thinwire {

void SharedLink::start(Stream stream, std::size_t id, double now, TransferTime time) {
  while (now_ < now && advance(now)) {
  }
  now_ = std::max(now_, now);
  queues_[stream].waiting.push_back({id, now, time.link, time.beside, {}});
}

std::optional<SharedLink::Done> SharedLink::next_done(Stream stream) {
  Queue& queue = queues_[stream];
  while (queue.done.empty())
    if (queue.waiting.empty() || !advance(std::numeric_limits<double>::infinity())) return std::nullopt;
  const Done first = queue.done.front();
  queue.done.pop_front();
  return first;
}

bool SharedLink::advance(double until) {
  double under_way = 0;
  for (Queue& queue : queues_) {
    if (queue.waiting.empty()) continue;
    Pending& first = queue.waiting.front();
    const double can_begin = std::max(first.ready, queue.free_from);
    if (!first.begin && can_begin <= now_) first.begin = can_begin;
    under_way += first.begin ? 1 : 0;
  }
  double event = until;
  for (const Queue& queue : queues_) {
    if (queue.waiting.empty()) continue;
    const Pending& first = queue.waiting.front();
    event = std::min(event, first.begin ? now_ + first.left * under_way : std::max(first.ready, queue.free_from));
  }
  if (event == std::numeric_limits<double>::infinity()) return false;
  const double passed = (event - now_) / std::max(1.0, under_way);
  for (Queue& queue : queues_) {
    if (queue.waiting.empty() || !queue.waiting.front().begin) continue;
    Pending& first = queue.waiting.front();
    const bool ends = now_ + first.left * under_way <= event;
    first.left -= passed;
    if (!ends) continue;
    queue.free_from = event + first.beside;
    queue.done.push_back({first.id, {*first.begin, queue.free_from}});
    queue.waiting.pop_front();
  }
  now_ = event;
  return true;
}

}  // namespace thinwire
