#include "models/cost_model/machine_file.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <toml++/toml.h>

#include "core/error.h"
#include "results/files/files.h"

namespace thinwire {

LinkFit fit_link(std::span<const FitPoint> points) {
  // Normal equations of rows (messages, 8e-3 bytes) / us = 1: errors count relative to the time.
  double mm = 0, mb = 0, bb = 0, m1 = 0, b1 = 0;
  for (const FitPoint& p : points) {
    const double m = p.messages / p.us, b = 8e-3 * p.bytes / p.us;
    mm += m * m;
    mb += m * b;
    bb += b * b;
    m1 += m;
    b1 += b;
  }
  const double determinant = mm * bb - mb * mb;
  if (points.size() < 2 || !(determinant > 1e-9 * mm * bb))
    throw UsageError("a link's latency and rate need measurements of at least two sizes that differ by their bytes per message");
  double latency = (m1 * bb - b1 * mb) / determinant, inverse_rate = (b1 * mm - m1 * mb) / determinant;
  if (latency < 0) {
    latency = 0;
    inverse_rate = b1 / bb;
  } else if (inverse_rate < 0) {
    inverse_rate = 0;
    latency = m1 / mm;
  }
  LinkFit fit;
  fit.link.latency_us = latency;
  if (inverse_rate > 0) fit.link.gbps = 1 / inverse_rate;
  for (const FitPoint& p : points) {
    const double fitted = p.messages * latency + 8e-3 * p.bytes * inverse_rate;
    fit.worst = std::max(fit.worst, std::abs(fitted / p.us - 1));
  }
  return fit;
}

MachineFile MachineFile::read(const std::string& path) {
  MachineFile machine;
  if (!std::filesystem::exists(path)) return machine;
  const auto refuse = [&](const std::string& what) -> void {
    throw UsageError(path + ": " + what + "; write [link.\"netns:1gbit\"] with latency_us and gbps, or let `bench_collective --fit` write it");
  };
  try {
    const toml::table file = toml::parse(results::read_file(path), path);
    for (const auto& [key, value] : file) {
      if (key.str() == "products") {
        machine.products = results::read_tuned_products(path);
        continue;
      }
      if (key.str() != "link" || !value.is_table()) refuse("unknown key `" + std::string(key.str()) + "`");
      for (const auto& [name, entry] : *value.as_table()) {
        if (!entry.is_table()) refuse("link \"" + std::string(name.str()) + "\" is no table");
        LinkModel link;
        for (const auto& [field, number] : *entry.as_table()) {
          const auto given = number.value<double>();
          if (!given || !std::isfinite(*given) || *given < 0) refuse("link \"" + std::string(name.str()) + "\": `" + std::string(field.str()) + "` is no number of 0 or more");
          if (field.str() == "latency_us")
            link.latency_us = *given;
          else if (field.str() == "gbps" && *given > 0)
            link.gbps = *given;
          else
            refuse("link \"" + std::string(name.str()) + "\": unknown key, or a rate of 0: `" + std::string(field.str()) + "`");
        }
        machine.links[std::string(name.str())] = link;
      }
    }
  } catch (const toml::parse_error& error) {
    refuse(std::string(error.description()));
  }
  return machine;
}

std::string MachineFile::to_toml() const {
  std::string text = products ? results::to_toml(*products) : "";
  char line[64];
  for (const auto& [name, link] : links) {
    text += "[link." + results::toml_quoted(name) + "]\n";
    std::snprintf(line, sizeof line, "latency_us = %.17g\n", link.latency_us);
    text += line;
    if (std::isfinite(link.gbps)) {
      std::snprintf(line, sizeof line, "gbps = %.17g\n", link.gbps);
      text += line;
    }
  }
  return text;
}

}  // namespace thinwire
