// Trainers on a device and on the host side by side.
#pragma once

#include <map>

#include "tests/models/training/parity_run.h"
#include "tests/models/training/resume_run.h"

namespace thinwire::testing {

class DeviceTraining : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = why_unavailable(DeviceKind::cuda);
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
};

inline TrainConfig on_device(TrainConfig c) {
  c.device = DeviceKind::cuda;
  return c;
}

/// A tensor's elements as f64, wherever it lies.
inline std::vector<double> elements_of(const TensorView& view) {
  std::vector<float> values(static_cast<std::size_t>(view.elements()));
  const PlacementScope there(view.device());
  copy_and_wait(values.data(), view.data(), view.bytes());
  return {values.begin(), values.end()};
}

/// Weights of this rank by name; the padding of the vocabulary is left out.
inline std::map<std::string, std::vector<double>> weights_of(ParallelTrainer& trainer, std::int64_t vocab) {
  std::map<std::string, std::vector<double>> all;
  for (const StateSlot& t : trainer.state_slots()) {
    if (t.name != "weights") continue;
    std::vector<double> values = elements_of(t.value);
    if (t.layout.name() == "embedding.token")
      values.resize(static_cast<std::size_t>(std::clamp<std::int64_t>(vocab - t.layout.rows().begin, 0, t.layout.rows().count) * t.layout.columns().count));
    all[t.layout.name()] = std::move(values);
  }
  return all;
}

/// Largest L2 distance of a tensor from its reference, relative to the reference; and its name.
inline std::pair<double, std::string> largest_distance(const std::map<std::string, std::vector<double>>& a, const std::map<std::string, std::vector<double>>& reference) {
  std::pair<double, std::string> worst{0, ""};
  for (const auto& [name, b] : reference) {
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < b.size(); ++i) {
      difference += (a.at(name).at(i) - b[i]) * (a.at(name).at(i) - b[i]);
      size += b[i] * b[i];
    }
    const double distance = size > 0 ? std::sqrt(difference / size) : std::sqrt(difference);
    if (!(distance <= worst.first)) worst = {std::isnan(distance) ? INFINITY : distance, name};
  }
  return worst;
}

}  // namespace thinwire::testing
