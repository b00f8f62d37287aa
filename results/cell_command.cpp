#include "results/cell_command.h"

#include <vector>

#include "results/link_kind.h"
#include "results/provenance.h"

namespace thinwire::results {

std::string command_of_cell(const std::string& program, int ranks, const std::string& link, const Parameters& parameters) {
  std::vector<std::string> words;
  if (const LinkKind* kind = kind_of_link(link); kind != nullptr && kind->in_lab)
    words = {"experiments/lab/launch.sh", "--link", link, "--ranks", std::to_string(ranks), "--"};
  else if (ranks > 1)
    words = {"mpirun", "--oversubscribe", "-n", std::to_string(ranks)};
  words.push_back(program);
  for (const auto& [name, value] : parameters.values()) words.insert(words.end(), {"--" + name, to_text(value)});
  if (link != "shm") words.insert(words.end(), {"--link", link});
  return shell_command(words);
}

}  // namespace thinwire::results
