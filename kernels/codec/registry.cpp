#include "kernels/codec/registry.h"

#include <algorithm>

#include "kernels/codec/cuda/placed_codec.h"

namespace thinwire {
namespace {

// Function-local so that they exist before the first registration, whatever the order of static objects.
std::map<std::string, CodecInfo>& codecs() {
  static std::map<std::string, CodecInfo> all;
  return all;
}
std::map<std::string, WrapperInfo>& wrappers() {
  static std::map<std::string, WrapperInfo> all;
  return all;
}

template <typename Info>
bool add(std::map<std::string, Info>& all, const char* kind, Info info) {
  const std::string name = info.name;
  TW_ASSERT(!name.empty() && info.make, std::string(kind) + " without a name or a maker");
  TW_ASSERT(all.emplace(name, std::move(info)).second,
            std::string(kind) + " '" + name + "' is registered twice");
  return true;
}

template <typename Info>
std::vector<const Info*> list(const std::map<std::string, Info>& all) {
  std::vector<const Info*> infos;
  for (const auto& [name, info] : all) infos.push_back(&info);
  return infos;
}

}  // namespace

bool register_codec(CodecInfo info) {
  return add(codecs(), "codec", std::move(info));
}
bool register_wrapper(WrapperInfo info) {
  return add(wrappers(), "wrapper", std::move(info));
}

std::vector<const CodecInfo*> all_codecs() {
  return list(codecs());
}
std::vector<const WrapperInfo*> all_wrappers() {
  return list(wrappers());
}

CodecStack make_codec(const CodecExpression& expression, Form form) {
  const auto found = codecs().find(expression.codec.name);
  TW_ASSERT(found != codecs().end(),
            "an expression that did not come from parse_codec: " + expression.codec.name);
  const CodecInfo& info = found->second;
  if (form == Form::released && !info.has_released_form) {
    std::string with;
    for (const CodecInfo* other : all_codecs())
      if (other->has_released_form) with += (with.empty() ? "" : ", ") + other->name;
    throw UsageError("codec '" + info.name + "' has no released form; use the fair form, or one of: " + with);
  }
  CodecStack stack;
  stack.expression = expression;
  stack.form = form;
  stack.codec = placement().on_host() || info.name == "none" ? info.make(expression.codec.parameters, form) : make_placed_codec(expression, form);
  for (const auto& part : expression.wrappers) {
    const auto wrapper = wrappers().find(part.name);
    TW_ASSERT(wrapper != wrappers().end(), "an expression that did not come from parse_codec: " + part.name);
    stack.wrappers.push_back(wrapper->second.make(part.parameters, stack.codec->traits()));
  }
  return stack;
}

}  // namespace thinwire
