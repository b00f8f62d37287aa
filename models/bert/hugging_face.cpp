#include "models/bert/hugging_face.h"

#include <cmath>
#include <fstream>
#include <map>
#include <memory>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/sha256.h"
#include "models/data/safetensors.h"

namespace thinwire {
namespace {

using nlohmann::json;

/// Where an element of one of our parameters lies in a checkpoint. `names` has more than one entry where our matrix holds several of theirs:
/// element (row, column) is element (row, column_of) of part `part_of` of them.
struct Source {
  std::vector<std::string> names;
  bool transposed = false;  ///< theirs is [out, in]
  std::int64_t head = 0;    ///< columns of a head in each of q, k and v; 0: one matrix
};

/// Behind the prefix of the encoder ("bert.") where `encoder`.
struct Named {
  Source source;
  bool encoder = true;
};

Named theirs(const std::string& ours, const BertConfig& c) {
  const std::string kind = ours.substr(ours.rfind('.') + 1), place = ours.substr(0, ours.rfind('.'));
  const bool weight = kind == "weight";
  const auto norm = [&](const std::string& at) { return at + (kind == "gamma" ? ".weight" : ".bias"); };
  const auto linear = [&](const std::string& at) { return Source{{at + "." + kind}, weight}; };
  if (ours == "embedding.token") return {{{"embeddings.word_embeddings.weight"}}};
  if (ours == "embedding.position") return {{{"embeddings.position_embeddings.weight"}}};
  if (ours == "embedding.type") return {{{"embeddings.token_type_embeddings.weight"}}};
  if (place == "embedding.norm") return {{{norm("embeddings.LayerNorm")}}};
  if (place == "head.pooler") return {linear("pooler.dense")};
  if (place == "head.classifier") return {linear(c.task == BertTask::pretraining ? "cls.seq_relationship" : "classifier"), false};
  if (place == "head.dense") return {linear("cls.predictions.transform.dense"), false};
  if (place == "head.norm") return {{{norm("cls.predictions.transform.LayerNorm")}}, false};
  if (ours == "head.bias") return {{{"cls.predictions.bias"}}, false};
  TW_ASSERT(ours.starts_with("layer"), ours);
  const std::string part = place.substr(place.find('.') + 1), at = "encoder.layer." + place.substr(5, place.find('.') - 5);
  if (part == "attention.qkv") {
    Source source{{}, weight, c.hidden / c.heads};
    for (const char* which : {"query", "key", "value"}) source.names.push_back(at + ".attention.self." + which + "." + kind);
    return {source};
  }
  if (part == "attention.projection") return {linear(at + ".attention.output.dense")};
  if (part == "attention.norm") return {{{norm(at + ".attention.output.LayerNorm")}}};
  if (part == "mlp.expand") return {linear(at + ".intermediate.dense")};
  if (part == "mlp.projection") return {linear(at + ".output.dense")};
  TW_ASSERT(part == "mlp.norm", ours);
  return {{{norm(at + ".output.LayerNorm")}}};
}

/// Which of a source's tensors has our column, and as which of its own.
std::pair<std::size_t, std::int64_t> place_of_column(const Source& s, std::int64_t column) {
  if (s.head == 0) return {0, column};
  return {static_cast<std::size_t>(column / s.head % 3), column / (3 * s.head) * s.head + column % s.head};
}

/// Extents of ours as a matrix; a vector is one row.
struct Extents {
  std::int64_t rows, columns;
};
Extents extents_of(const Shape& shape) { return {shape.rank() == 2 ? shape[0] : 1, shape[shape.rank() - 1]}; }

json read_config(const std::string& folder) {
  std::ifstream file(folder + "/config.json");
  if (!file) throw EnvironmentError("'" + folder + "/config.json' cannot be read. Give a folder as transformers' save_pretrained writes it.");
  json config = json::parse(file, nullptr, false);
  if (!config.is_object()) throw CorruptData("'" + folder + "/config.json' is no JSON object.");
  return config;
}

void refuse_form(const BertConfig& c) {
  if (!c.post_norm || !c.exact_gelu || c.types == 0)
    throw UsageError("Checkpoints of Hugging Face's BERT are post-layernorm with the exact GELU and token types; this model has norm=" +
                     std::string(c.post_norm ? "post" : "pre") + ", gelu=" + (c.exact_gelu ? "erf" : "tanh") + ", types=" + std::to_string(c.types));
}

void check_sizes(const json& theirs, const BertConfig& c, const std::string& folder) {
  const auto differs = [&](const std::string& name, const std::string& have, const std::string& want) {
    throw UsageError("'" + folder + "/config.json' has " + name + " = " + have + ", but the model " + want);
  };
  const auto compare = [&](const char* name, std::int64_t want, bool at_least = false) {
    const std::int64_t have = theirs.value(name, std::int64_t{-1});
    if (at_least ? have < want : have != want) differs(name, std::to_string(have), "has " + std::to_string(want));
  };
  try {
    if (const std::string type = theirs.value("model_type", "bert"); type != "bert") differs("model_type", type, "is a BERT");
    if (const std::string act = theirs.value("hidden_act", "gelu"); act != "gelu") differs("hidden_act", act, "knows gelu alone");
    compare("hidden_size", c.hidden), compare("num_hidden_layers", c.layers), compare("num_attention_heads", c.heads), compare("intermediate_size", 4 * c.hidden);
    compare("vocab_size", c.vocab), compare("type_vocab_size", c.types), compare("max_position_embeddings", c.max_seq, true);
    if (const double epsilon = theirs.value("layer_norm_eps", 1e-12); std::abs(epsilon - c.epsilon) > 1e-6 * c.epsilon)
      differs("layer_norm_eps", std::to_string(epsilon), "adds another number (epsilon=)");
  } catch (const json::exception& error) {
    throw CorruptData("'" + folder + "/config.json': " + error.what());
  }
}

/// Name in the file: with the encoder's prefix or, of a model without head, without; norms by their names of today or of 2018. Empty: not there.
std::string find_name(const SafetensorsFile& file, const std::string& name, bool encoder) {
  std::vector<std::string> tries = {name};
  for (const auto& [now, then] : {std::pair{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}})
    if (name.ends_with(now)) tries.push_back(name.substr(0, name.size() - std::string(now).size()) + then);
  for (const std::string& one : tries)
    for (const std::string& full : encoder ? std::vector<std::string>{"bert." + one, one} : std::vector<std::string>{one})
      if (file.has(full)) return full;
  return "";
}

/// Tensors of one of our parameters, and how to read it element by element.
class Values {
 public:
  Values(Source source, std::vector<FileTensor> tensors, std::int64_t rows, std::int64_t columns)
      : source_(std::move(source)), tensors_(std::move(tensors)), rows_(rows), columns_(columns) {}
  /// 0 in the rows, or of a vector the columns, that pad ours.
  float at(std::int64_t row, std::int64_t column) const {
    if (row >= rows_ || column >= columns_) return 0;
    const auto [part, c] = place_of_column(source_, column);
    const std::int64_t part_columns = columns_ / static_cast<std::int64_t>(tensors_.size());
    return tensors_[part].values.as<float>()[static_cast<std::size_t>(source_.transposed ? c * rows_ + row : row * part_columns + c)];
  }

 private:
  Source source_;
  std::vector<FileTensor> tensors_;
  std::int64_t rows_, columns_;  ///< without padding
};

void fill(const Values& values, const ParameterLayout& layout, std::int64_t first_row, TensorView to) {
  const std::int64_t columns = extents_of(layout.global()).columns, width = extents_of(layout.local()).columns;
  for (std::int64_t i = 0; i < to.elements(); ++i) {
    const std::int64_t global = layout.global_index(first_row * width + i);
    const float value = values.at(global / columns, global % columns);
    if (to.dtype() == DType::f64)
      to.as<double>()[static_cast<std::size_t>(i)] = value;
    else
      to.as<float>()[static_cast<std::size_t>(i)] = value;
  }
}

}  // namespace

void hugging_face_sizes(const std::string& folder, ModelConfig& sizes) {
  const json theirs = read_config(folder);
  const auto set = [&](const char* name, std::int64_t& size) {
    const auto found = theirs.find(name);
    if (found == theirs.end() || !found->is_number_integer()) throw CorruptData("'" + folder + "/config.json' has no whole number " + name + ".");
    size = found->get<std::int64_t>();
  };
  set("hidden_size", sizes.hidden), set("num_hidden_layers", sizes.layers), set("num_attention_heads", sizes.heads), set("vocab_size", sizes.vocab);
}

template <typename T>
std::vector<std::string> load_hugging_face(const std::string& folder, const BertConfig& config, Stage<T>& stage) {
  refuse_form(config);
  check_sizes(read_config(folder), config, folder);
  const auto file = std::make_shared<const SafetensorsFile>(folder + "/model.safetensors");
  std::vector<std::string> missing;
  for (Parameter<T>* p : stage.parameters()) {
    const auto [source, encoder] = theirs(p->name(), config);
    std::vector<std::string> names, absent;
    for (const std::string& name : source.names) {
      std::string found = find_name(*file, name, encoder);
      (found.empty() ? absent : names).push_back(found.empty() ? name : std::move(found));
    }
    if (!absent.empty()) {
      if (!p->name().starts_with("head."))
        throw UsageError("'" + file->path() + "' holds no tensor '" + absent.front() + "', which is " + p->name() + " of the model.");
      missing.push_back(p->name());
      continue;
    }
    const Extents whole = extents_of(p->layout.used());
    const auto parts = static_cast<std::int64_t>(names.size());
    for (const std::string& name : names) {
      const Extents have = extents_of(file->shape(name));
      const Extents want = source.transposed ? Extents{whole.columns / parts, whole.rows} : Extents{whole.rows, whole.columns / parts};
      const bool enough = p->name() == "embedding.position" ? have.rows >= want.rows : have.rows == want.rows;
      if (!enough || have.columns != want.columns)
        throw UsageError(file->path() + ":" + name + " is " + std::to_string(have.rows) + " x " + std::to_string(have.columns) + ", but the model's " + p->name() + " needs " +
                         std::to_string(want.rows) + " x " + std::to_string(want.columns));
    }
    // One parameter's tensors are in memory at a time; those of a deferred matrix are read when its rows are made.
    const RowInitialiser read = [=, source = source](const ParameterLayout& layout, std::int64_t first_row, TensorView to) {
      std::vector<FileTensor> tensors;
      for (const std::string& name : names) tensors.push_back(file->load(name));
      fill(Values(source, std::move(tensors), whole.rows, whole.columns), layout, first_row, to);
    };
    if (p->has_value())
      read(p->layout, 0, p->value.view());
    else
      p->initialise = read;
  }
  return missing;
}

std::string hugging_face_content(const std::string& folder) {
  Sha256 hash;
  for (const char* name : {"/config.json", "/model.safetensors"}) {
    std::ifstream file(folder + name, std::ios::binary);
    std::vector<char> block(1 << 20);
    if (!file) throw EnvironmentError("'" + folder + name + "' cannot be read. Give a folder as transformers' save_pretrained writes it.");
    while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0)
      hash.update(std::string_view(block.data(), static_cast<std::size_t>(file.gcount())));
    hash.update(std::string_view("\n"));
  }
  return hash.hex();
}

template <typename T>
void save_hugging_face(const std::string& folder, const BertConfig& c, Stage<T>& stage) {
  refuse_form(c);
  TW_ASSERT(stage.part().whole());
  std::vector<NamedTensor> tensors;
  for (const Parameter<T>* p : stage.parameters()) {
    TW_ASSERT(p->has_value() && p->layout.local() == p->layout.global(), "a part of a model has no checkpoint of its own: " + p->name());
    const auto [source, encoder] = theirs(p->name(), c);
    const Extents e = extents_of(p->layout.global());
    const std::int64_t part_columns = e.columns / static_cast<std::int64_t>(source.names.size());
    const std::size_t first = tensors.size();
    for (const std::string& name : source.names) {
      std::vector<std::int64_t> extents = {e.rows, part_columns};
      if (source.transposed) std::swap(extents[0], extents[1]);
      if (p->layout.global().rank() == 1) extents = {part_columns};
      tensors.push_back({encoder ? "bert." + name : name, extents, std::vector<float>(static_cast<std::size_t>(e.rows * part_columns))});
    }
    for (std::int64_t row = 0; row < e.rows; ++row)
      for (std::int64_t column = 0; column < e.columns; ++column) {
        const auto [part, k] = place_of_column(source, column);
        const std::int64_t to = source.transposed ? k * e.rows + row : row * part_columns + k;
        tensors[first + part].values[static_cast<std::size_t>(to)] = static_cast<float>(p->w()[row * e.columns + column]);
      }
  }
  write_safetensors(folder + "/model.safetensors", tensors);
  static const std::map<BertTask, const char*> architectures = {{BertTask::masked, "BertForMaskedLM"},
                                                                {BertTask::pretraining, "BertForPreTraining"},
                                                                {BertTask::classification, "BertForSequenceClassification"},
                                                                {BertTask::regression, "BertForSequenceClassification"}};
  json config = {{"architectures", json::array({architectures.at(c.task)})},
                 {"model_type", "bert"},
                 {"hidden_act", "gelu"},
                 {"hidden_size", c.hidden},
                 {"num_hidden_layers", c.layers},
                 {"num_attention_heads", c.heads},
                 {"intermediate_size", 4 * c.hidden},
                 {"vocab_size", c.vocab},
                 {"type_vocab_size", c.types},
                 {"max_position_embeddings", c.max_seq},
                 {"layer_norm_eps", c.epsilon},
                 {"initializer_range", 0.02},
                 {"hidden_dropout_prob", c.dropout},
                 {"attention_probs_dropout_prob", 0.0},
                 {"pad_token_id", 0},
                 {"tie_word_embeddings", true},
                 {"torch_dtype", "float32"}};
  if (c.task == BertTask::classification || c.task == BertTask::regression) {
    config["problem_type"] = c.task == BertTask::regression ? "regression" : "single_label_classification";
    for (std::int64_t k = 0; k < c.outputs(); ++k) config["id2label"][std::to_string(k)] = "LABEL_" + std::to_string(k);
  }
  std::ofstream file(folder + "/config.json");
  file << config.dump(2) << "\n";
  if (!file.flush()) throw EnvironmentError("'" + folder + "/config.json' cannot be written. Check the folder and the space on its disk.");
}

template std::vector<std::string> load_hugging_face<float>(const std::string&, const BertConfig&, Stage<float>&);
template std::vector<std::string> load_hugging_face<double>(const std::string&, const BertConfig&, Stage<double>&);
template void save_hugging_face<float>(const std::string&, const BertConfig&, Stage<float>&);
template void save_hugging_face<double>(const std::string&, const BertConfig&, Stage<double>&);

}  // namespace thinwire
