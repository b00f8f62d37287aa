#include "kernels/codec/device_codec.h"

#include <algorithm>
#include <map>

#include "kernels/codec/autoencoder.h"
#include "kernels/codec/device_kernels.h"

namespace thinwire {

DeviceCodec::DeviceCodec(const std::string& text, const Shape& shape, DeviceSeam seam)
    : shape_{shape.rows(), shape.columns()}, seam_(std::move(seam)), n_(shape.elements()) {
  const CodecExpression expression = parse_codec(text);
  const Parameters& p = expression.codec.parameters;
  static const std::map<std::string, Kind> kinds = {{"none", Kind::none},       {"cast", Kind::cast},         {"quantize", Kind::quantize},
                                                    {"topk", Kind::topk},       {"randomk", Kind::randomk},   {"powersgd", Kind::powersgd},
                                                    {"autoencoder", Kind::autoencoder}};
  const auto found = kinds.find(expression.codec.name);
  if (found == kinds.end() || !expression.wrappers.empty())
    throw UsageError("'" + text + "' has no device twin; those have one, without wrappers: none, cast, quantize, topk, randomk, powersgd, autoencoder");
  kind_ = found->second;
  const CodecStack host = make_codec(expression);
  payload_bytes_ = host.codec->max_payload_bytes(shape);
  const std::int64_t rows = shape_.rows(), columns = shape_.columns();
  switch (kind_) {
    case Kind::none: break;
    case Kind::cast: bfloat16_ = p.choice("to") == "bf16"; break;
    case Kind::quantize:
      bits_ = static_cast<int>(p.integer("bits"));
      if (p.choice("norm") != "max" || p.choice("packing") == "neighbour" || (bits_ != 2 && bits_ != 4 && bits_ != 8))
        throw UsageError("'" + text + "' has no device twin: on devices quantize has norm=max, chunk packing and 2, 4 or 8 bits");
      workspace_ = seam_.allocate(quantize_workspace_bytes(columns));
      break;
    case Kind::topk:
      kept_ = host.codec->travel_shape(shape).elements();
      half_ = p.choice("values") == "f16";
      index_form_ = p.choice("index") == "int64" ? index_form_int64 : p.choice("index") == "int32" ? index_form_int32 : index_form_compact;
      workspace_ = seam_.allocate(std::max(topk_workspace_bytes(n_, kept_), sparse_workspace_bytes(n_, kept_)));
      break;
    case Kind::randomk:
      kept_ = host.codec->travel_shape(shape).elements();
      half_ = p.choice("values") == "f16";
      seed_ = static_cast<std::uint64_t>(p.integer("seed"));
      if (p.flag("unbiased") && kept_ > 0) factor_ = static_cast<float>(static_cast<double>(n_) / static_cast<double>(kept_));
      break;
    case Kind::powersgd:
      if (p.integer("rows") != 0 || p.real("min_ratio") != 0 || p.choice("orthogonalise") == "p")
        throw UsageError("'" + text + "' has no device twin: on devices powersgd has rank, warm_start, wire and seed");
      width_ = std::min({rows, columns, p.integer("rank")});
      if (width_ > 256) throw UsageError("'" + text + "' has no device twin: a device orthonormalises at most 256 columns");
      half_ = p.choice("wire") == "f16";
      seed_ = static_cast<std::uint64_t>(p.integer("seed"));
      warm_ = p.flag("warm_start");
      workspace_ = seam_.allocate(powersgd_workspace_bytes(rows, columns, width_));
      left_ = static_cast<float*>(seam_.allocate(static_cast<std::size_t>(rows * width_) * sizeof(float)));
      right_ = static_cast<float*>(seam_.allocate(static_cast<std::size_t>(columns * width_) * sizeof(float)));
      break;
    case Kind::autoencoder: make_autoencoder(p); break;
  }
}

// Random orthonormal weights: what a code costs does not depend on what it was fitted to.
void DeviceCodec::make_autoencoder(const Parameters& p) {
  AutoencoderOptions options;
  options.width = p.integer("width");
  options.fraction = p.real("fraction");
  options.start = AutoencoderOptions::Start::orthonormal;
  options.seed = static_cast<std::uint64_t>(p.integer("seed"));
  Autoencoder host(options);
  width_ = host.width_for(shape_.columns());
  half_ = p.choice("wire") == "f16";
  workspace_ = seam_.allocate(autoencoder_workspace_bytes(shape_.rows(), width_));
  const auto upload = [&](std::span<const float> weights) {
    auto* to = static_cast<float*>(seam_.allocate(weights.size_bytes()));
    seam_.write(to, weights.data(), weights.size_bytes());
    return to;
  };
  left_ = upload(host.encoder(shape_.columns()));
  right_ = upload(host.decoder(shape_.columns()));
}

template <typename Function, typename... Arguments>
void DeviceCodec::call(const char* name, Arguments... arguments) {
  const int code = reinterpret_cast<Function*>(seam_.find(name))(arguments..., seam_.ordinal, seam_.stream);
  if (code == 0) return;
  throw RuntimeFailure(std::string(name) + " failed: " + (seam_.error_text ? seam_.error_text(code) : "error " + std::to_string(code)) +
                       "; run doctor, and compute-sanitizer where this happens again");
}

void DeviceCodec::encode(const float* x, const MessageKey& key, void* payload, std::uint32_t* status) {
  const std::int64_t rows = shape_.rows(), columns = shape_.columns();
  switch (kind_) {
    case Kind::none: call<thinwire_cuda_none_decode_fn>("thinwire_cuda_none_decode", x, n_, static_cast<float*>(payload), 0); return;
    case Kind::cast: call<thinwire_cuda_cast_encode_fn>("thinwire_cuda_cast_encode", x, n_, bfloat16_, payload, status); return;
    case Kind::quantize:
      call<thinwire_cuda_quantize_encode_fn>("thinwire_cuda_quantize_encode", x, rows, columns, bits_, payload, workspace_, status);
      return;
    case Kind::topk:
      call<thinwire_cuda_topk_encode_fn>("thinwire_cuda_topk_encode", x, n_, kept_, half_, index_form_, payload, workspace_, status);
      return;
    case Kind::randomk:
      call<thinwire_cuda_randomk_gather_fn>("thinwire_cuda_randomk_gather", x, n_, kept_, seed_, key.random_stream(), factor_, half_, 1, payload, status);
      return;
    case Kind::powersgd: {
      const std::uint64_t stream = mix_stream(hash_name("powersgd.start"), warm_ ? key.state_key() : key.random_stream());
      auto* wire_q = static_cast<std::byte*>(payload) + rows * width_ * (half_ ? 2 : 4);
      call<thinwire_cuda_powersgd_start_fn>("thinwire_cuda_powersgd_start", right_, columns, width_, started_ && warm_ ? 0 : 1, seed_, stream);
      call<thinwire_cuda_powersgd_project_fn>("thinwire_cuda_powersgd_project", x, rows, columns, width_, right_, 1, 0, half_, left_,
                                              static_cast<void*>(nullptr), workspace_, status);
      call<thinwire_cuda_powersgd_back_project_fn>("thinwire_cuda_powersgd_back_project", x, rows, columns, width_, static_cast<const void*>(nullptr), 0,
                                                   half_, left_, right_, payload, static_cast<void*>(wire_q), workspace_, status);
      started_ = true;
      return;
    }
    case Kind::autoencoder:
      call<thinwire_cuda_autoencoder_encode_fn>("thinwire_cuda_autoencoder_encode", x, rows, columns, width_, left_, half_, payload, workspace_, status);
      return;
  }
}

void DeviceCodec::decode(const void* payload, const MessageKey& key, float* out, bool add, std::uint32_t* status) {
  const std::int64_t rows = shape_.rows(), columns = shape_.columns();
  const int adds = add ? 1 : 0;
  switch (kind_) {
    case Kind::none: call<thinwire_cuda_none_decode_fn>("thinwire_cuda_none_decode", payload, n_, out, adds); return;
    case Kind::cast: call<thinwire_cuda_cast_decode_fn>("thinwire_cuda_cast_decode", payload, n_, bfloat16_, out, adds, status); return;
    case Kind::quantize:
      call<thinwire_cuda_quantize_decode_fn>("thinwire_cuda_quantize_decode", payload, rows, columns, bits_, out, adds, status);
      return;
    case Kind::topk:
      call<thinwire_cuda_sparse_scatter_fn>("thinwire_cuda_sparse_scatter", index_of(payload), index_form_, n_, kept_, payload, half_, out, adds, workspace_,
                                            status);
      return;
    case Kind::randomk:
      call<thinwire_cuda_randomk_scatter_fn>("thinwire_cuda_randomk_scatter", payload, half_, n_, kept_, seed_, key.random_stream(), 1.0f, out, adds, status);
      return;
    case Kind::powersgd: {
      const void* wire_q = static_cast<const std::byte*>(payload) + rows * width_ * (half_ ? 2 : 4);
      call<thinwire_cuda_powersgd_expand_fn>("thinwire_cuda_powersgd_expand", static_cast<const float*>(nullptr), payload, wire_q, rows, columns, width_,
                                             half_, out, adds, workspace_, status);
      return;
    }
    case Kind::autoencoder:
      call<thinwire_cuda_autoencoder_decode_fn>("thinwire_cuda_autoencoder_decode", payload, rows, columns, width_, right_, half_, out, adds, workspace_, status);
      return;
  }
}

void DeviceCodec::decode_backward(const void* payload, const MessageKey& key, const float* gradient, float* travel, std::uint32_t* status) {
  TW_ASSERT(kind_ == Kind::topk || kind_ == Kind::randomk);
  if (kind_ == Kind::topk)
    call<thinwire_cuda_sparse_gather_fn>("thinwire_cuda_sparse_gather", index_of(payload), index_form_, n_, kept_, gradient, travel, workspace_, status);
  else
    call<thinwire_cuda_randomk_gather_fn>("thinwire_cuda_randomk_gather", gradient, n_, kept_, seed_, key.random_stream(), 1.0f, 0, 0,
                                          static_cast<void*>(travel), status);
}

void DeviceCodec::encode_backward(const void* payload, const MessageKey& key, const float* travel, float* gradient, std::uint32_t* status) {
  TW_ASSERT(kind_ == Kind::topk || kind_ == Kind::randomk);
  if (kind_ == Kind::topk)
    call<thinwire_cuda_sparse_scatter_fn>("thinwire_cuda_sparse_scatter", index_of(payload), index_form_, n_, kept_, static_cast<const void*>(travel), 0,
                                          gradient, 0, workspace_, status);
  else
    call<thinwire_cuda_randomk_scatter_fn>("thinwire_cuda_randomk_scatter", static_cast<const void*>(travel), 0, n_, kept_, seed_, key.random_stream(),
                                           factor_, gradient, 0, status);
}

}  // namespace thinwire
