// A user's tensors in NumPy's format, by the door that benches use (--input FILE.npy).
#include "core/random.h"
#include "models/data/tensor_file.h"
#include "tests/fuzz/target.h"

namespace thinwire::fuzz {
namespace {

void read(std::string_view input) {
  const std::string path = as_file("npy/x.npy", input);
  for (const char* as : {"", ":bf16"}) {
    const bool last = *as != '\0';
    try {
      const FileTensor tensor = load_tensor_file(path + as);
      if (tensor.values.elements() < 0 || static_cast<std::uint64_t>(tensor.values.elements()) > input.size()) throw Finding("more elements than bytes: " + tensor.values.shape().to_string());
      return;
    } catch (const CorruptData&) {
      if (last) throw;
    }
  }
}

std::string file(const std::string& descr, const std::string& order, const std::string& shape, std::size_t data, int version) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
  const std::size_t prefix = version == 1 ? 10 : 12;
  while ((prefix + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string text = std::string("\x93NUMPY", 6) + static_cast<char>(version) + '\0';
  for (std::size_t i = 0; i < prefix - 8; ++i) text += static_cast<char>(header.size() >> (8 * i));
  text += header;
  for (std::size_t i = 0; i < data; ++i) text += static_cast<char>(i * 37);
  return text;
}

std::vector<std::string> seeds() {
  return {file("<f4", "False", "(2, 3)", 24, 1),    file("<f8", "True", "(3, 2)", 48, 2), file("<f2", "False", "()", 2, 1),
          file("<V2", "False", "(2, 3, 2)", 24, 1), file("<u2", "False", "(6,)", 12, 1),  file("<f4", "False", "(1, 2, 1, 2, 1, 2)", 32, 2),
          file("<f4", "False", "(0, 5)", 0, 1)};
}

const bool registered = register_target({"npy", "FILE.npy of benches' --input", 10'000, read, seeds});

}  // namespace
}  // namespace thinwire::fuzz
