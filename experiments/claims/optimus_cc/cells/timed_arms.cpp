#include "experiments/claims/optimus_cc/cells/timed_arms.h"

#include <cstdio>

#include "experiments/claims/optimus_cc/cells/rule_arms.h"

namespace thinwire::claims::optimus_cc {
namespace {

void set_model(TimedArm& arm, int layers, int hidden, int seq, int micro_batches) {
  arm.settings["layers"] = std::to_string(layers);
  arm.settings["hidden"] = std::to_string(hidden);
  arm.settings["heads"] = "4";
  arm.settings["seq"] = arm.settings["max-seq"] = std::to_string(seq);
  arm.settings["micro-batch"] = "8";
  arm.settings["global-batch"] = std::to_string(8 * micro_batches * arm.replicas);
}

}  // namespace

double exposure_gbps(double share) { return 8e-3 * boundary_bytes / (share * exposure_forward_us); }

TimedArm exposure_arm(double share, Backward compressed, bool blocking, const std::string& kind) {
  TimedArm arm;
  char text[64];
  std::snprintf(text, sizeof text, "%s:%.6ggbit", kind.c_str(), exposure_gbps(share));
  arm.link = text;
  const char* const what[] = {"none", "epilogue", "all"};
  std::snprintf(text, sizeof text, "%s, c/tf %g%s", what[static_cast<int>(compressed)], share, blocking ? ", blocking" : "");
  arm.name = text;
  set_model(arm, 4, 128, 64, timed_micro_batches);
  state_passes(arm, exposure_forward_us, exposure_backward_us);
  if (compressed != Backward::none) compress_backward(arm, "powersgd:rank=2+lep", compressed == Backward::epilogue);
  if (blocking) arm.settings["sends"] = "blocking";
  return arm;
}

TimedArm selective_arm(double backward_us, int compressed_stages, const std::string& kind) {
  TimedArm arm;
  arm.link = kind + ":100mbit";
  arm.replicas = 2;
  char text[64];
  std::snprintf(text, sizeof text, "K = %d, tb %g ms", compressed_stages, backward_us * 1e-3);
  arm.name = text;
  // Short sequences: gradients weigh more beside boundary messages, as they do in large models.
  set_model(arm, 4, 128, 16, 4);
  state_passes(arm, backward_us / 3, backward_us);
  compress_gradients(arm, compressed_stages, selective_rank);
  arm.settings["omit"] = "embedding";  // its sum would follow that of first and last stage only
  return arm;
}

TimedArm stack_arm(int stack, const std::string& link, const std::string& omit) {
  TimedArm arm;
  arm.link = link;
  arm.replicas = 2;
  arm.name = stack_names[static_cast<std::size_t>(stack)];
  if (!omit.empty()) arm.name += " without " + omit;
  set_model(arm, 8, 256, 16, 4);
  state_passes(arm, 10000, 30000);
  if (stack >= 1) compress_backward(arm, "powersgd:rank=4+lep", true);
  arm.settings["embedding-sync"] = stack >= 2 ? "fused" : "two_step";
  if (stack >= 3) compress_gradients(arm, 3, selective_rank);
  if (!omit.empty()) arm.settings["omit"] = omit;
  return arm;
}

void add_timed_arms(Rule& rule, const std::vector<TimedArm>& arms) {
  std::vector<NamedRequest> requests;
  for (const TimedArm& arm : arms) requests.push_back({arm.name, timed_request(arm)});
  add_arms(rule, requests);
}

}  // namespace thinwire::claims::optimus_cc
