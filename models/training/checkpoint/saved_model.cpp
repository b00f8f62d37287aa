#include "models/training/checkpoint/saved_model.h"

#include "core/error.h"
#include "models/training/checkpoint/checkpoint.h"
#include "models/training/checkpoint/checkpoint_pieces.h"
#include "models/training/config/train_options.h"
#include "results/sealed_file.h"

namespace thinwire {
namespace {

h5::File open_checked(const std::string& path) {
  results::check_seal(path, checkpoint_kind, checkpoint_version, "take another checkpoint");
  return h5::File::open_read(path);
}

}  // namespace

SavedModel saved_model(const std::string& path) {
  const h5::File file = open_checked(path);
  const h5::Group group = file.group("config");
  TrainValues values;
  for (const TrainOption& option : train_options())
    if (option.flag != "from" && group.has_attribute("", option.flag)) values[option.flag] = group.text_attribute("", option.flag);
  return {make_train_config(values), file.int_attribute("", "steps_taken")};
}

template <typename T>
void load_weights(const std::string& path, Stage<T>& model) {
  TW_ASSERT(model.part().whole());
  const h5::File file = open_checked(path);
  for (Parameter<T>* p : model.parameters()) {
    std::string name = "full_precision_weights/" + p->name();
    if (!file.has(name)) name = "weights/" + p->name();
    if (!file.has(name)) throw CorruptData(path + ": it has no " + name + "; take another checkpoint");
    if (!has_shape(file.info(name).extents, p->layout.used()))
      throw CorruptData(path + ": " + name + " has " + std::to_string(file.info(name).elements()) + " elements where this model has " + p->layout.used().to_string() + "; take another checkpoint");
    TW_ASSERT(p->layout.used() == p->shape(), p->name());  // a whole model has no padding
    file.read_into(name, p->value.view());
  }
}

template void load_weights(const std::string&, Stage<float>&);
template void load_weights(const std::string&, Stage<double>&);

}  // namespace thinwire
