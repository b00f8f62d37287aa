// A machine as the step model sees it: a small TOML file with what each link of it was measured to give, and which library
// multiplies matrices there (results/files/tuned_products.h).
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "models/cost_model/link_model.h"
#include "results/files/tuned_products.h"

namespace thinwire {

/// One measured collective of a rank: so many messages one after the other, so many bytes in all.
struct FitPoint {
  double messages = 0, bytes = 0, us = 0;
};

struct LinkFit {
  LinkModel link;
  double worst = 0;  ///< largest relative distance of a point from the fit
};

/// Latency and rate by least squares of the relative errors of us = messages x latency + 8e-3 bytes / gbps; a latency below 0
/// becomes 0. UsageError for fewer than two points, or points that cannot tell latency from rate.
LinkFit fit_link(std::span<const FitPoint> points);

struct MachineFile {
  std::map<std::string, LinkModel> links;  ///< by name of the link: "netns:1gbit", "fabric"
  std::optional<results::TunedProducts> products = {};  ///< of `doctor --tune`; who writes links keeps them, and the other way round

  /// UsageError naming the file and the faulty key; a file that does not exist gives no links.
  static MachineFile read(const std::string& path);
  std::string to_toml() const;
};

}  // namespace thinwire
