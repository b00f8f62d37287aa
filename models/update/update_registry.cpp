#include <cctype>
#include <map>

#include "models/update/update_policy.h"

namespace thinwire {
namespace {

// Function-local so that it exists before the first registration, whatever the order of static objects.
std::map<std::string, UpdateInfo>& updates() {
  static std::map<std::string, UpdateInfo> all;
  return all;
}

}  // namespace

bool register_update(UpdateInfo info) {
  TW_ASSERT(!info.name.empty() && info.make_f32 && info.make_f64 && info.classes, "an update policy without a name, a maker or its classes");
  const std::string name = info.name;
  TW_ASSERT(updates().emplace(name, std::move(info)).second, "update policy '" + name + "' is registered twice");
  return true;
}

std::vector<const UpdateInfo*> all_updates() {
  std::vector<const UpdateInfo*> list;
  for (const auto& [name, info] : updates()) list.push_back(&info);
  return list;
}

namespace {

CodecExpression::Part parse_one(const std::string& text, bool drives_another) {
  std::vector<NamedSchema> known;
  for (const auto& [name, info] : updates())
    if (info.drives_another == drives_another) known.push_back({name, info.parameters});
  return parse_named(text, known, drives_another ? "outer loop" : "optimizer");
}

/// Where the outer loop's part begins; npos: there is none. A '+' before a digit belongs to a number (1e+5).
std::size_t outer_part(const std::string& text) {
  std::size_t at = text.find('+');
  while (at != std::string::npos && at + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[at + 1]))) at = text.find('+', at + 1);
  return at;
}

}  // namespace

UpdateExpression parse_update(const std::string& text) {
  const std::size_t plus = outer_part(text);
  const std::string first = text.substr(0, plus);
  if (const auto found = updates().find(first.substr(0, first.find(':'))); found != updates().end() && found->second.drives_another)
    throw UsageError("--optimizer " + text + ": " + found->first + " is a loop around an optimizer; name that first: adamw+" + text);
  CodecExpression::Part part = parse_one(first, false);
  UpdateExpression update{&updates().at(part.name), std::move(part.parameters)};
  if (plus == std::string::npos) return update;
  part = parse_one(text.substr(plus + 1), true);
  if (!update.info->within_replica && !updates().at(part.name).keeps_together)
    throw UsageError("--optimizer " + text + ": " + update.info->name + " exchanges with all data-parallel ranks by itself, so replicas cannot train apart with it");
  return {&updates().at(part.name), std::move(part.parameters), std::make_shared<const UpdateExpression>(std::move(update))};
}

std::string UpdateExpression::name() const { return inner ? inner->name() + "+" + info->name : info->name; }

std::set<std::string> UpdateExpression::factors() const {
  std::set<std::string> all = info->factors;
  if (inner) all.merge(inner->factors());
  return all;
}

bool UpdateExpression::reduces_every_micro_batch() const { return info->reduces_every_micro_batch || (inner && inner->reduces_every_micro_batch()); }

double UpdateExpression::state_per_element() const {
  const double own = info->state_per_element + (info->more_per_element ? info->more_per_element(options) : 0);
  return own + (inner ? inner->state_per_element() : 0);
}

double UpdateExpression::state_per_layer_element() const {
  const double others = state_per_element() - (inner ? inner->state_per_element() : 0);
  return (info->state_per_layer_element ? info->state_per_layer_element(options) : others) + (inner ? inner->state_per_layer_element() : 0);
}

std::set<TrafficClass> UpdateExpression::classes(const TrainConfig& config) const {
  std::set<TrafficClass> all = info->classes(config);
  if (inner) all.merge(inner->classes(config));
  return all;
}

std::vector<ChannelSpec> UpdateExpression::channels(const TrainConfig& config, ProcessMesh& mesh) const {
  std::vector<ChannelSpec> all = inner ? inner->channels(config, mesh) : std::vector<ChannelSpec>();
  if (!info->channels) return all;
  for (ChannelSpec& spec : info->channels(config, mesh)) all.push_back(std::move(spec));
  return all;
}

void UpdateExpression::check(const TrainConfig& config) const {
  if (inner) inner->check(config);
  if (info->check) info->check(config);
}

}  // namespace thinwire
