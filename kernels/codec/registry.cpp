#include "kernels/codec/registry.h"

#include <algorithm>

#include "core/device/placement.h"
#include "core/joined.h"

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

std::map<std::string, CudaMaker>& cuda_makers() {
  static std::map<std::string, CudaMaker> all;
  return all;
}

template <typename Info>
bool add(std::map<std::string, Info>& all, const char* kind, Info info) {
  const std::string name = info.name;
  TW_ASSERT(!name.empty(), std::string(kind) + " without a name");
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
  TW_ASSERT(info.make, "codec '" + info.name + "' without a maker");
  return add(codecs(), "codec", std::move(info));
}
bool register_wrapper(WrapperInfo info) {
  TW_ASSERT(!info.make != !info.decorate, "wrapper '" + info.name + "' has hooks or is a codec around the codec, one of both");
  return add(wrappers(), "wrapper", std::move(info));
}

bool register_cuda(const std::string& name, CudaMaker make) {
  TW_ASSERT(make != nullptr && cuda_makers().emplace(name, std::move(make)).second, "the CUDA implementation of codec '" + name + "' is registered twice");
  return true;
}
bool has_cuda(const std::string& name) {
  return cuda_makers().contains(name);
}

std::vector<const CodecInfo*> all_codecs() {
  return list(codecs());
}
std::vector<const WrapperInfo*> all_wrappers() {
  return list(wrappers());
}

std::vector<std::string> preset_expressions(Form form) {
  std::vector<std::string> expressions;
  const auto add_once = [&](const std::string& text) {
    std::string expression = parse_codec(text).canonical();
    if (std::ranges::find(expressions, expression) == expressions.end()) expressions.push_back(std::move(expression));
  };
  for (const CodecInfo* info : all_codecs()) {
    if (form == Form::released && !info->has_released_form) continue;
    add_once(info->name);
    for (const std::string& preset : info->presets) add_once(info->name + ":" + preset);
  }
  return expressions;
}

const CodecInfo& codec_info(const std::string& name) {
  const auto found = codecs().find(name);
  TW_ASSERT(found != codecs().end(), "an expression that did not come from parse_codec: " + name);
  return found->second;
}
const WrapperInfo& wrapper_info(const std::string& name) {
  const auto found = wrappers().find(name);
  TW_ASSERT(found != wrappers().end(), "an expression that did not come from parse_codec: " + name);
  return found->second;
}

namespace {

/// UsageError for wrappers that do not go together, or not in this order. The codec itself refuses a codec around it where it is made.
void check_wrappers(const CodecExpression& expression) {
  const CodecExpression::Part *hooks = nullptr, *feedback = nullptr;
  for (const auto& part : expression.wrappers) {
    const WrapperInfo& info = wrapper_info(part.name);
    if (info.decorate && hooks != nullptr) {
      CodecExpression mended = expression;
      std::stable_partition(mended.wrappers.begin(), mended.wrappers.end(), [](const auto& p) { return static_cast<bool>(wrapper_info(p.name).decorate); });
      throw UsageError("'" + expression.canonical() + "': " + part.name + " changes what the codec sees, " + hooks->name +
                       " works around that and so stands behind it; write " + mended.canonical());
    }
    if (info.remembers_loss && feedback != nullptr)
      throw UsageError("'" + expression.canonical() + "': " + feedback->name + " and " + part.name + " would both add what earlier messages lost; use one of them");
    if (info.make) hooks = &part;
    if (info.remembers_loss) feedback = &part;
  }
}

/// With the run's seed where there is one and none was given.
Parameters in_run(const CodecExpression::Part& part, const std::vector<ParameterSpec>& specs, std::optional<std::uint64_t> run_seed) {
  Parameters parameters = part.parameters;
  if (!run_seed) return parameters;
  for (const ParameterSpec& spec : specs)
    if (spec.seed_of_run) parameters.set(spec.name, std::to_string(parameters.seed_in_run(spec.name, *run_seed)));
  return parameters;
}

std::unique_ptr<Codec> make_here(const CodecExpression& expression, const Parameters& parameters, const CodecInfo& info, Form form) {
  if (placement().on_host()) return info.make(parameters, form);
  const auto cuda = cuda_makers().find(info.name);
  if (cuda == cuda_makers().end())
    throw UsageError("codec '" + expression.canonical() + "' has no CUDA implementation, so it cannot serve tensors on " + name_of(placement().device) +
                     "; those have one: " + joined_keys(cuda_makers()) + " (docs/adding-a-codec.md)");
  std::unique_ptr<Codec> host;
  {
    const PlacementScope on_the_host{Device{}};
    host = info.make(parameters, form);
  }
  return cuda->second(parameters, form, std::move(host));
}

}  // namespace

bool CodecExpression::is_dense() const {
  if (!wrappers.empty()) return false;
  const PlacementScope on_the_host{Device{}};
  return codec_info(codec.name).make(codec.parameters, Form::fair)->traits().identity;
}

bool compresses(const std::string& text) {
  if (text == uncompressed) return false;
  try {
    return !parse_codec(text).is_dense();
  } catch (const UsageError&) {
    return true;  // whoever makes the codec refuses it, and knows where it was asked for
  }
}

CodecStack make_codec(const CodecExpression& expression, Form form, std::optional<std::uint64_t> run_seed) {
  const CodecInfo& info = codec_info(expression.codec.name);
  if (form == Form::released && !info.has_released_form) {
    std::string with;
    for (const CodecInfo* other : all_codecs())
      if (other->has_released_form) with += (with.empty() ? "" : ", ") + other->name;
    throw UsageError("codec '" + info.name + "' has no released form; use the fair form, or one of: " + with);
  }
  check_wrappers(expression);
  CodecStack stack;
  stack.expression = expression;
  stack.form = form;
  stack.codec = make_here(expression, in_run(expression.codec, info.parameters, run_seed), info, form);
  for (const auto& part : expression.wrappers) {
    const WrapperInfo& wrapper = wrapper_info(part.name);
    const Parameters parameters = in_run(part, wrapper.parameters, run_seed);
    if (wrapper.remembers_loss && !stack.codec->traits().loss_is_own)
      throw UsageError("codec '" + expression.canonical() + "': what a sum loses here is not what its messages lose, so +" + part.name +
                       " would feed back something else; leave it out, or send sign:scale=none+" + part.name + " by protocol two_shot");
    if (wrapper.make) {
      stack.wrappers.push_back(wrapper.make(parameters, stack.codec->traits()));
      continue;
    }
    if (!placement().on_host())
      throw UsageError("codec '" + expression.canonical() + "': wrapper " + part.name + " has no CUDA implementation, so it cannot serve tensors on " + name_of(placement().device));
    stack.codec = wrapper.decorate(parameters, std::move(stack.codec));
  }
  return stack;
}

}  // namespace thinwire
