// PowerSGD: Vogels, Karimireddy, Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression" (NeurIPS 2019), one
// step of subspace iteration. M [n, m], r = min(n, m, rank):
//   P = M Q;  P = sum over ranks;  P = orthonormalise(P);  Q = M^T P;  Q = sum over ranks;  out = P Q^T
// The result is the SUM over ranks (a released all-reduce that divides by their number twice is off by that
// factor; docs/papers/activation_compression.md, "Defects of the released code" 1). As a message of one rank (Optimus-CC,
// docs/papers/optimus_cc.md, "The method, as built here") the same without the sums: P [n, r] then Q [m, r] travel, r (n + m) values.
// Warm start: Q of the last training message is the next start. Residual: local input minus *global* result.
// A stack of s matrices of one shape (MessageKey::stack) has s P and s Q, and still two sums.
#include <algorithm>
#include <limits>
#include <map>

#include "core/random.h"
#include "kernels/codec/reference_check.h"
#include "kernels/codec/state.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/matrix/orthonormalise.h"
#include "kernels/matrix/product.h"

namespace thinwire {
namespace {

struct Options {
  std::int64_t rank = 4;
  bool warm_start = true;
  bool orthogonalise_start = true;  // also the start Q, not only P; of messages of one rank
  bool orthogonalise_summed = true;  // likewise of sums over ranks
  std::int64_t rows = 0;             // M is the tensor seen as so many rows; 0: as it is
  double min_ratio = 0;             // below this ratio of elements the tensor travels dense
  DType wire = DType::f32;
  std::uint64_t seed = 0;
  Form form = Form::fair;
};

class PowerSgd final : public Codec, public Rounds, public State, public Products {
 public:
  explicit PowerSgd(Options options) : options_(options), wire_(options.wire) {
    traits_.stateful = options_.warm_start;
    traits_.encode_goal = traits_.decode_goal = 0.7;
    traits_.rounds = 2;
    traits_.operators = {ReduceOp::sum};
    traits_.feedback = FeedbackSource::reduced;
    traits_.reordered_sums = traits_.stacks = true;
    traits_.positions_first = traits_.zeroes_uncompressed = options_.form == Form::released;
    traits_.rows_parameter = "rows";
  }

  const CodecTraits& traits() const override { return traits_; }
  // The second product needs the whole first one.
  double least_bytes_read(const Shape& shape) const override { return 2 * Codec::least_bytes_read(shape); }

  void check_message(const Shape& shape) const override {
    const std::int64_t elements = shape.elements(), n = options_.rows > 0 ? options_.rows : shape.rows();
    if (elements == 0) return;  // nothing travels
    const std::string of = std::to_string(shape.rows()) + " x " + std::to_string(shape.columns());
    if (elements % n != 0)
      throw UsageError("rows " + std::to_string(n) + " do not divide the " + std::to_string(elements) + " elements of these messages (" + of + ")");
    const std::int64_t most = std::min(n, elements / n);
    if (options_.rank > most)
      throw UsageError("rank " + std::to_string(options_.rank) + " is above " + std::to_string(most) + ", the smaller side of these messages (" +
                       std::to_string(n) + " rows of " + std::to_string(elements / n) + "); nothing would be saved");
  }

  std::int64_t product_width(const Shape& shape) const override { return std::min({shape.rows(), shape.columns(), options_.rank}); }
  std::vector<CodecProduct> encode_products(const Shape& shape) const override {
    using Operand = CodecProduct::Operand;
    const std::int64_t n = shape.rows(), h = shape.columns(), r = product_width(shape);
    return {{false, false, n, r, h, Operand::tensor, Operand::right, Operand::left}, {true, false, h, r, n, Operand::tensor, Operand::left, Operand::right}};
  }

  std::size_t max_payload_bytes(const Shape& of) const override {
    if (of.elements() == 0) return 0;
    const Shape shape = matrix_of(of);
    return wire_.bytes(dense(shape) ? shape.elements() : rank_for(shape) * (shape.rows() + shape.columns()));
  }

  std::size_t write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) override {
    const std::size_t size = max_payload_bytes(x.shape());
    x = x.reshaped(matrix_of(x.shape()));
    TW_ASSERT(payload.size() >= size);
    if (key.stack != 1) throw UsageError("powersgd: " + text_of(key) + " is a stack of matrices, which only rounds of sums carry; use protocol rounds or automatic");
    if (size == 0) return 0;
    if (dense(x.shape())) {
      wire_.write(x.as<float>(), payload.first(size), "powersgd: a value", key, x);
      return size;
    }
    const std::int64_t n = x.shape().rows(), m = x.shape().columns(), r = rank_for(x.shape());
    float* factors = held_->factors.as<float>(static_cast<std::size_t>(r * (n + m)));
    float* p = factors;
    float* q = factors + n * r;
    project(x, start(key, 1, m, r, options_.orthogonalise_start), p, key);
    orthonormalise(p, n, r);
    back_project(x, p, q);
    // Both ends must go on from the same Q, so what is kept is what was sent.
    wire_.write({factors, static_cast<std::size_t>(r * (n + m))}, payload.first(size), "powersgd: a factor", key, x);
    keep(key, m, r, q, 1.0f);
    return size;
  }

  void read_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override { expand(payload, key, out, false); }
  void add_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override { expand(payload, key, out, true); }

  // Round 0: sum of P (or of the dense tensor). Round 1: sum of Q (nothing when dense).
  Round begin_round(int r, ConstTensorView x, const MessageKey& key, int) override {
    TW_ASSERT(r == 0 || r == 1);
    const Stack of = stack_of(x.shape(), key);
    x = x.reshaped({of.count * of.rows, of.columns});
    if (r == 0) {
      held_->round = of;
      if (of.dense) return round(held_->send_p, held_->receive_p, x.as<float>(), "powersgd: a value", key, x);
      float* p = held_->factors.as<float>(of.p() + of.q());
      if (x.elements() > 0) {
        const float* q = start(key, of.count, of.columns, of.rank, options_.orthogonalise_summed);
        for (std::int64_t i = 0; i < of.count; ++i) project(of.part(x, i), q + i * of.columns * of.rank, p + i * of.rows * of.rank, key);
      }
      return round(held_->send_p, held_->receive_p, {p, of.p()}, "powersgd: P", key, x);
    }
    if (of.dense || x.elements() == 0) return round(held_->send_q, held_->receive_q, {}, "powersgd: Q", key, x);
    float* p = held_->factors.as<float>(of.p() + of.q());
    float* q = p + of.p();
    const auto summed = wire_.read({held_->receive_p.data(), wire_.bytes(static_cast<std::int64_t>(of.p()))}, "powersgd: the sum of P", key);
    std::copy(summed.begin(), summed.end(), p);
    for (std::int64_t i = 0; i < of.count; ++i) {
      float* own = p + i * of.rows * of.rank;
      orthonormalise(own, of.rows, of.rank);
      back_project(of.part(x, i), own, q + i * of.columns * of.rank);
    }
    return round(held_->send_q, held_->receive_q, {q, of.q()}, "powersgd: Q", key, x);
  }

  void end_rounds(const MessageKey& key, int world, TensorView sum) override {
    const Stack& of = held_->round;
    TW_ASSERT(sum.shape().elements() == of.count * of.rows * of.columns);
    if (sum.elements() == 0) return;
    float* to = sum.as<float>().data();
    if (of.dense) {
      const auto values = wire_.read({held_->receive_p.data(), wire_.bytes(sum.elements())}, "powersgd: the dense sum", key);
      std::copy(values.begin(), values.end(), to);
      return;
    }
    const float* p = held_->factors.as<float>(of.p() + of.q());
    const auto q = wire_.read({held_->receive_q.data(), wire_.bytes(static_cast<std::int64_t>(of.q()))}, "powersgd: the sum of Q", key);
    for (std::int64_t i = 0; i < of.count; ++i)
      matrix_product(Op::plain, Op::transposed, of.rows, of.columns, of.rank, p + i * of.rows * of.rank, q.data() + i * of.columns * of.rank,
                     to + i * of.rows * of.columns);
    keep(key, of.count * of.columns, of.rank, q.data(), 1.0f / static_cast<float>(world));
  }

  bool keeps_apart() const override { return true; }
  void use_place(int place) override { held_.use(place); }
  /// What travels dense loses the wire's rounding alone. (The authors' reducer keeps residuals of all tensors.)
  FeedbackSource feedback(const Shape& shape, const MessageKey& key) const override {
    return options_.form == Form::fair && shape.elements() > 0 && stack_of(shape, key).dense ? FeedbackSource::own_decoded : traits_.feedback;
  }
  void own_decoded(const MessageKey& key, TensorView out) override {
    TW_ASSERT(held_->round.dense, "a rank's own P and Q decode to nothing: residuals take the reduced tensor");
    const auto values = wire_.read({held_->send_p.data(), wire_.bytes(out.elements())}, "powersgd: a value", key);
    std::copy(values.begin(), values.end(), out.as<float>().data());
  }

  // The start of the last message, for its recomputation, is not saved: a checkpoint lies between steps.
  void save_state(StateWriter& to) const override {
    for (const auto& [key, state] : states_) to.put("start", key, Shape{state.columns, state.rank}, state.next);
  }
  void load_state(StateReader& from) override {
    states_.clear();
    for (const StateEntry* entry : from.take("start", DType::f32)) {
      if (entry->shape.rank() != 2 || entry->shape[1] > options_.rank)
        throw CorruptData("powersgd: a saved start has shape " + entry->shape.to_string() + ", not [columns, at most " +
                          std::to_string(options_.rank) + "]; use another checkpoint, or reset the codec's state");
      State& state = states_[entry->key];
      state.columns = entry->shape[0];
      state.rank = entry->shape[1];
      state.step = never;
      state.next = entry->floats();
    }
  }

 private:
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::min();
  /// `count` matrices [rows, columns] under one another; their P lie side by side, so do their Q.
  struct Stack {
    std::int64_t count = 1, rows = 0, columns = 0, rank = 0;
    bool dense = false;
    std::size_t p() const { return static_cast<std::size_t>(count * rows * rank); }
    std::size_t q() const { return static_cast<std::size_t>(count * columns * rank); }
    ConstTensorView part(ConstTensorView x, std::int64_t i) const { return x.flat_slice(i * rows * columns, rows * columns).reshaped({rows, columns}); }
  };
  struct State {
    std::int64_t columns = 0, rank = 0;  // of all matrices of a stack
    std::int64_t step = 0;
    std::int32_t micro_batch = 0;
    std::vector<float> next;      // start of the next training message
    std::vector<float> previous;  // start of the last one, for its recomputation
  };

  Shape matrix_of(const Shape& s) const {
    if (options_.rows == 0 || s.elements() == 0) return Shape{s.rows(), s.columns()};
    if (s.elements() % options_.rows != 0)
      throw UsageError("powersgd: a tensor " + s.to_string() + " cannot be seen as rows=" + std::to_string(options_.rows) +
                       ", which do not divide its " + std::to_string(s.elements()) + " elements");
    return Shape{options_.rows, s.elements() / options_.rows};
  }
  Stack stack_of(const Shape& of, const MessageKey& key) const {
    if (key.stack == 1) {
      const Shape s = matrix_of(of);
      return {1, s.rows(), s.columns(), rank_for(s), dense(s)};
    }
    if (options_.rows != 0 || of.rows() % key.stack != 0)
      throw UsageError("powersgd: " + text_of(key) + ", a stack of " + std::to_string(key.stack) + " matrices, cannot be " + of.to_string() +
                       (options_.rows != 0 ? " seen as rows=" + std::to_string(options_.rows) : ""));
    const Shape s{of.rows() / key.stack, of.columns()};
    return {key.stack, s.rows(), s.columns(), rank_for(s), dense(s)};
  }
  std::int64_t rank_for(const Shape& s) const { return std::min({s.rows(), s.columns(), options_.rank}); }
  // PyTorch's PowerSGD hook: compress iff (n + m) r min_ratio < n m.
  bool dense(const Shape& s) const {
    if (options_.min_ratio <= 0) return false;
    return static_cast<double>((s.rows() + s.columns()) * rank_for(s)) * options_.min_ratio >= static_cast<double>(s.elements());
  }

  Round round(Buffer& send, Buffer& receive, std::span<const float> values, const char* what, const MessageKey& key, ConstTensorView x) {
    const std::size_t size = wire_.bytes(static_cast<std::int64_t>(values.size()));
    send.reserve(size);
    receive.reserve(size);
    wire_.write(values, {send.data(), size}, what, key, x);
    return {{send.data(), size}, {receive.data(), size}, wire_.type(), ReduceOp::sum};
  }

  void orthonormalise(float* a, std::int64_t rows, std::int64_t columns) {
    if (options_.form == Form::released)
      modified_gram_schmidt(a, rows, columns);
    else
      orthonormaliser_.apply(a, rows, columns);
  }

  // The start Q [count m, r]: the last one of this tensor, or N(0, 1) numbers that are equal on all ranks.
  const float* start(const MessageKey& key, std::int64_t count, std::int64_t columns, std::int64_t r, bool orthogonal) {
    const std::int64_t m = count * columns;
    float* q = held_->start.as<float>(static_cast<std::size_t>(m * r));
    // Without warm start each message draws its own: from one fixed start a residual could never leave in the directions it misses.
    const Random random(options_.seed, mix_stream(hash_name("powersgd.start"), options_.warm_start ? key.state_key() : key.random_stream()));
    const auto draw = [&](std::int64_t i, std::int64_t j) { return static_cast<float>(random.normal(static_cast<std::uint64_t>(j * m + i))); };
    const auto found = options_.warm_start ? states_.find(key.state_key()) : states_.end();
    if (found == states_.end() || found->second.rank != r || found->second.next.empty()) {
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < r; ++j) q[i * r + j] = draw(i, j);
    } else {
      const State& state = found->second;
      if (state.columns != m)
        throw UsageError("powersgd: " + text_of(key) + " has " + std::to_string(m) + " columns, its warm start has " + std::to_string(state.columns) +
                         "; give different tensors different names (message keys)");
      const bool again = key.pass == Pass::recompute && key.step == state.step && key.micro_batch == state.micro_batch;
      const std::vector<float>& last = again ? state.previous : state.next;
      std::copy(last.begin(), last.end(), q);
      // A column dies when the tensor had a lower rank than r; zero stays zero, so the search starts anew there.
      if (options_.form == Form::fair)
        for (std::int64_t first = 0; first < m; first += columns)
          for (std::int64_t j = 0; j < r; ++j) {
            bool dead = true;
            for (std::int64_t i = first; i < first + columns && dead; ++i) dead = q[i * r + j] == 0.0f;
            for (std::int64_t i = first; i < first + columns && dead; ++i) q[i * r + j] = draw(i, j);
          }
    }
    held_->used.assign(q, q + m * r);
    if (orthogonal)
      for (std::int64_t first = 0; first < m; first += columns) orthonormalise(q + first * r, columns, r);
    return q;
  }

  void keep(const MessageKey& key, std::int64_t m, std::int64_t r, const float* q, float factor) {
    if (!options_.warm_start || key.pass != Pass::train) return;
    State& state = states_[key.state_key()];
    state.columns = m;
    state.rank = r;
    state.step = key.step;
    state.micro_batch = key.micro_batch;
    state.previous.swap(held_->used);
    state.next.resize(static_cast<std::size_t>(m * r));
    for (std::size_t i = 0; i < state.next.size(); ++i) state.next[i] = q[i] * factor;
  }

  void project(ConstTensorView x, const float* q, float* p, const MessageKey& key) {
    const std::int64_t n = x.shape().rows(), m = x.shape().columns(), r = rank_for(x.shape());
    matrix_product(Op::plain, Op::plain, n, r, m, x.as<float>().data(), q, p);
    // A NaN or infinity of M reaches P: find it before the orthonormalisation spreads it.
    if (!all_finite({p, static_cast<std::size_t>(n * r)})) {
      check_finite(x, text_of(key));
      throw NotRepresentable("powersgd: M Q of " + text_of(key) + " overflows f32; scale the tensor");
    }
  }

  void back_project(ConstTensorView x, const float* p, float* q) {
    const std::int64_t n = x.shape().rows(), m = x.shape().columns(), r = rank_for(x.shape());
    matrix_product(Op::transposed, Op::plain, m, r, n, x.as<float>().data(), p, q);
  }

  void expand(std::span<const std::byte> payload, const MessageKey& key, TensorView out, bool add) {
    check_payload_size(payload.size(), max_payload_bytes(out.shape()), "powersgd", out.shape(), key);
    if (out.elements() == 0) return;
    out = out.reshaped(matrix_of(out.shape()));
    const auto values = wire_.read(payload, "powersgd: a factor", key);
    const auto to = out.as<float>();
    if (dense(out.shape())) {
      for (std::size_t i = 0; i < values.size(); ++i) to[i] = add ? to[i] + values[i] : values[i];
      return;
    }
    const std::int64_t n = out.shape().rows(), m = out.shape().columns(), r = rank_for(out.shape());
    matrix_product(Op::plain, Op::transposed, n, m, r, values.data(), values.data() + n * r, to.data(), add);
  }

  Options options_;
  CodecTraits traits_;
  WireValues wire_;
  Orthonormaliser orthonormaliser_;
  std::map<std::uint64_t, State> states_;
  struct Held {
    std::vector<float> used;  // start of the message, before orthonormalisation
    Buffer start, factors, send_p, receive_p, send_q, receive_q;
    Stack round;
  };
  Places<Held> held_;
};

using Kind = ParameterSpec::Kind;
const bool registered = register_codec(
    {.name = "powersgd",
     .summary = "rank-r factors P, Q by one warm-started power iteration; two dense sums",
     .source = "Vogels et al., NeurIPS 2019 (arXiv 1905.13727); as a message: Optimus-CC, ASPLOS 2023",
     .wire = "P [rows, rank] and Q [columns, rank] in f32 or f16, over ranks a sum of each; the tensor where that would not be smaller",
     .parameters = {{"rank", Kind::integer, "4", 1, 65536, {}, "columns of P and Q; clipped to min(rows, columns)"},
                    {"warm_start", Kind::flag, "true", 0, 0, {}, "start from the last training message's Q"},
                    {"orthogonalise", Kind::choice, "automatic", 0, 0, {"automatic", "both", "p"},
                     "orthonormalise the start Q and P, or P alone; automatic: both, but p in released sums over ranks"},
                    {"rows", Kind::integer, "0", 0, 2147483647, {}, "see the tensor as a matrix of so many rows; 0: as it is"},
                    {"min_ratio", Kind::real, "0", 0, 1e6, {}, "send dense where rows*columns / (rank*(rows+columns)) is not above this"},
                    {"wire", Kind::choice, "f32", 0, 0, {"f32", "f16"}, "type of P and Q on the wire"},
                    {"seed", Kind::integer, "0", 0, 2147483647, {}, "of the first start; in a training the run's unless given", true}},
     .presets = {"rank=16", "rank=64"},
     .has_released_form = true,
     .make = [](const Parameters& p, Form form) -> std::unique_ptr<Codec> {
       Options o;
       o.rank = p.integer("rank");
       o.warm_start = p.flag("warm_start");
       const std::string& orthogonalise = p.choice("orthogonalise");
       o.orthogonalise_start = orthogonalise != "p";
       // Active in the released reducer at the time of the paper, commented out since (docs/released-forms.md).
       o.orthogonalise_summed = orthogonalise == "both" || (orthogonalise == "automatic" && form == Form::fair);
       o.rows = p.integer("rows");
       o.min_ratio = p.real("min_ratio");
       o.wire = parse_dtype(p.choice("wire"));
       o.seed = static_cast<std::uint64_t>(p.integer("seed"));
       o.form = form;
       return std::make_unique<PowerSgd>(o);
     },
     .check = [](const CodecStack&, ConstTensorView x, std::span<const float> decoded) -> std::string {
       require_projection(x.as<float>(), decoded);
       return "orthogonality of the error";
     }});

}  // namespace
}  // namespace thinwire
