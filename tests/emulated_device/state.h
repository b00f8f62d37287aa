// What the emulated devices of a process consist of: between streams.cpp and checks.cpp.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/emulated_device/streams.h"

namespace thinwire::emulated {

struct Stream;

// One recording of an event; who waits for it does so for this one, however often the event is recorded again.
struct Mark {
  Stream* stream = nullptr;
  bool passed = false;
  std::int64_t time_ns = 0;
};
struct Event {
  int device = 0;
  std::shared_ptr<Mark> last;
};
struct Work {
  const char* entry = nullptr;
  std::function<void()> run;
  std::function<bool()> done;  ///< where it takes others to finish it
  bool started = false;
  std::shared_ptr<Mark> after;   ///< runs once this is passed
  std::shared_ptr<Mark> passes;  ///< when it has run
  const void *host_from = nullptr, *host_to = nullptr;
  std::size_t bytes = 0;
};
struct Graph {
  int device = 0;
  std::vector<Work> works;
  std::set<const void*> memory;  ///< allocations, and page-locked memory, that the work was given
  bool stale = false;            ///< some of it was released since
};
struct Stream {
  int device = 0;
  std::deque<Work> queue;
  std::unique_ptr<Graph> recorded;  ///< while it is
  std::thread::id recorder;
  bool lost = false;       ///< by something that cannot be recorded
  bool destroyed = false;  ///< only its work keeps it
};

// Of the process; whoever uses it is inside an EntryScope.
struct State {
  std::recursive_mutex lock;
  bool lazy = false;
  int depth = 0, device = 0;
  const char* entry = nullptr;    ///< that queues
  const char* running = nullptr;  ///< that runs
  std::set<Stream*> streams;         ///< those that were destroyed, too, until their work has run
  bool any_destroyed = false;        ///< of these
  std::map<void*, Stream*> handles;  ///< what programs hold
  std::vector<void*> free_handles;   ///< of destroyed streams: the next one made gets the last, as a device may give it
  std::map<int, Stream*> default_streams;
  std::set<Event*> events;
  std::set<Graph*> graphs;
  std::map<std::uintptr_t, std::size_t> staging;  ///< page-locked memory: address -> bytes
  std::set<const void*> given;  ///< memory that the entry point named, while its thread records
  std::int64_t entries = 0;     ///< calls of entry points so far
  cudaError_t lost = cudaSuccess;  ///< what has spoiled the context: all that follows returns it
  std::uint64_t contexts = 0;      ///< devices that have one: bit 1 << device
  State();
};
State& state();

/// The calling thread's: 0 until it chooses another.
int device_of_thread();
/// The stream that the calling thread records, or null.
Stream* recording();
/// What cannot be recorded: a message and an error, and the recording is lost.
cudaError_t lose(Stream& stream, const std::string& what);
/// While the thread records: the graph will hold this memory.
void note_memory(const void* allocation);
/// Graphs that hold this memory may not be launched any more.
void forget_memory(const void* allocation);
/// The page-locked memory that these bytes lie in, or null.
const void* staging_of(const void* p, std::size_t bytes);
/// The stream of a handle, null for the default one; null, with a message, where there is no such stream of the entry scope's device.
Stream* find_stream(void* handle);
/// The entry point in the name of on_device's type.
std::string entry_name(const char* text);
std::string text_of(const void* p);
/// Writes what the entry point did wrong to stderr and returns the error.
cudaError_t complain(cudaError_t error, const std::string& what);

}  // namespace thinwire::emulated
