// Hugging Face's format: every tensor of a file, and a whole BERT read from one.
#include <filesystem>

#include "models/bert/hugging_face.h"
#include "models/data/safetensors.h"
#include "models/stage/model_kind.h"
#include "tests/fuzz/target.h"
#include "tests/support/temporary_folder.h"

namespace thinwire::fuzz {
namespace {

void read(std::string_view input) {
  const SafetensorsFile file(as_file("safetensors/x.safetensors", input));
  for (const std::string& name : file.names()) {
    const FileTensor tensor = file.load(name);
    if (tensor.values.shape() != file.shape(name) || static_cast<std::uint64_t>(tensor.values.elements()) > input.size()) throw Finding("a tensor larger than its file: " + name);
  }
}

std::string file(const std::string& header, std::size_t data) {
  std::string text;
  for (int i = 0; i < 8; ++i) text += static_cast<char>(header.size() >> (8 * i));
  text += header;
  for (std::size_t i = 0; i < data; ++i) text += static_cast<char>(i * 37);
  return text;
}

std::vector<std::string> seeds() {
  return {file(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b.weight":{"dtype":"BF16","shape":[3],"data_offsets":[24,30]}})", 30),
          file(R"({"x":{"dtype":"F64","shape":[],"data_offsets":[0,8]},"y":{"dtype":"F16","shape":[0,7],"data_offsets":[8,8]},"z":{"dtype":"I64","shape":[1],"data_offsets":[8,16]}})", 16),
          file(R"({"five":{"dtype":"F16","shape":[1,2,1,2,1],"data_offsets":[0,8]}})", 8)};
}

const bool registered = register_target({"safetensors", "FILE.safetensors of benches' --input", 7'900, read, seeds});

// ---- a checkpoint of BERT: the first part of an input is config.json, up to a line "----", the rest model.safetensors ----

constexpr std::string_view parting = "\n----\n";

struct Model {
  Model() {
    sizes.vocab = 7, sizes.hidden = 4, sizes.layers = 1, sizes.heads = 2, sizes.max_seq = 3;
    config = bert_config(sizes, "task=masked");
    stage = make_stage<float>("bert:task=masked", sizes, {}, {&alone, nullptr, &clock, false});
  }
  ModelConfig sizes;
  BertConfig config;
  TensorParallel<float> alone;
  ComputeClock clock;
  std::unique_ptr<Stage<float>> stage;
};

void read_bert(std::string_view input) {
  static Model model;
  const std::size_t at = std::min(input.find(parting), input.size());
  const std::filesystem::path path = as_file("bert/config.json", input.substr(0, at));
  as_file("bert/model.safetensors", input.substr(std::min(at + parting.size(), input.size())));
  load_hugging_face(path.parent_path(), model.config, *model.stage);
  ModelConfig sizes;
  hugging_face_sizes(path.parent_path(), sizes);
}

std::vector<std::string> bert_seeds() {
  Model model;
  const thinwire::testing::TemporaryFolder folder;
  save_hugging_face(folder.path(), model.config, *model.stage);
  return {thinwire::testing::TemporaryFolder::read(folder / "config.json") + std::string(parting) + thinwire::testing::TemporaryFolder::read(folder / "model.safetensors")};
}

const bool bert_registered = register_target({"hugging_face", "config.json and model.safetensors of --from", 3'100, read_bert, bert_seeds});

}  // namespace
}  // namespace thinwire::fuzz
