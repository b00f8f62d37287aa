#include "collectives/channel/traffic.h"

#include <array>
#include <string>

#include "core/error.h"
#include "core/joined.h"

namespace thinwire {
namespace {

// Order of the enumerators in traffic.h.
const std::array<std::string, 13> traffic_names = {"tp_forward",       "tp_backward",         "pp_forward",     "pp_backward", "dp_gradient",
                                                   "embedding",        "param_all_gather",    "grad_reduce_scatter", "outer_gradient",
                                                   "optimizer",        "tp_weight",           "tp_weight_gradient",  "control"};
const std::array<std::string, 6> protocol_names = {"automatic", "dense",    "rounds",
                                                   "gather",    "two_shot", "point_to_point"};

template <std::size_t N>
std::size_t index_of(std::string_view name, const std::array<std::string, N>& names, const char* what) {
  for (std::size_t i = 0; i < N; ++i)
    if (names[i] == name) return i;
  throw UsageError(std::string(what) + " '" + std::string(name) + "' does not exist; did you mean '" +
                   nearest_name(name, names.data(), names.data() + N) + "'? There are: " + joined(names));
}

}  // namespace

std::string name_of(TrafficClass traffic) {
  return traffic_names[static_cast<std::size_t>(traffic)];
}
TrafficClass parse_traffic(std::string_view name) {
  return static_cast<TrafficClass>(index_of(name, traffic_names, "traffic class"));
}

std::string name_of(Protocol protocol) {
  return protocol_names[static_cast<std::size_t>(protocol)];
}
Protocol parse_protocol(std::string_view name) {
  return static_cast<Protocol>(index_of(name, protocol_names, "reduction protocol"));
}

std::string name_of(DenseAlgorithm algorithm) {
  return algorithm == DenseAlgorithm::library ? "library" : "ring";
}

}  // namespace thinwire
