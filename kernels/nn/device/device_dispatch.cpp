#include "kernels/nn/device/device_dispatch.h"

#include <list>
#include <map>
#include <mutex>
#include <string>

#include "core/error.h"

namespace thinwire::nn {
namespace {

// Buffers are leaked on purpose: when a thread or the process ends, queued work may still use them.
Buffer& leaked_buffer() {
  static std::mutex lock;
  static auto* all = new std::list<Buffer>;
  const std::lock_guard hold(lock);
  return all->emplace_back();
}

constexpr std::size_t status_bytes = 2 * sizeof(std::uint32_t);

// Of the placement's device, zero when it is new; null when it is not there and not to be made.
std::uint32_t* status_of_device(bool make) {
  static std::mutex lock;
  static auto* words = new std::map<int, std::uint32_t*>;
  const std::lock_guard hold(lock);
  const auto found = words->find(placement().device.ordinal);
  if (found != words->end()) return found->second;
  if (!make) return nullptr;
  auto* fresh = leaked_buffer().as<std::uint32_t>(status_bytes / sizeof(std::uint32_t));
  fill_zero_bytes(fresh, status_bytes);
  synchronize_placement();  // other streams use them, too
  return words->emplace(placement().device.ordinal, fresh).first->second;
}

}  // namespace

namespace device {

std::uint32_t* status_word(StatusWord which) { return status_of_device(true) + static_cast<int>(which); }

void refuse_f64(const char* entry) {
  throw UsageError(std::string(entry) + " was asked for in f64: devices compute in f32 or bf16. Use f32, or the host (--device host).");
}

}  // namespace device

void check_device_status() {
  if (!device::on_device()) return;
  std::uint32_t* words = status_of_device(false);
  if (words == nullptr) return;
  std::uint32_t seen[2] = {};
  copy_and_wait(seen, words, status_bytes);
  if (seen[0] == 0 && seen[1] == 0) return;
  fill_zero_bytes(words, status_bytes);
  if (seen[static_cast<int>(device::StatusWord::tokens)] != 0)
    throw CorruptData("A token is outside the vocabulary (found on the device, which does not say where). Check the text's tokeniser and the model's "
                      "vocabulary; a run with --device host names token and position.");
  throw CorruptData("A target is outside the vocabulary (found on the device, which does not say where). Check the tokens handed to the model; a run "
                    "with --device host names target and row.");
}

}  // namespace thinwire::nn
