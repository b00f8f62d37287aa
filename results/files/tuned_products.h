// What `doctor --tune` found out about matrix products on a machine: section [products] of a machine file (TOML; its links are
// models/cost_model/machine_file.h's). Written once per machine, read by every rank at its start, never changed by a run.
#pragma once

#include <optional>
#include <string>

namespace thinwire::results {

/// The parameter of cells, and the option of programs, that holds the choice.
inline constexpr const char* product_library_parameter = "product-library";

struct TunedProducts {
  std::string library;    ///< the choice, as nn::ProductLibrary writes it: "openblas:kernels=SkylakeX,large_nn=onednn"
  std::string processor;  ///< processor_name() of the machine that was tuned
  std::string versions;   ///< of the libraries that were measured, for the reader
  std::int64_t threads = 0;  ///< of each product that was measured
};

/// The section; nothing where the file has none. UsageError naming file and key for a damaged one, with what mends it; EnvironmentError where the
/// file cannot be read. What `library` says is not looked into here.
std::optional<TunedProducts> read_tuned_products(const std::string& path);
std::string to_toml(const TunedProducts& products);

/// `text` as a basic string of TOML.
std::string toml_quoted(const std::string& text);

/// This machine's processor: model name, family and model, from /proc/cpuinfo. Hypervisors give several processors one model name.
std::string processor_name();

/// The choice in the file that THINWIRE_MACHINE names; empty where the variable is not set. UsageError, naming the file and what mends it, where the
/// file has no products or was made on another processor: a choice that silently did not apply would be another configuration than the user's.
std::string tuned_library_of_this_machine();

}  // namespace thinwire::results
