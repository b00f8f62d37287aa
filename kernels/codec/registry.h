// The list of codecs and wrappers, and the grammar that names them everywhere (CLI, TOML, HDF5):
//   NAME[:key=value,...][+WRAPPER[:key=value,...]]...        e.g. topk:fraction=0.01+ef; each wrapper is around all that stands before it
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kernels/codec/capabilities.h"
#include "kernels/codec/codec.h"
#include "kernels/codec/wrapper.h"

namespace thinwire {

/// One parameter of a codec or wrapper: its type, range and default.
struct ParameterSpec {
  enum class Kind { integer, real, choice, flag };
  std::string name;
  Kind kind = Kind::real;
  std::string default_value = {};  ///< as it would be written in an expression
  double minimum = 0, maximum = 0;  ///< inclusive, for integer and real
  std::vector<std::string> choices = {};
  std::string help = {};
  bool seed_of_run = false;  ///< a seed: in a training it is the run's own (--seed) where no expression gives it, and the default elsewhere
};

/// Checked values of all parameters of a schema (defaults filled in).
class Parameters {
 public:
  std::int64_t integer(const std::string& name) const;
  double real(const std::string& name) const;
  const std::string& choice(const std::string& name) const;
  bool flag(const std::string& name) const;
  void set(const std::string& name, std::string value) { values_[name] = std::move(value); }
  /// As an expression does it, where `set` fills in a default.
  void give(const std::string& name, std::string value) {
    given_.insert(name);
    set(name, std::move(value));
  }
  bool given(const std::string& name) const { return given_.contains(name); }
  /// Parameter `name` in a run with this seed: what was given, else the run's (its lowest 31 bits, which every such parameter has room for).
  std::uint64_t seed_in_run(const std::string& name, std::uint64_t run_seed) const;
  bool has_default(const ParameterSpec& spec) const;
  const std::map<std::string, std::string>& values() const { return values_; }

 private:
  std::map<std::string, std::string> values_;
  std::set<std::string> given_;
};

struct CodecStack;

struct CodecInfo {
  std::string name;
  std::string summary;  ///< one line
  std::string source;   ///< where the maths comes from
  std::string wire = {};  ///< what a payload consists of, in order, one line; its file says it to the byte
  std::vector<ParameterSpec> parameters = {};
  /// Settings worth a look beside the defaults, as they stand behind "NAME:", e.g. "bits=2": what `bench_codec --all` runs.
  std::vector<std::string> presets = {};
  bool has_released_form = false;
  /// The codec on the host.
  std::function<std::unique_ptr<Codec>(const Parameters&, Form)> make;
  /// Compares `decoded` = decode(encode(x)) of the stack's codec with a reference of its own, in float64: says what that was, throws WrongResult
  /// where they disagree (kernels/codec/reference_check.h). None: benches check what holds for every codec.
  std::function<std::string(const CodecStack& stack, ConstTensorView x, std::span<const float> decoded)> check = {};
};
struct WrapperInfo {
  std::string name, summary, source;
  std::string wire = {};  ///< what it makes of the codec's payload, one line
  std::vector<ParameterSpec> parameters = {};
  bool needs_loss = false;          ///< works on what a message lost: no use around a lossless codec
  bool point_to_point_only = false;  ///< made for messages from stage to stage, not for sums over ranks
  bool remembers_loss = false;       ///< adds to a message what earlier ones lost: two of a kind would add it twice, so an expression has one at most
  /// Hooks around the codec (kernels/codec/wrapper.h); the traits are those that the wrapper adapts to (feedback source).
  std::function<std::unique_ptr<Wrapper>(const Parameters&, const CodecTraits&)> make = {};
  /// Or a codec around the codec (kernels/codec/transformed_codec.h). Throws UsageError for a codec around which it makes no sense.
  std::function<std::unique_ptr<Codec>(const Parameters&, std::unique_ptr<Codec>)> decorate = {};
};

/// Called by the last line of a codec's file: `static const bool registered = register_codec({...});`
bool register_codec(CodecInfo info);
bool register_wrapper(WrapperInfo info);
/// The CUDA implementation of codec `name` (kernels/codec/cuda/cuda_codec.h): gets the host's codec of the same parameters, and is made and used where
/// the thread computes.
using CudaMaker = std::function<std::unique_ptr<Codec>(const Parameters&, Form, std::unique_ptr<Codec> host)>;
bool register_cuda(const std::string& name, CudaMaker make);
bool has_cuda(const std::string& name);
/// Sorted by name.
std::vector<const CodecInfo*> all_codecs();
std::vector<const WrapperInfo*> all_wrappers();
/// Of a name that parse_codec has accepted.
const WrapperInfo& wrapper_info(const std::string& name);
const CodecInfo& codec_info(const std::string& name);

/// A parsed, checked expression.
struct CodecExpression {
  struct Part {
    std::string name;
    Parameters parameters;
  };
  Part codec;
  std::vector<Part> wrappers;
  /// Canonical text: parameters that differ from their default, and given ones whose default depends on the run, sorted by name, numbers normalised.
  std::string canonical() const;
  /// Whether tensors travel as they are: a codec that is the identity (CodecTraits::identity), without wrappers.
  bool is_dense() const;
};
/// Throws UsageError: unknown names list what exists and the nearest name; bad values say the range.
CodecExpression parse_codec(const std::string& text);
/// The expression of no compression, which options default to and records of dense messages carry.
inline constexpr const char* uncompressed = "none";
/// Whether an expression is anything but dense; also true of one that cannot be read, which make_codec refuses.
bool compresses(const std::string& text);

/// Every registered codec that has this form, with its defaults and with each of its presets: canonical expressions without repetition, by name.
std::vector<std::string> preset_expressions(Form form = Form::fair);

/// An entry of another registry with the same grammar of parameters, as optimizers have: NAME[:key=value,...].
struct NamedSchema {
  std::string name;
  std::vector<ParameterSpec> parameters;
};
/// UsageError as of parse_codec; `kind` is the word for such an entry.
CodecExpression::Part parse_named(const std::string& text, const std::vector<NamedSchema>& known, const std::string& kind);

/// A codec with its wrappers, ready for one channel.
struct CodecStack {
  CodecExpression expression;
  Form form = Form::fair;
  std::unique_ptr<Codec> codec;  ///< inside those wrappers that are codecs around it
  std::vector<std::unique_ptr<Wrapper>> wrappers;  ///< those with hooks, innermost first

  // The hooks of all wrappers: what is sent passes from the outermost in, what arrives from the innermost out.
  void before_encode(TensorView x, const MessageKey& key);
  void start_from(ConstTensorView held, const MessageKey& key, bool own);
  void after_encode(ConstTensorView x, ConstTensorView own_decoded, const MessageKey& key);
  void after_decode(TensorView decoded, const MessageKey& key);
  void keep_own(TensorView decoded, const MessageKey& key);
  void deliver(TensorView reduced, const MessageKey& key);
  void after_reduce(ConstTensorView local, ConstTensorView own_decoded, ConstTensorView reduced_mean, const MessageKey& key);
  /// As CodecExpression::is_dense, without looking anything up.
  bool is_dense() const { return wrappers.empty() && codec->traits().identity; }
};
/// Where the thread computes: UsageError on a device for which the codec has no implementation. `run_seed`: of a training, for seeds that the expression does not
/// give (ParameterSpec::seed_of_run); the stack's expression stays as it is.
CodecStack make_codec(const CodecExpression& expression, Form form = Form::fair, std::optional<std::uint64_t> run_seed = {});
inline CodecStack make_codec(const std::string& text, Form form = Form::fair, std::optional<std::uint64_t> run_seed = {}) { return make_codec(parse_codec(text), form, run_seed); }

}  // namespace thinwire
