#include "bench/harness/product_choice.h"

#include "core/error.h"
#include "core/process/blas_kernels.h"
#include "kernels/nn/gemm/product_library.h"
#include "results/files/tuned_products.h"

namespace thinwire::bench {

std::string product_library_of_command(const std::string& given) {
  const std::string text = given.empty() ? results::tuned_library_of_this_machine() : given;
  return text.empty() ? text : nn::parse_product_library(text).text();
}

std::string product_library_of(const Launch& launch) {
  const auto of = [](const LaunchCell& cell) { return cell.parameters.has(results::product_library_parameter) ? cell.parameters.text(results::product_library_parameter) : std::string(); };
  const std::string first = launch.cells.empty() ? "" : of(launch.cells.front());
  for (const LaunchCell& cell : launch.cells)
    if (of(cell) != first)
      throw UsageError("the cells of one launch have different product libraries, `" + first + "` and `" + of(cell) + "`; a process has one: put them into launches of their own");
  return first;
}

void take_product_library(const std::string& choice, char** argv) {
  const nn::ProductLibrary library = nn::parse_product_library(choice);
  if (const std::string reason = nn::why_not(library); !reason.empty()) throw EnvironmentError("product library `" + choice + "`: " + reason + "; choose openblas");
  if (!library.kernels.empty()) take_blas_kernels(library.kernels, argv);
  nn::set_product_library(library);
}

void require_one_choice(const std::string& choice, Communicator& world) {
  std::int64_t length = static_cast<std::int64_t>(choice.size());
  world.broadcast(&length, sizeof length, 0)->wait();
  std::string first = world.rank() == 0 ? choice : std::string(static_cast<std::size_t>(length), ' ');
  if (length > 0) world.broadcast(first.data(), length, 0)->wait();
  const std::int32_t mine = first == choice ? -1 : world.rank();
  std::int32_t odd = -1;
  world.all_reduce(&mine, &odd, 1, DType::i32, ReduceOp::max)->wait();
  if (odd < 0) return;
  throw EnvironmentError("rank " + std::to_string(odd) + " multiplies with another library than rank 0, which has `" + (first.empty() ? "openblas" : first) +
                         "`: every rank must see the same machine file (mpirun -x THINWIRE_MACHINE, one path on all nodes), or give --" + results::product_library_parameter + " to all");
}

}  // namespace thinwire::bench
