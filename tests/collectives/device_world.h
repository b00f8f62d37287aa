// A device for channels under test: the module's first, with a stream of its own as the compute stream, and the same operation on host and
// device tensors.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/device/device_abi.h"
#include "core/device/device_stream.h"
#include "kernels/values.h"
#include "tests/collectives/world.h"

namespace thinwire::testing {

inline int device_count() {
  int count = 0;
  const char* why = nullptr;
  device_function<thinwire_cuda_device_count_fn>("thinwire_cuda_device_count")(&count, &why);
  return count;
}
/// This rank's own where there are enough, else the first, which the ranks then share.
inline Device test_device() { return {DeviceKind::cuda, device_count() >= world().size() ? world().rank() : 0}; }

/// While it lives, the thread computes on a stream of the device that nothing else uses.
class OnDevice {
 public:
  OnDevice() : stream_(test_device()), scope_(Placement{test_device(), stream_.get()}) {}

 private:
  OwnedStream stream_;
  PlacementScope scope_;
};

/// `values` where the thread computes, in this type; queued, not waited for: `values` must outlive it.
inline Tensor placed(const std::vector<float>& values, Shape shape, DType dtype = DType::f32) {
  Tensor wide(shape);
  copy_elements(static_cast<float*>(wide.view().data()), values.data(), values.size());
  if (dtype == DType::f32) return wide;
  Tensor narrow(shape, dtype);
  convert_values(wide.view().data(), DType::f32, narrow.view().data(), dtype, shape.elements());
  synchronize_placement();  // `wide` goes
  return narrow;
}

/// Of a tensor that was made where the thread computes, or whose work was waited for.
inline std::vector<std::byte> bytes_of(const Tensor& x) {
  synchronize_placement();
  const PlacementScope there(x.device());
  const Tensor copy = on_host(x.view());
  std::vector<std::byte> bytes(copy.bytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), copy.view().data(), bytes.size());
  return bytes;
}
inline std::vector<float> floats_of(const Tensor& x) {
  synchronize_placement();
  const PlacementScope there(x.device());
  const Tensor copy = on_host(x.view());
  const auto values = copy.as<float>();
  return {values.begin(), values.end()};
}

enum class Kind { all_reduce, reduce_scatter, all_gather, broadcast, reduce, exchange };
inline std::string name_of(Kind kind) {
  const char* const names[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "exchange"};
  return names[static_cast<std::size_t>(kind)];
}

/// What `kind` delivers for tensors of this shape (`dtype` in and out), where the thread computes. Root 0; exchange: to the next rank, from the
/// one before (a rank alone: its own tensor).
inline Tensor run_kind(Channel& channel, Kind kind, Shape shape, const MessageKey& key, const std::string& input, DType dtype = DType::f32) {
  Communicator& w = world();
  const int n = w.size(), me = w.rank();
  const auto rows = [&](int r) { return Shape{shard_rows(shape.rows(), r, n).count, shape.columns()}; };
  const std::string name = input + std::to_string(key.step);
  const Shape in_shape = kind == Kind::all_gather ? rows(me) : shape;
  const std::vector<float> values = normal_input(in_shape.elements(), name.c_str(), me);
  const Tensor in = placed(values, in_shape, dtype);
  Tensor out(kind == Kind::reduce_scatter ? rows(me) : shape, dtype);
  switch (kind) {
    case Kind::all_reduce: channel.all_reduce(in.view(), out.view(), key).wait(); break;
    case Kind::reduce_scatter: channel.reduce_scatter(in.view(), out.view(), key).wait(); break;
    case Kind::all_gather: channel.all_gather(in.view(), out.view(), key).wait(); break;
    case Kind::broadcast:
      copy_values(out.view(), in.view());
      channel.broadcast(out.view(), 0, key).wait();
      break;
    case Kind::reduce:
      copy_values(out.view(), in.view());
      channel.reduce(in.view(), out.view(), 0, key).wait();
      break;
    case Kind::exchange: {
      copy_values(out.view(), in.view());
      if (n == 1) break;
      Operation sent = channel.send(in.view(), (me + 1) % n, key), received = channel.receive(out.view(), (me + n - 1) % n, key);
      received.wait();
      sent.wait();
      break;
    }
  }
  synchronize_placement();  // `values` and `in` go
  return out;
}

}  // namespace thinwire::testing
