#include "models/data/batch.h"

#include "core/error.h"
#include "core/joined.h"

namespace thinwire {
namespace {

template <typename Value>
const std::vector<Value>& values_of(const Batch& batch, const std::string& name, const char* type) {
  const auto found = batch.fields.find(name);
  if (found == batch.fields.end()) {
    const std::string known = joined_keys(batch.fields);
    throw UsageError("the data have no field `" + name + "`, only " + (known.empty() ? "none" : known) + "; choose a dataset that fits the model (--data)");
  }
  const auto* values = std::get_if<std::vector<Value>>(&found->second.values);
  if (values == nullptr) throw UsageError("field `" + name + "` of the data is not of type " + type);
  return *values;
}

}  // namespace

std::vector<std::int32_t>& Batch::ints(const std::string& name) {
  fields.try_emplace(name);
  return const_cast<std::vector<std::int32_t>&>(values_of<std::int32_t>(*this, name, "int32"));
}

const std::vector<std::int32_t>& Batch::ints(const std::string& name) const { return values_of<std::int32_t>(*this, name, "int32"); }
const std::vector<float>& Batch::floats(const std::string& name) const { return values_of<float>(*this, name, "float"); }

Batch token_slice(const Batch& batch, std::int64_t first, std::int64_t count) {
  if (!batch.lengths.empty() || batch.weight != static_cast<double>(batch.batch * batch.seq))
    throw UsageError("sequences with padding or masked positions cannot be cut along their tokens (--token-slices 1)");
  Batch part(batch.batch, count, batch.first_sample);
  part.sample_ids = batch.sample_ids;
  part.weight = static_cast<double>(batch.batch * count);
  part.global_weight = batch.global_weight;
  part.global_samples = batch.global_samples;
  for (const auto& [name, field] : batch.fields) {
    Field& cut = part.fields[name];
    cut.per_token = field.per_token;
    if (!field.per_token) {
      cut.values = field.values;
      continue;
    }
    std::visit(
        [&](const auto& whole) {
          auto some = whole;
          some.clear();
          for (std::int64_t b = 0; b < batch.batch; ++b) {
            const auto from = whole.begin() + b * batch.seq + first;
            some.insert(some.end(), from, from + count);
          }
          cut.values = std::move(some);
        },
        field.values);
  }
  return part;
}

}  // namespace thinwire
