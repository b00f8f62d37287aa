#include "tests/emulated_device/streams.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <sched.h>

#include "tests/emulated_device/arena.h"
#include "tests/emulated_device/state.h"

namespace thinwire::emulated {

State::State() {
  const char* asked = std::getenv("THINWIRE_EMULATED_LAZY");
  lazy = asked != nullptr && std::strcmp(asked, "0") != 0 && *asked != 0;
}
State& state() {
  static State* all = new State;  // static buffers are released late
  return *all;
}

Stream* find_stream(void* handle) {
  State& s = state();
  if (handle == nullptr) {
    Stream*& stream = s.default_streams[s.device];
    if (stream == nullptr) s.streams.insert(stream = new Stream{s.device, {}, nullptr, {}, false});
    return stream;
  }
  const auto found = s.handles.find(handle);
  if (found == s.handles.end() || found->second->device != s.device) {
    complain(cudaErrorInvalidResourceHandle, "stream " + text_of(handle) + " is none of device " + std::to_string(s.device));
    return nullptr;
  }
  return found->second;
}

namespace {

Event* find_event(void* handle, bool any_device) {
  State& s = state();
  auto* event = static_cast<Event*>(handle);
  if (s.events.count(event) == 0 || (!any_device && event->device != s.device)) {
    complain(cudaErrorInvalidResourceHandle, "event " + text_of(handle) + " is none of device " + std::to_string(s.device));
    return nullptr;
  }
  return event;
}

// Runs one piece of work: the next of this stream, or of one that it waits for. False where that takes another process.
bool advance(Stream& stream) {
  State& s = state();
  Work& head = stream.queue.front();
  if (head.after != nullptr && !head.after->passed) return advance(*head.after->stream);
  const bool first = !head.started;
  head.started = true;
  s.running = head.entry;
  if (head.run || head.done) Arena::instance().open(stream.device);
  if (first && head.run) head.run();
  const bool done = !head.done || head.done();
  s.running = nullptr;
  if (!done) return first;
  if (head.passes != nullptr) {
    head.passes->time_ns = std::chrono::steady_clock::now().time_since_epoch().count();
    head.passes->passed = true;
  }
  stream.queue.pop_front();
  return true;
}
// While one stream waits for another process a device works on the others, which that process may wait for.
void advance_others(const Stream& stream) {
  for (Stream* other : state().streams)
    if (other != &stream && !other->queue.empty()) advance(*other);
}
void drain(Stream& stream) {
  while (!stream.queue.empty())
    if (!advance(stream)) {
      advance_others(stream);
      sched_yield();
    }
  Arena::instance().close();
}
// All that can be done without waiting for another process.
void work_off() {
  for (bool any = true; any;) {
    any = false;
    for (Stream* stream : state().streams)
      while (!stream->queue.empty() && advance(*stream)) any = true;
  }
  Arena::instance().close();
}

// A mark that is not passed yet has its stream's work in front of it; one that is needs its stream no more.
void forget_destroyed_streams() {
  State& s = state();
  if (!s.any_destroyed) return;
  s.any_destroyed = false;
  for (auto it = s.streams.begin(); it != s.streams.end();) {
    Stream* stream = *it;
    const bool over = stream->destroyed && stream->queue.empty();
    s.any_destroyed = s.any_destroyed || (stream->destroyed && !over);
    it = over ? s.streams.erase(it) : std::next(it);
    if (over) delete stream;
  }
}

cudaError_t queue(void* handle, Work work) {
  Stream* stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  State& s = state();
  work.entry = s.entry;
  if (stream->recorded != nullptr) {
    if (work.after || work.passes || work.done) return lose(*stream, "uses an event or another rank while its stream is recorded");
    if (stream->recorder != std::this_thread::get_id()) return lose(*stream, "queues work on a stream that another thread records");
    stream->recorded->memory.insert(s.given.begin(), s.given.end());
    stream->recorded->works.push_back(std::move(work));
    return cudaSuccess;
  }
  stream->queue.push_back(std::move(work));
  return cudaSuccess;
}

// 0: a device's that is right; else an error was reported. Sets whether it is the host's.
cudaError_t check_side(const void* p, std::size_t bytes, const char* what, bool& host) {
  Arena& arena = Arena::instance();
  const int device = arena.device_of(p);
  host = device < 0;
  if (p == nullptr) return complain(cudaErrorInvalidValue, std::string(what) + " a null address");
  if (host) return cudaSuccess;
  return check_range(p, bytes, what);
}

}  // namespace

EntryScope::EntryScope(const char* entry) {
  State& s = state();
  s.lock.lock();
  if (s.depth++ > 0) return;
  ++s.entries;
  s.given.clear();
  s.entry = entry;
  s.device = device_of_thread();
}
int EntryScope::leave(int result) {
  State& s = state();
  if (s.depth > 1) return result;
  if (!s.lazy) work_off();
  forget_destroyed_streams();
  return result;
}
EntryScope::~EntryScope() {
  State& s = state();
  --s.depth;
  s.lock.unlock();
}

const char* running_entry() {
  static std::string name;
  if (state().running == nullptr) return nullptr;
  name = entry_name(state().running);
  return name.c_str();
}

cudaError_t queue_work(void* stream, std::function<void()> work) {
  Work w;
  w.run = std::move(work);
  return queue(stream, std::move(w));
}

cudaError_t queue_exchange(void* stream, std::function<void()> start, std::function<bool()> done) {
  Work w;
  w.run = std::move(start), w.done = std::move(done);
  return queue(stream, std::move(w));
}

cudaError_t queue_fill(void* to, int value, std::size_t bytes, void* stream) {
  if (bytes == 0) return cudaSuccess;
  if (const auto e = check_range(to, bytes, "fills"); e != cudaSuccess) return e;
  return queue_work(stream, [=] { std::memset(to, value, bytes); });
}

cudaError_t queue_copy(void* to, const void* from, std::size_t bytes, void* stream) {
  if (bytes == 0) return cudaSuccess;
  bool host_to = false, host_from = false;
  if (const auto e = check_side(to, bytes, "copies to", host_to); e != cudaSuccess) return e;
  if (const auto e = check_side(from, bytes, "copies from", host_from); e != cudaSuccess) return e;
  for (const void* host : {host_from ? from : nullptr, host_to ? const_cast<const void*>(to) : nullptr}) {
    if (host == nullptr || recording() == nullptr) continue;
    const void* staging = staging_of(host, bytes);
    if (staging == nullptr) return not_while_recording("copies from or to pageable memory of the host, which may be something else at a launch,");
    note_memory(staging);
  }
  Work w;
  w.run = [=] { std::memmove(to, from, bytes); };
  w.host_from = host_from ? from : nullptr, w.host_to = host_to ? to : nullptr;
  w.bytes = bytes;
  return queue(stream, std::move(w));
}

// As cudaFree, which waits for all work of the device.
cudaError_t release(void* pointer) {
  State& s = state();
  if (pointer == nullptr) return cudaSuccess;
  if (const auto e = not_while_recording("releases memory"); e != cudaSuccess) return e;
  for (Stream* stream : s.streams)
    if (stream->device == s.device) drain(*stream);
  if (Arena::instance().release(pointer, s.device)) return forget_memory(pointer), cudaSuccess;
  return complain(cudaErrorInvalidValue, "releases " + text_of(pointer) + ", which was not allocated on device " + std::to_string(s.device));
}

cudaError_t release_in_order(void* pointer, void* stream) {
  if (const auto e = not_while_recording("releases memory"); e != cudaSuccess) return e;
  if (const auto e = check_range(pointer, 0, "releases"); e != cudaSuccess) return e;
  forget_memory(pointer);
  return queue_work(stream, [pointer, device = state().device] { (void)Arena::instance().release(pointer, device); });
}

void* create_stream() {
  State& s = state();
  auto* stream = new Stream{s.device, {}, nullptr, {}, false};
  s.streams.insert(stream);
  if (s.free_handles.empty()) s.free_handles.push_back(new char);
  void* handle = s.free_handles.back();
  s.free_handles.pop_back();
  return s.handles[handle] = stream, handle;
}
// Work that is queued will still run: the stream is kept for it.
cudaError_t destroy_stream(void* handle) {
  Stream* stream = handle == nullptr ? nullptr : find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->recorded != nullptr) return lose(*stream, "destroys a stream that is recorded");
  state().handles.erase(handle);
  state().free_handles.push_back(handle);
  stream->destroyed = state().any_destroyed = true;
  return cudaSuccess;
}
cudaError_t synchronize(void* handle) {
  Stream* stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->recorded != nullptr) return lose(*stream, "waits for a stream that is recorded");
  drain(*stream);
  return cudaSuccess;
}

void* create_event() {
  auto* event = new Event{state().device, nullptr};
  state().events.insert(event);
  return event;
}
cudaError_t destroy_event(void* handle) {
  Event* event = find_event(handle, false);
  if (event == nullptr) return cudaErrorInvalidResourceHandle;
  state().events.erase(event);
  delete event;
  return cudaSuccess;
}
cudaError_t record(void* handle, void* stream) {
  Event* event = find_event(handle, false);
  Stream* of = find_stream(stream);
  if (event == nullptr || of == nullptr) return cudaErrorInvalidResourceHandle;
  event->last = std::make_shared<Mark>();
  event->last->stream = of;
  Work w;
  w.passes = event->last;
  return queue(stream, std::move(w));
}
cudaError_t wait(void* stream, void* handle) {
  const Event* event = find_event(handle, true);
  if (event == nullptr) return cudaErrorInvalidResourceHandle;
  Work w;
  w.after = event->last;
  return queue(stream, std::move(w));
}
cudaError_t query(void* handle) {
  const Event* event = find_event(handle, true);
  if (event == nullptr) return cudaErrorInvalidResourceHandle;
  if (const auto e = not_while_recording("asks for an event"); e != cudaSuccess) return e;
  if (event->last == nullptr || event->last->passed) return cudaSuccess;
  if (!advance(*event->last->stream)) advance_others(*event->last->stream);
  Arena::instance().close();
  return event->last->passed ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t elapsed(void* from, void* to, float* milliseconds) {
  const Event *a = find_event(from, true), *b = find_event(to, true);
  if (a == nullptr || b == nullptr || a->last == nullptr || b->last == nullptr) return cudaErrorInvalidResourceHandle;
  if (!a->last->passed || !b->last->passed) return cudaErrorNotReady;
  *milliseconds = static_cast<float>(static_cast<double>(b->last->time_ns - a->last->time_ns) * 1e-6);
  return cudaSuccess;
}

}  // namespace thinwire::emulated
