// Subspace network `subspace` (SSN; Protocol Models, arXiv 2506.01260; docs/papers/low_bandwidth_pipeline.md, "Subspace networks"): what crosses a boundary are
// the coordinates of each row in a fixed subspace, once what both ends know from the row's token is taken off:
//   c = (x - F[t]) U  to the codec inside;    x^ = c^ U^T + F[t];    backward the chain rule of both: dc^ = dx^ U travels, dx = dc U^T; no table
// U [columns, k]: orthonormal, the same at every boundary, the orthonormal factor of a normal matrix by the seed. F: N(0, deviation^2) for each token id, bf16, by
// the same seed (TokenTable); table=none is F = 0. Neither is trained or sent. x^ = x where x - F[t] lies in the span of U. That is the other half of the method,
// and a model's: an embedding E[t] U^T + F[t] and blocks that write into the span (--optimizer adamw+subspace of the same numbers). Of another model's x the part outside the span is
// lost and F's stands in its place; the gradient is that of just this map. Not here either: the update of the subspace in training, whose rule we could not read.
// Theirs sends the token id with each row, two bytes in both directions; our stages read the batch and know it. Their wire is cast:to=bf16+subspace.
// A basis fitted to tensors is a codec of its own, autoencoder:init=pca.    Payload: that of the codec inside for the coordinates [rows, k].
#include <cmath>
#include <map>
#include <utility>

#include "kernels/codec/payload/wire_values.h"
#include "kernels/codec/registry.h"
#include "kernels/codec/transformed_codec.h"
#include "kernels/codec/wrappers/row_subspace.h"
#include "kernels/codec/wrappers/token_table.h"

namespace thinwire {
namespace {

struct SubspaceOptions {
  std::int64_t k = 0;     ///< 0: by fraction
  double fraction = 0.15625;
  bool table = true;
  double deviation = 1;
  std::uint64_t seed = 0;
};

class Subspace final : public Codec, public Transform, public Backward, public State, public Products {
 public:
  Subspace(SubspaceOptions options, std::unique_ptr<Codec> inside) : options_(options), inner_(std::move(inside)) {
    const CodecTraits& inner = inner_->traits();
    if (!inner.gather) throw UsageError("subspace: the codec inside has no payload of its own, so no coordinates can be sent by it");
    if (inner.needs_fit) throw UsageError("subspace: the codec inside is fitted to tensors, and coordinates of their rows are others; use one that needs no fit");
    if (inner_->as<Trainable>() != nullptr) throw UsageError("subspace: the weights of the codec inside would learn from whole rows, and it codes coordinates of them; use one that does not learn");
    if (inner.by_token) throw UsageError("subspace: the codec inside takes something off each token's row as well; use one of them");
    traits_.stateful = inner.stateful;
    traits_.fixed_size = inner.fixed_size;
    traits_.reordered_sums = true;
    traits_.backward = BackwardRule::linear_map;
    traits_.by_sample = inner.by_sample;
    traits_.most_samples = inner.most_samples;
    traits_.by_token = options_.table;
    traits_.positions_first = inner.positions_first;
    traits_.rows_parameter = inner.rows_parameter;
  }

  const CodecTraits& traits() const override { return traits_; }
  std::size_t max_payload_bytes(const Shape& shape) const override { return inner_->max_payload_bytes(transformed_shape(shape)); }
  void check_message(const Shape& shape) const override { inner_->check_message(transformed_shape(shape)); }

  Shape transformed_shape(const Shape& shape) const override { return shape.elements() == 0 ? Shape{0} : Shape{shape.rows(), width_for(shape.columns())}; }

  void transform(ConstTensorView x, const MessageKey& key, TensorView to) override {
    if (x.elements() == 0) return;
    Place& place = place_for(x.shape().columns());
    place.subspace.project(x, known(place, key, x.shape().rows()), to);
    if (place.subspace.in_range(to)) return;
    check_finite(x, text_of(key));
    throw NotRepresentable("subspace: " + text_of(key) + " has coordinates beyond the range of f32");
  }

  void restore(ConstTensorView y, const MessageKey& key, TensorView to) override { expand(y, key, false, to); }

  Shape travel_shape(const Shape& shape) const override { return thinwire::travel_shape(*inner_, transformed_shape(shape)); }

  void decode_backward(ConstTensorView decoded_gradient, const MessageKey& key, TensorView travel) override {
    if (decoded_gradient.elements() == 0) return;
    code_.reshape(transformed_shape(decoded_gradient.shape()));
    place_for(decoded_gradient.shape().columns()).subspace.project(decoded_gradient, {}, code_.view());
    thinwire::decode_backward(*inner_, std::as_const(code_).view(), key, travel);
  }

  void encode_backward(ConstTensorView travel, const MessageKey& key, TensorView input_gradient) override {
    if (input_gradient.elements() == 0) return;
    code_.reshape(transformed_shape(input_gradient.shape()));
    thinwire::encode_backward(*inner_, travel, key, code_.view());
    place_for(input_gradient.shape().columns()).subspace.expand(std::as_const(code_).view(), {}, false, input_gradient);
  }

  void remember_messages(bool on) override {
    if (auto* rule = inner_->as<Backward>()) rule->remember_messages(on);
  }

  void save_state(StateWriter& to) const override {
    if (const auto* state = std::as_const(*inner_).as<State>()) state->save_state(to);
  }
  void load_state(StateReader& from) override {
    if (auto* state = inner_->as<State>()) state->load_state(from);
  }

  std::int64_t product_width(const Shape& shape) const override { return width_for(shape.columns()); }
  std::vector<CodecProduct> encode_products(const Shape& shape) const override {
    using Operand = CodecProduct::Operand;
    return {{false, false, shape.rows(), product_width(shape), shape.columns(), Operand::tensor, Operand::right, Operand::left}};
  }

 private:
  /// What belongs to tensors of one number of columns.
  struct Place {
    RowSubspace subspace;
    TokenTable table;
  };

  std::size_t write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) override {
    code_.reshape(transformed_shape(x.shape()));
    transform(x, key, code_.view());
    return inner_->encode(std::as_const(code_).view(), key, payload);
  }
  void read_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override { receive(payload, key, false, out); }
  void add_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override { receive(payload, key, true, out); }

  void receive(std::span<const std::byte> payload, const MessageKey& key, bool add, TensorView out) {
    code_.reshape(transformed_shape(out.shape()));
    inner_->decode(payload, key, code_.view());
    expand(std::as_const(code_).view(), key, add, out);
  }

  void expand(ConstTensorView y, const MessageKey& key, bool add, TensorView to) {
    if (to.elements() == 0) return;
    Place& place = place_for(to.shape().columns());
    if (!place.subspace.in_range(y)) throw CorruptData("subspace: a coordinate of " + text_of(key) + " is not finite, or too large for one: the payload is damaged");
    place.subspace.expand(y, known(place, key, to.shape().rows()), add, to);
  }

  std::int64_t width_for(std::int64_t columns) const {
    const std::int64_t k = options_.k > 0 ? options_.k : std::max<std::int64_t>(1, std::llround(options_.fraction * static_cast<double>(columns)));
    if (k > columns)
      throw UsageError("subspace: a subspace of " + std::to_string(k) + " dimensions is larger than the space of rows of " + std::to_string(columns) +
                       " columns; use k <= columns, or fraction <= 1");
    return k;
  }

  Place& place_for(std::int64_t columns) {
    const auto found = places_.find(columns);
    if (found != places_.end()) return found->second;
    Place place{RowSubspace::random(columns, width_for(columns), options_.seed), TokenTable(columns, options_.deviation, options_.seed)};
    return places_.emplace(columns, std::move(place)).first->second;
  }

  RowSubspace::Known known(Place& place, const MessageKey& key, std::int64_t rows) {
    if (!options_.table) return {};
    if (static_cast<std::int64_t>(key.tokens.size()) != rows)
      throw UsageError("subspace: " + text_of(key) + " has " + std::to_string(rows) + " rows and names " + std::to_string(key.tokens.size()) +
                       " token ids; its table needs one for each row, as messages between stages name them, or use table=none");
    known_.resize(static_cast<std::size_t>(rows));
    place.table.rows_of(key.tokens, known_);
    return known_;
  }

  SubspaceOptions options_;
  std::unique_ptr<Codec> inner_;
  CodecTraits traits_;
  std::map<std::int64_t, Place> places_;  ///< by number of columns
  std::vector<const BFloat16*> known_;    ///< rows of the table for the current message
  Tensor code_;
};

using Kind = ParameterSpec::Kind;
const std::vector<ParameterSpec>& schema() {
  static const std::vector<ParameterSpec> all = {
      {"k", Kind::integer, "0", 0, 1 << 20, {}, "dimensions of the subspace: columns of U; 0: from fraction"},
      {"fraction", Kind::real, "0.15625", 1e-6, 1, {}, "k as a fraction of the tensor's columns"},
      {"table", Kind::choice, "normal", 0, 0, {"normal", "none"}, "what both ends know of a token: a fixed row of normal numbers (needs the token ids of a message's rows), or nothing"},
      {"deviation", Kind::real, "1", 1e-6, 1e6, {}, "standard deviation of the table's numbers"},
      {"seed", Kind::integer, "0", 0, 2147483647, {}, "of the subspace and the table: both ends' and a model's must be the same; in a training the run's unless given", true}};
  return all;
}

const bool registered = register_wrapper(
    {.name = "subspace",
     .summary = "SSN: the codec sends coordinates [rows, k] in a fixed orthonormal basis, once what both ends know of a row's token is taken off; gradients travel in the same basis",
     .source = "Protocol Models (arXiv 2506.01260, v3 \"Subspace Networks\"); released code: PluralisResearch/ProtocolNanoGPT",
     .wire = "the codec's, of a tensor [rows, k]",
     .parameters = schema(),
     .point_to_point_only = true,
     .decorate = [](const Parameters& p, std::unique_ptr<Codec> inside) -> std::unique_ptr<Codec> {
       SubspaceOptions o;
       o.k = p.integer("k");
       o.fraction = p.real("fraction");
       o.table = p.choice("table") == "normal";
       o.deviation = p.real("deviation");
       o.seed = static_cast<std::uint64_t>(p.integer("seed"));
       if (o.k > 0 && !p.has_default(schema()[1])) throw UsageError("subspace: k=" + std::to_string(o.k) + " contradicts fraction=" + p.values().at("fraction") + "; give one of them");
       if (!o.table && !p.has_default(schema()[3])) throw UsageError("subspace: table=none has no numbers, so deviation=" + p.values().at("deviation") + " says nothing; leave it out");
       return std::make_unique<Subspace>(o, std::move(inside));
     }});

}  // namespace
}  // namespace thinwire
