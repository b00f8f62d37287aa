#include "models/bert/bert_config.h"

#include <map>

#include "kernels/codec/registry.h"

namespace thinwire {
namespace {

using Kind = ParameterSpec::Kind;

const NamedSchema schema{"bert",
                         {{.name = "task", .kind = Kind::choice, .default_value = "masked", .choices = {"masked", "pretraining", "classification", "regression"}},
                          {.name = "norm", .kind = Kind::choice, .default_value = "post", .choices = {"post", "pre"}},
                          {.name = "gelu", .kind = Kind::choice, .default_value = "erf", .choices = {"erf", "tanh"}},
                          {.name = "types", .kind = Kind::integer, .default_value = "2", .minimum = 0, .maximum = 1024},
                          {.name = "classes", .kind = Kind::integer, .default_value = "2", .minimum = 2, .maximum = 65536},
                          {.name = "epsilon", .kind = Kind::real, .default_value = "1e-12", .minimum = 1e-15, .maximum = 1e-2}}};

}  // namespace

BertConfig bert_config(const ModelConfig& sizes, const std::string& options) {
  const Parameters given = parse_named(options.empty() ? "bert" : "bert:" + options, {schema}, "model").parameters;
  static const std::map<std::string, BertTask> tasks = {{"masked", BertTask::masked},
                                                        {"pretraining", BertTask::pretraining},
                                                        {"classification", BertTask::classification},
                                                        {"regression", BertTask::regression}};
  BertConfig c{sizes};
  c.task = tasks.at(given.choice("task"));
  c.post_norm = given.choice("norm") == "post";
  c.exact_gelu = given.choice("gelu") == "erf";
  c.types = given.integer("types");
  c.classes = given.integer("classes");
  c.epsilon = given.real("epsilon");
  c.check();
  return c;
}

BlockConfig BertConfig::block() const {
  BlockConfig b{hidden, heads, layers, dropout, seed, compute};
  b.post_norm = post_norm;
  b.both_directions = true;
  b.exact_gelu = exact_gelu;
  b.epsilon = epsilon;
  return b;
}

}  // namespace thinwire
