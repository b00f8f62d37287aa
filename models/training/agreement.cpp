#include "models/training/agreement.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/clock.h"
#include "core/error.h"

namespace thinwire {
namespace {

struct Outcome {
  std::int32_t status = 0, corrupt = 0;
  char message[4096] = {};
};

[[noreturn]] void throw_again(const Outcome& o) {
  const std::string message = o.message;
  switch (static_cast<ExitCode>(o.status)) {
    case ExitCode::usage: throw UsageError(message);
    case ExitCode::environment: throw EnvironmentError(message);
    case ExitCode::timeout: throw TimeoutError(message);
    case ExitCode::wrong_result: throw WrongResult(message);
    default: break;
  }
  if (o.corrupt != 0) throw CorruptData(message);
  throw RuntimeFailure(message);
}

}  // namespace

void run_in_agreement(Communicator& world, const std::function<void()>& body) {
  Outcome mine;
  const auto note = [&](int status, const char* message) {
    mine.status = status;
    std::strncpy(mine.message, message, sizeof mine.message - 1);
  };
  try {
    body();
  } catch (const CorruptData& e) {
    note(e.exit_status(), e.what());
    mine.corrupt = 1;
  } catch (const Error& e) {
    note(e.exit_status(), e.what());
  } catch (const std::exception& e) {
    note(static_cast<int>(ExitCode::runtime_failure), e.what());
  }
  std::vector<Outcome> all(static_cast<std::size_t>(world.size()));
  world.all_gather(&mine, sizeof mine, all.data())->wait();
  for (const Outcome& outcome : all)
    if (outcome.status != 0) throw_again(outcome);
}

void complain_once(const Communicator& world, const std::function<void()>& body) {
  try {
    body();
  } catch (const Error&) {
    if (world.rank() != 0) leave_it_to_another();
    throw;
  }
}

void leave_it_to_another() { sleep_until_ns(now_ns() + 20'000'000'000); }

}  // namespace thinwire
