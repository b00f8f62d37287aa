// PowerSGD on a device: options, starts and rounds as powersgd.cpp has them, on the device's memory and stream. Products sum in another order.
#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "kernels/codec/codecs/low_rank/powersgd_entries.h"
#include "kernels/codec/cuda/cuda_codec.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/codec/payload/wire_values_entries.h"
#include "kernels/codec/state.h"

namespace thinwire {
namespace {

class CudaPowerSgd final : public CudaCodec, public Rounds, public State {
 public:
  CudaPowerSgd(std::unique_ptr<Codec> host, const Parameters& p, Form form)
      : CudaCodec("powersgd", std::move(host)),
        released_(form == Form::released),
        orthogonal_start_(p.choice("orthogonalise") != "p"),
        orthogonal_summed_(p.choice("orthogonalise") == "both" || (p.choice("orthogonalise") == "automatic" && !released_)),
        warm_(p.flag("warm_start")),
        half_(p.choice("wire") == "f16" ? 1 : 0),
        rank_(p.integer("rank")),
        rows_(p.integer("rows")),
        min_ratio_(p.real("min_ratio")),
        seed_(static_cast<std::uint64_t>(p.integer("seed"))) {}

  // Round 0: sum of P (or of the dense tensor). Round 1: sum of Q (nothing when dense).
  Round begin_round(int r, ConstTensorView x, const MessageKey& key, int) override {
    TW_ASSERT(r == 0 || r == 1);
    const Matrices of = matrices_of(x.shape(), key);
    const std::size_t bytes = wire_bytes(of.dense ? (r == 0 ? x.elements() : 0) : r == 0 ? of.p() : of.q());
    Buffer &send = wires_[static_cast<std::size_t>(2 * r)], &receive = wires_[static_cast<std::size_t>(2 * r + 1)];
    send.reserve(bytes);
    receive.reserve(bytes);
    const Round round{{send.data(), bytes}, {receive.data(), bytes}, half_ != 0 ? DType::f16 : DType::f32, ReduceOp::sum};
    if (bytes == 0) return round;
    if (of.dense) {
      pack(floats(x), x.elements(), send.data());
    } else if (r == 0) {
      round_start_ = start(of, key);
      project(floats(x), of, round_start_, orthogonal_summed_, send.data());
    } else {
      back_project(floats(x), of, wires_[1].data(), round_start_, nullptr, send.data());
    }
    return round;
  }

  void end_rounds(const MessageKey& key, int world, TensorView sum) override {
    if (sum.elements() == 0) return;
    const Matrices of = matrices_of(sum.shape(), key);
    if (of.dense) return unpack(wires_[1].data(), sum.elements(), 1.0f, floats(sum), false);
    expand(p_.as<float>(static_cast<std::size_t>(of.p())), nullptr, wires_[3].data(), of, floats(sum), false);
    if (trains(key)) unpack(wires_[3].data(), of.q(), 1.0f / static_cast<float>(world), round_start_, false);
    keep_start(of, key);
  }

  FeedbackSource feedback(const Shape& shape, const MessageKey& key) const override {
    return !released_ && matrices_of(shape, key).dense ? FeedbackSource::own_decoded : traits().feedback;
  }
  void own_decoded(const MessageKey& key, TensorView out) override {
    if (out.elements() == 0) return;
    TW_ASSERT(matrices_of(out.shape(), key).dense, "a rank's own P and Q decode to nothing: residuals take the reduced tensor");
    unpack(wires_[0].data(), out.elements(), 1.0f, floats(out), false);
  }

  // As the host's, so that checkpoints of host and device can be exchanged.
  void save_state(StateWriter& to) const override {
    std::vector<float> values;
    for (const auto& [key, start] : starts_) {
      if (start.rank == 0) continue;
      values.resize(static_cast<std::size_t>(start.columns * start.rank));
      copy_and_wait(values.data(), start.next.data(), values.size() * sizeof(float));
      to.put("start", key, Shape{start.columns, start.rank}, values);
    }
  }
  void load_state(StateReader& from) override {
    for (auto& [key, start] : starts_) start.rank = 0;
    for (const StateEntry* entry : from.take("start", DType::f32)) {
      if (entry->shape.rank() != 2 || entry->shape[1] > rank_)
        throw CorruptData("powersgd: a saved start has shape " + entry->shape.to_string() + ", not [columns, at most " + std::to_string(rank_) +
                          "]; use another checkpoint, or reset the codec's state");
      Start& start = starts_[entry->key];
      const std::vector<float> values = entry->floats();
      start.reserve(values.size());
      copy_and_wait(start.next.data(), values.data(), values.size() * sizeof(float));
      start.columns = entry->shape[0];
      start.rank = entry->shape[1];
      start.has_previous = false;
    }
  }

 private:
  /// A tensor as `count` matrices [rows, columns] under one another.
  struct Matrices {
    std::int64_t count = 1, rows = 0, columns = 0, rank = 0;
    bool dense = false;
    std::int64_t p() const { return count * rows * rank; }
    std::int64_t q() const { return count * columns * rank; }
  };
  /// The start of a tensor's next training message, and that of the last one for its recomputation.
  struct Start {
    std::int64_t columns = 0, rank = 0;  ///< columns of all matrices of a stack; rank 0: no message yet
    std::int64_t step = 0;
    std::int32_t micro_batch = 0;
    bool has_previous = false;
    Buffer next, previous;
    void reserve(std::size_t count) {
      next.reserve(count * sizeof(float));
      previous.reserve(count * sizeof(float));
    }
  };

  bool trains(const MessageKey& key) const { return warm_ && key.pass == Pass::train; }
  std::size_t wire_bytes(std::int64_t values) const { return static_cast<std::size_t>(values) * (half_ != 0 ? 2 : 4); }

  Matrices matrices_of(const Shape& shape, const MessageKey& key) const {
    if (shape.elements() == 0) return {};
    if (key.stack != 1 && (rows_ != 0 || shape.rows() % key.stack != 0))
      throw UsageError("powersgd: " + text_of(key) + ", a stack of " + std::to_string(key.stack) + " matrices, cannot be " + shape.to_string() +
                       (rows_ != 0 ? " seen as rows=" + std::to_string(rows_) : ""));
    Matrices of;
    of.count = key.stack;
    of.rows = rows_ != 0 ? rows_ : shape.rows() / key.stack;  // divides the elements, or the host codec has thrown
    of.columns = rows_ != 0 ? shape.elements() / rows_ : shape.columns();
    of.rank = std::min({of.rows, of.columns, rank_});
    of.dense = min_ratio_ > 0 && static_cast<double>((of.rows + of.columns) * of.rank) * min_ratio_ >= static_cast<double>(of.rows * of.columns);
    if (!of.dense && of.rank > orthonormalise_most_columns)
      throw UsageError("powersgd: rank " + std::to_string(of.rank) + " on a device, which orthonormalises at most " + std::to_string(orthonormalise_most_columns) +
                       " columns");
    return of;
  }

  void queue_encode(const float* x, const Shape& shape, const MessageKey& key, std::span<std::byte> payload) override {
    if (key.stack != 1)
      throw UsageError("powersgd: " + text_of(key) + " is a stack of matrices, which only rounds of sums carry; use protocol rounds or automatic");
    const Matrices of = matrices_of(shape, key);
    if (of.dense) return pack(x, shape.elements(), payload.data());
    float* q = start(of, key);
    project(x, of, q, orthogonal_start_, nullptr);
    back_project(x, of, nullptr, q, payload.data(), payload.data() + wire_bytes(of.p()));
    keep_start(of, key);
  }
  // A payload is one matrix's, whatever the key says.
  void queue_decode(std::span<const std::byte> payload, const Shape& shape, const MessageKey&, float* out, bool add) override {
    const Matrices of = matrices_of(shape, {});
    if (of.dense) return unpack(payload.data(), shape.elements(), 1.0f, out, add);
    expand(nullptr, payload.data(), payload.data() + wire_bytes(of.p()), of, out, add);
  }

  // The start of a message, in memory that it may overwrite: of a training message the place of the next start, else scratch.
  float* start(const Matrices& of, const MessageKey& key) {
    const std::int64_t columns = of.count * of.columns;
    const auto size = static_cast<std::size_t>(of.q());
    const std::uint64_t stream = mix_stream(hash_name("powersgd.start"), warm_ ? key.state_key() : key.random_stream());
    const auto draw = [&](float* q, bool fresh) {
      if (!fresh && released_) return;  // a dead column stays dead there
      static const DeviceEntry<thinwire_cuda_powersgd_start_fn> entry("thinwire_cuda_powersgd_start");
      entry(q, of.columns, of.rank, of.count, fresh ? 1 : 0, seed_, stream);
    };
    Start* known = warm_ ? find(key, columns, of.rank) : nullptr;
    if (!trains(key)) {
      float* scratch = q_.as<float>(size);
      if (known != nullptr) {
        const bool again = key.pass == Pass::recompute && known->has_previous && key.step == known->step && key.micro_batch == known->micro_batch;
        copy_elements(scratch, (again ? known->previous : known->next).as<float>(size), size);
      }
      draw(scratch, known == nullptr);
      return scratch;
    }
    Start& own = starts_[key.state_key()];
    own.reserve(size);
    if (known != nullptr) std::swap(own.next, own.previous);
    float *next = own.next.as<float>(size), *previous = own.previous.as<float>(size);
    draw(previous, known == nullptr);
    copy_elements(next, previous, size);
    return next;
  }
  /// Null where no training message of this tensor and rank has gone through. UsageError when it had another number of columns.
  Start* find(const MessageKey& key, std::int64_t columns, std::int64_t rank) {
    const auto found = starts_.find(key.state_key());
    if (found == starts_.end() || found->second.rank != rank || rank == 0) return nullptr;
    if (found->second.columns != columns)
      throw UsageError("powersgd: " + text_of(key) + " has " + std::to_string(columns) + " columns, its warm start has " +
                       std::to_string(found->second.columns) + "; give different tensors different names (message keys)");
    return &found->second;
  }
  void keep_start(const Matrices& of, const MessageKey& key) {
    if (!trains(key)) return;
    Start& own = starts_[key.state_key()];
    own.columns = of.count * of.columns;
    own.rank = of.rank;
    own.step = key.step;
    own.micro_batch = key.micro_batch;
    own.has_previous = true;
  }

  void* workspace(const Matrices& of) const { return device_workspace(powersgd_workspace_bytes(of.rows, of.columns, of.rank, of.count)); }
  void project(const float* x, const Matrices& of, float* q, bool orthonormalise, void* send) {
    static const DeviceEntry<thinwire_cuda_powersgd_project_fn> entry("thinwire_cuda_powersgd_project");
    entry(x, of.rows, of.columns, of.rank, of.count, q, orthonormalise ? 1 : 0, released_ ? 1 : 0, half_, p_.as<float>(static_cast<std::size_t>(of.p())), send,
          workspace(of), tensor_status());
  }
  void back_project(const float* x, const Matrices& of, const void* received_p, float* q, void* send_p, void* send_q) {
    static const DeviceEntry<thinwire_cuda_powersgd_back_project_fn> entry("thinwire_cuda_powersgd_back_project");
    entry(x, of.rows, of.columns, of.rank, of.count, received_p, released_ ? 1 : 0, half_, p_.as<float>(static_cast<std::size_t>(of.p())), q, send_p, send_q,
          workspace(of), tensor_status());
  }
  void expand(const float* p, const void* wire_p, const void* wire_q, const Matrices& of, float* out, bool add) {
    static const DeviceEntry<thinwire_cuda_powersgd_expand_fn> entry("thinwire_cuda_powersgd_expand");
    entry(p, wire_p, wire_q, of.rows, of.columns, of.rank, of.count, half_, out, add ? 1 : 0, workspace(of), payload_status());
  }
  void pack(const float* values, std::int64_t count, void* wire) {
    static const DeviceEntry<thinwire_cuda_wire_pack_fn> entry("thinwire_cuda_wire_pack");
    entry(values, count, half_, wire, tensor_status());
  }
  void unpack(const void* wire, std::int64_t count, float factor, float* values, bool add) {
    static const DeviceEntry<thinwire_cuda_wire_unpack_fn> entry("thinwire_cuda_wire_unpack");
    entry(wire, count, half_, factor, values, add ? 1 : 0, payload_status());
  }

  bool released_, orthogonal_start_, orthogonal_summed_, warm_;
  int half_;
  std::int64_t rank_, rows_;
  double min_ratio_;
  std::uint64_t seed_;
  std::map<std::uint64_t, Start> starts_;  // by MessageKey::state_key
  Buffer p_, q_;                           // P, and Q of messages that leave no trace
  float* round_start_ = nullptr;           // Q of the rounds under way
  std::array<Buffer, 4> wires_;            // sent and received, by round
};

const bool cuda = register_cuda("powersgd", [](const Parameters& p, Form form, std::unique_ptr<Codec> host) {
  return std::make_unique<CudaPowerSgd>(std::move(host), p, form);
});

}  // namespace
}  // namespace thinwire
