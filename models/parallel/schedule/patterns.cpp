#include "models/parallel/schedule/patterns.h"

namespace thinwire::schedules {
namespace {

int in_front(const Schedule& s, int stage) {
  return (stage + s.stages - 1) % s.stages;
}
int behind(const Schedule& s, int stage) {
  return (stage + 1) % s.stages;
}
bool is_first(const Schedule& s, int stage, int chunk) {
  return global_chunk(s, stage, chunk) == 0;
}
bool is_last(const Schedule& s, int stage, int chunk) {
  return global_chunk(s, stage, chunk) == s.stages * s.virtual_stages - 1;
}

}  // namespace

void add_forward(Schedule& s, int stage, int micro, int chunk, int slice) {
  auto& list = s.stage[static_cast<std::size_t>(stage)];
  if (!is_first(s, stage, chunk))
    list.push_back({InstructionKind::receive_forward, micro, chunk, in_front(s, stage), slice});
  list.push_back({InstructionKind::forward, micro, chunk, -1, slice});
  if (!is_last(s, stage, chunk))
    list.push_back({InstructionKind::send_forward, micro, chunk, behind(s, stage), slice});
}

void add_backward(Schedule& s, int stage, int micro, int chunk, int slice) {
  auto& list = s.stage[static_cast<std::size_t>(stage)];
  if (!is_last(s, stage, chunk))
    list.push_back({InstructionKind::receive_backward, micro, chunk, behind(s, stage), slice});
  list.push_back({InstructionKind::backward, micro, chunk, -1, slice});
  if (!is_first(s, stage, chunk))
    list.push_back({InstructionKind::send_backward, micro, chunk, in_front(s, stage), slice});
}

}  // namespace thinwire::schedules
