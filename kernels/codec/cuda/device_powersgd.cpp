// The PowerSGD of DeviceCodec: options, starts and rounds as kernels/codec/codecs/powersgd.cpp has them, on the device's memory and stream.
#include <algorithm>
#include <utility>

#include "kernels/codec/cuda/device_codec.h"
#include "kernels/codec/cuda/device_kernels.h"
#include "kernels/codec/payload/wire_values.h"

namespace thinwire {

void DeviceCodec::make_powersgd(const Parameters& p, const Shape& shape) {
  const bool released = form_ == Form::released;
  const std::string& orthogonalise = p.choice("orthogonalise");
  orthogonal_start_ = orthogonalise != "p";
  orthogonal_summed_ = orthogonalise == "both" || (orthogonalise == "automatic" && !released);
  half_ = p.choice("wire") == "f16";
  seed_ = static_cast<std::uint64_t>(p.integer("seed"));
  warm_ = p.flag("warm_start");
  if (starts_ == nullptr) starts_ = std::make_shared<DeviceStarts>();
  if (n_ == 0) return;
  const std::int64_t rows_option = p.integer("rows");  // divides the elements, or the host codec has thrown
  if (stack_ != 1 && (rows_option != 0 || shape.rows() % stack_ != 0))
    throw UsageError("'" + text_ + "': a tensor " + shape.to_string() + " cannot be a stack of " + std::to_string(stack_) + " matrices" +
                     (rows_option != 0 ? " seen as rows=" + std::to_string(rows_option) : ""));
  shape_ = rows_option != 0 ? Shape{rows_option, n_ / rows_option} : Shape{shape.rows() / stack_, shape.columns()};
  const std::int64_t rows = shape_.rows(), columns = shape_.columns();
  width_ = std::min({rows, columns, p.integer("rank")});
  const double ratio = p.real("min_ratio");
  dense_ = ratio > 0 && static_cast<double>((rows + columns) * width_) * ratio >= static_cast<double>(shape_.elements());
  if (dense_) return;
  if (width_ > orthonormalise_most_columns)
    throw UsageError("'" + text_ + "' has no CUDA implementation: a device orthonormalises at most " + std::to_string(orthonormalise_most_columns) + " columns");
  workspace_bytes_ = powersgd_workspace_bytes(rows, columns, width_, stack_);
  left_ = static_cast<float*>(seam_.allocate(static_cast<std::size_t>(stack_ * rows * width_) * sizeof(float)));
  right_ = static_cast<float*>(seam_.allocate(static_cast<std::size_t>(stack_ * columns * width_) * sizeof(float)));
}

// The start of a message, in memory that it may overwrite: of a training message the place of the next start, else `right_`.
float* DeviceCodec::start(const MessageKey& key) {
  const std::int64_t columns = stack_ * shape_.columns(), count = columns * width_;
  const std::uint64_t stream = mix_stream(hash_name("powersgd.start"), warm_ ? key.state_key() : key.random_stream());
  const auto draw = [&](float* q, bool fresh) {
    if (!fresh && form_ == Form::released) return;  // a dead column stays dead there
    seam_.call<thinwire_cuda_powersgd_start_fn>("thinwire_cuda_powersgd_start", q, shape_.columns(), width_, stack_, fresh ? 1 : 0, seed_, stream);
  };
  const auto copy = [&](float* to, const float* from) { seam_.call<thinwire_cuda_none_decode_fn>("thinwire_cuda_none_decode", from, count, to, 0); };
  DeviceStarts::Start* known = warm_ ? starts_->find(key, columns, width_) : nullptr;
  if (!warm_ || key.pass != Pass::train) {
    if (known != nullptr) {
      const bool again = key.pass == Pass::recompute && known->has_previous && key.step == known->step && key.micro_batch == known->micro_batch;
      copy(right_, again ? known->previous : known->next);
    }
    draw(right_, known == nullptr);
    return right_;
  }
  DeviceStarts::Start& own = starts_->prepare(key, columns, width_, seam_);
  if (known != nullptr) std::swap(own.next, own.previous);
  draw(own.previous, known == nullptr);
  copy(own.next, own.previous);
  return own.next;
}

void DeviceCodec::keep_start(const MessageKey& key) {
  if (!warm_ || key.pass != Pass::train) return;
  DeviceStarts::Start& own = starts_->prepare(key, stack_ * shape_.columns(), width_, seam_);
  own.columns = stack_ * shape_.columns();
  own.rank = width_;
  own.step = key.step;
  own.micro_batch = key.micro_batch;
  own.has_previous = true;
}

void DeviceCodec::encode_powersgd(const float* x, const MessageKey& key, void* payload, std::uint32_t* status) {
  if (stack_ != 1) throw UsageError("powersgd: " + text_of(key) + " is a stack of matrices, which only rounds of sums carry; use protocol rounds or automatic");
  if (n_ == 0) return;
  if (dense_) {
    seam_.call<thinwire_cuda_wire_pack_fn>("thinwire_cuda_wire_pack", x, n_, half_, payload, status);
    return;
  }
  const std::int64_t rows = shape_.rows(), columns = shape_.columns();
  const int released = form_ == Form::released;
  auto* wire_q = static_cast<std::byte*>(payload) + rows * width_ * value_bytes();
  float* q = start(key);
  seam_.call<thinwire_cuda_powersgd_project_fn>("thinwire_cuda_powersgd_project", x, rows, columns, width_, stack_, q, orthogonal_start_ ? 1 : 0, released, half_,
                                                left_, static_cast<void*>(nullptr), workspace(), status);
  seam_.call<thinwire_cuda_powersgd_back_project_fn>("thinwire_cuda_powersgd_back_project", x, rows, columns, width_, stack_, static_cast<const void*>(nullptr),
                                                     released, half_, left_, q, payload, static_cast<void*>(wire_q), workspace(), status);
  keep_start(key);
}

void DeviceCodec::decode_powersgd(const void* payload, float* out, int add, std::uint32_t* status) {
  if (n_ == 0) return;
  if (dense_) {
    seam_.call<thinwire_cuda_wire_unpack_fn>("thinwire_cuda_wire_unpack", payload, n_, half_, 1.0f, out, add, status);
    return;
  }
  const void* wire_q = static_cast<const std::byte*>(payload) + shape_.rows() * width_ * value_bytes();
  seam_.call<thinwire_cuda_powersgd_expand_fn>("thinwire_cuda_powersgd_expand", static_cast<const float*>(nullptr), payload, wire_q, shape_.rows(),
                                               shape_.columns(), width_, std::int64_t{1}, half_, out, add, workspace(), status);
}

std::size_t DeviceCodec::round_bytes(int round) const {
  TW_ASSERT(kind_ == Kind::powersgd && (round == 0 || round == 1));
  const std::int64_t values = dense_ ? (round == 0 ? n_ : 0) : stack_ * width_ * (round == 0 ? shape_.rows() : shape_.columns());
  return n_ == 0 ? 0 : static_cast<std::size_t>(values * value_bytes());
}

void DeviceCodec::begin_round(int round, const float* x, const MessageKey& key, const void* received, void* send, std::uint32_t* status) {
  if (round_bytes(round) == 0) return;
  const std::int64_t rows = shape_.rows(), columns = shape_.columns();
  const int released = form_ == Form::released;
  if (dense_) {
    seam_.call<thinwire_cuda_wire_pack_fn>("thinwire_cuda_wire_pack", x, n_, half_, send, status);
  } else if (round == 0) {
    round_start_ = start(key);
    seam_.call<thinwire_cuda_powersgd_project_fn>("thinwire_cuda_powersgd_project", x, rows, columns, width_, stack_, round_start_, orthogonal_summed_ ? 1 : 0,
                                                  released, half_, left_, send, workspace(), status);
  } else {
    seam_.call<thinwire_cuda_powersgd_back_project_fn>("thinwire_cuda_powersgd_back_project", x, rows, columns, width_, stack_, received, released, half_, left_,
                                                       round_start_, static_cast<void*>(nullptr), send, workspace(), status);
  }
}

void DeviceCodec::end_rounds(const void* received_p, const void* received_q, const MessageKey& key, int world, float* sum, std::uint32_t* status) {
  TW_ASSERT(kind_ == Kind::powersgd);
  if (n_ == 0) return;
  if (dense_) {
    seam_.call<thinwire_cuda_wire_unpack_fn>("thinwire_cuda_wire_unpack", received_p, n_, half_, 1.0f, sum, 0, status);
    return;
  }
  const std::int64_t rows = shape_.rows(), columns = shape_.columns();
  seam_.call<thinwire_cuda_powersgd_expand_fn>("thinwire_cuda_powersgd_expand", left_, static_cast<const void*>(nullptr), received_q, rows, columns, width_,
                                               stack_, half_, sum, 0, workspace(), status);
  if (warm_ && key.pass == Pass::train)
    seam_.call<thinwire_cuda_wire_unpack_fn>("thinwire_cuda_wire_unpack", received_q, stack_ * columns * width_, half_, 1.0f / static_cast<float>(world),
                                             round_start_, 0, status);
  keep_start(key);
}

}  // namespace thinwire
