// Checks of the CUDA implementations whose maths has matrix products: run on a GPU (tests/gpu) and on emulated kernels. The host codec is
// the oracle; sums run in another order, so values agree to a tolerance that stands beside each check.
#pragma once

#include "kernels/codec/codecs/learned/autoencoder.h"
#include "kernels/codec/codecs/learned/autoencoder_entries.h"
#include "kernels/codec/codecs/low_rank/powersgd_entries.h"
#include "kernels/matrix/orthonormalise.h"
#include "support/device_codec_cases.h"

namespace thinwire::testing {

inline std::vector<float> normal_matrix(std::int64_t count, const std::string& name, double deviation = 1) {
  const Random random(device_seed, name);
  std::vector<float> v(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(deviation * random.normal(i));
  return v;
}

/// Every |actual - expected| is below `tolerance` times the largest |expected|, and nothing is NaN.
inline void expect_close(const std::vector<float>& actual, const std::vector<float>& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double largest = 1e-20;
  for (float e : expected) largest = std::max(largest, std::abs(static_cast<double>(e)));
  for (std::size_t i = 0; i < actual.size(); ++i)
    ASSERT_LE(std::abs(static_cast<double>(actual[i]) - expected[i]), tolerance * largest)
        << what << " at " << i << ": " << actual[i] << " instead of " << expected[i] << ", seed " << device_seed;
}

/// Orthonormal columns as the host makes them, whichever way the matrix needs: one round, two, or Gram-Schmidt with zero columns.
inline void expect_orthonormal_like_host(DeviceUnderTest& device) {
  struct Case {
    std::int64_t rows, columns;
    double near;  // how close the last column comes to a combination of the others; 0: exactly
  };
  for (const Case& c : {Case{1, 1, 1}, {7, 3, 1}, {64, 16, 1}, {1031, 5, 1}, {1100, 17, 1}, {300, 33, 1}, {200, 65, 1}, {150, 130, 1}, {3, 7, 1},
                        {150, 129, 1},
                        {500, 4, 3e-5}, {500, 4, 2e-6}, {400, 6, 0}, {129, 11, 0}}) {
    std::vector<float> a = normal_matrix(c.rows * c.columns, "orthonormal");
    if (c.near < 1 && c.columns > 1)
      for (std::int64_t i = 0; i < c.rows; ++i) {
        float* row = a.data() + i * c.columns;
        row[c.columns - 1] = static_cast<float>(row[0] + c.near * row[c.columns - 1]);
      }
    std::vector<float> host = a;
    Orthonormaliser().apply(host.data(), c.rows, c.columns);
    float* on_device = device.upload(a);
    void* workspace = device.poisoned(orthonormalise_workspace_bytes(c.rows, c.columns));
    ASSERT_EQ(device.entry<thinwire_cuda_orthonormalise_fn>("thinwire_cuda_orthonormalise")(on_device, c.rows, c.columns, 1, 0, workspace, 0, device.stream), 0);
    const std::string what = std::to_string(c.rows) + " x " + std::to_string(c.columns) + ", nearness " + std::to_string(c.near);
    // f64 inside: only the rounding of the result to f32 differs, multiplied by the conditioning where columns nearly depend.
    expect_close(device.download(on_device, a.size()), host, c.near < 1 && c.near > 0 ? 2e-4 : 1e-6, what);

    host = a;
    modified_gram_schmidt(host.data(), c.rows, c.columns);
    if (c.near < 1 || c.columns > c.rows || c.columns > 20) continue;  // nearly dependent columns become rounding noise there
    on_device = device.upload(a);
    ASSERT_EQ(device.entry<thinwire_cuda_orthonormalise_fn>("thinwire_cuda_orthonormalise")(on_device, c.rows, c.columns, 1, 1, workspace, 0, device.stream), 0);
    expect_close(device.download(on_device, a.size()), host, 5e-5, what + ", released");
  }
}

/// Two messages of powersgd in a row (the second starts from the first's Q), and the same in rounds for two ranks.
inline void expect_powersgd_like_host(DeviceUnderTest& device) {
  struct Case {
    std::int64_t n, m, rank;
    const char* wire;
    std::size_t offset;
    bool released;
  };
  for (const Case& c : {Case{1, 1, 4, "f32", 0, false}, {13, 1, 4, "f32", 1, false}, {64, 33, 4, "f32", 0, false}, {127, 61, 16, "f32", 4, false},
                        {37, 200, 7, "f16", 1, false}, {64, 48, 4, "f32", 0, true}}) {
    const std::string codec = "powersgd:rank=" + std::to_string(c.rank) + ",wire=" + c.wire;
    SCOPED_TRACE(codec + " " + std::to_string(c.n) + " x " + std::to_string(c.m) + ", payload +" + std::to_string(c.offset));
    const Shape shape{c.n, c.m};
    const std::int64_t r = std::min({c.n, c.m, c.rank});
    const bool half = std::string_view(c.wire) == "f16";
    const double tolerance = half ? 2e-3 : 2e-5;
    const int released = c.released;
    CodecStack host = make_codec(codec, c.released ? Form::released : Form::fair);
    const auto project = device.entry<thinwire_cuda_powersgd_project_fn>("thinwire_cuda_powersgd_project");
    const auto back_project = device.entry<thinwire_cuda_powersgd_back_project_fn>("thinwire_cuda_powersgd_back_project");
    const auto expand = device.entry<thinwire_cuda_powersgd_expand_fn>("thinwire_cuda_powersgd_expand");
    const auto start = device.entry<thinwire_cuda_powersgd_start_fn>("thinwire_cuda_powersgd_start");

    MessageKey key{.tensor = hash_name("device")};
    void* workspace = device.allocate(powersgd_workspace_bytes(c.n, c.m, c.rank, 1));
    std::uint32_t* status = device.upload(std::vector<std::uint32_t>(2));
    const std::size_t wire_size = half ? 2 : 4, p_bytes = static_cast<std::size_t>(c.n * r) * wire_size;
    auto* q = reinterpret_cast<float*>(device.poisoned(static_cast<std::size_t>(c.m * r) * 4));
    auto* p = reinterpret_cast<float*>(device.poisoned(static_cast<std::size_t>(c.n * r) * 4));
    const std::uint64_t stream = mix_stream(hash_name("powersgd.start"), key.state_key());
    for (int step = 0; step < 2; ++step) {
      key.step = step;
      const auto x = normal_matrix(shape.elements(), "powersgd" + std::to_string(step));
      std::vector<std::byte> payload(host.codec->max_payload_bytes(shape));
      host.codec->encode({x.data(), shape}, key, payload);
      std::vector<float> decoded(x.size());
      host.codec->decode(payload, key, {decoded.data(), shape});

      const float* values = device.upload(x);
      std::byte* wire = device.poisoned(payload.size(), c.offset);
      ASSERT_EQ(start(q, c.m, r, 1, step == 0, 0, stream, 0, device.stream), 0);
      ASSERT_EQ(project(values, c.n, c.m, r, 1, q, 1, released, half, p, nullptr, workspace, status, 0, device.stream), 0);
      ASSERT_EQ(back_project(values, c.n, c.m, r, 1, nullptr, released, half, p, q, wire, wire + p_bytes, workspace, status, 0, device.stream), 0);
      auto* out = reinterpret_cast<float*>(device.poisoned(x.size() * 4));
      ASSERT_EQ(expand(nullptr, wire, wire + p_bytes, c.n, c.m, r, 1, half, out, 0, workspace, status + 1, 0, device.stream), 0);
      expect_close(device.download(out, x.size()), decoded, tolerance, "decoded, step " + std::to_string(step));
      ASSERT_EQ(expand(nullptr, wire, wire + p_bytes, c.n, c.m, r, 1, half, out, 1, workspace, status + 1, 0, device.stream), 0);
      for (float& d : decoded) d *= 2;
      expect_close(device.download(out, x.size()), decoded, tolerance, "added, step " + std::to_string(step));
    }
    EXPECT_EQ(device.download(status, 2), std::vector<std::uint32_t>(2));

    // One reduction by rounds over a world whose sums are twice this rank's: P and Q of the wire come back doubled.
    if (c.released || half) continue;
    CodecStack rounds = make_codec(codec);
    const auto x = normal_matrix(shape.elements(), "powersgd rounds");
    std::vector<float> sum(x.size());
    for (int round = 0; round < 2; ++round) {
      const Round sent = rounds.codec->as<Rounds>()->begin_round(round, {x.data(), shape}, key, 2);
      for (std::size_t i = 0; i < sent.send.size() / 4; ++i)
        reinterpret_cast<float*>(sent.receive.data())[i] = 2 * reinterpret_cast<const float*>(sent.send.data())[i];
    }
    rounds.codec->as<Rounds>()->end_rounds(key, 2, {sum.data(), shape});
    const float* values = device.upload(x);
    auto* wire_p = reinterpret_cast<float*>(device.poisoned(static_cast<std::size_t>(c.n * r) * 4));
    auto* wire_q = reinterpret_cast<float*>(device.poisoned(static_cast<std::size_t>(c.m * r) * 4));
    auto* out = reinterpret_cast<float*>(device.poisoned(x.size() * 4));
    const auto doubled = [&](float* wire, std::int64_t count) {
      std::vector<float> v = device.download(wire, static_cast<std::size_t>(count));
      for (float& f : v) f *= 2;
      device.write(wire, v.data(), v.size() * 4);
    };
    ASSERT_EQ(start(q, c.m, r, 1, 1, 0, stream, 0, device.stream), 0);
    ASSERT_EQ(project(values, c.n, c.m, r, 1, q, 1, 0, 0, p, wire_p, workspace, status, 0, device.stream), 0);
    doubled(wire_p, c.n * r);
    ASSERT_EQ(back_project(values, c.n, c.m, r, 1, wire_p, 0, 0, p, q, nullptr, wire_q, workspace, status, 0, device.stream), 0);
    doubled(wire_q, c.m * r);
    ASSERT_EQ(expand(p, nullptr, wire_q, c.n, c.m, r, 1, 0, out, 0, workspace, status, 0, device.stream), 0);
    expect_close(device.download(out, x.size()), sum, tolerance, "rounds");
  }
}

/// Encode, decode, and both backward passes with the gradients of the weights.
inline void expect_autoencoder_like_host(DeviceUnderTest& device) {
  struct Case {
    std::int64_t rows, columns, width;
    DType wire;
    std::size_t offset;
  };
  for (const Case& c : {Case{1, 1, 1, DType::f32, 0}, {7, 5, 3, DType::f32, 1}, {33, 64, 16, DType::f16, 2}, {130, 31, 7, DType::f16, 1}}) {
    SCOPED_TRACE(std::to_string(c.rows) + " x " + std::to_string(c.columns) + " to " + std::to_string(c.width));
    const double tolerance = c.wire == DType::f16 ? 2e-3 : 1e-5;
    AutoencoderOptions options;
    options.width = c.width, options.wire = c.wire;
    Autoencoder host(options);
    const auto encoder = normal_matrix(c.width * c.columns, "encoder", 0.3), decoder = normal_matrix(c.width * c.columns, "decoder", 0.3);
    host.set_weights(c.columns, encoder, decoder);
    const Shape shape{c.rows, c.columns}, code_shape{c.rows, c.width};
    const MessageKey key{.tensor = hash_name("device")};
    const auto x = normal_matrix(shape.elements(), "x"), gradient = normal_matrix(shape.elements(), "g"), start = normal_matrix(shape.elements(), "start");
    std::vector<std::byte> payload(host.max_payload_bytes(shape));
    host.encode({x.data(), shape}, key, payload);
    std::vector<float> decoded(x.size()), added = start, travel(static_cast<std::size_t>(code_shape.elements())), input_gradient(x.size());
    host.decode(payload, key, {decoded.data(), shape});
    host.decode_add(payload, key, {added.data(), shape});
    host.decode_backward({gradient.data(), shape}, key, {travel.data(), code_shape});
    host.encode_backward({travel.data(), code_shape}, key, {input_gradient.data(), shape});
    std::vector<float> encoder_gradient = encoder, decoder_gradient = decoder;  // something to add to
    const auto code = normal_matrix(code_shape.elements(), "code");
    host.encoder_gradient({x.data(), shape}, {travel.data(), code_shape}, encoder_gradient);
    host.decoder_gradient({gradient.data(), shape}, {code.data(), code_shape}, decoder_gradient);

    const int half = c.wire == DType::f16;
    void* workspace = device.allocate(autoencoder_workspace_bytes(c.rows, c.width));
    std::uint32_t* status = device.upload(std::vector<std::uint32_t>(1));
    const float *e = device.upload(encoder), *d = device.upload(decoder), *values = device.upload(x);
    std::byte* wire = device.poisoned(payload.size(), c.offset);
    auto* out = reinterpret_cast<float*>(device.poisoned(x.size() * 4));
    float *de = device.upload(encoder), *dd = device.upload(decoder);
    ASSERT_EQ(device.entry<thinwire_cuda_autoencoder_encode_fn>("thinwire_cuda_autoencoder_encode")(values, c.rows, c.columns, c.width, e, half, wire, workspace,
                                                                                                    status, 0, device.stream), 0);
    const auto decode = device.entry<thinwire_cuda_autoencoder_decode_fn>("thinwire_cuda_autoencoder_decode");
    ASSERT_EQ(decode(wire, c.rows, c.columns, c.width, d, half, out, 0, workspace, status, 0, device.stream), 0);
    expect_close(device.download(out, x.size()), decoded, tolerance, "decoded");
    float* sum = device.upload(start);
    ASSERT_EQ(decode(wire, c.rows, c.columns, c.width, d, half, sum, 1, workspace, status, 0, device.stream), 0);
    expect_close(device.download(sum, x.size()), added, tolerance, "added");
    auto* back = reinterpret_cast<float*>(device.poisoned(travel.size() * 4));
    ASSERT_EQ(device.entry<thinwire_cuda_autoencoder_decode_backward_fn>("thinwire_cuda_autoencoder_decode_backward")(
                  device.upload(gradient), c.rows, c.columns, c.width, d, device.upload(code), back, dd, workspace, 0, device.stream), 0);
    expect_close(device.download(back, travel.size()), travel, 1e-5, "travel");
    expect_close(device.download(dd, decoder.size()), decoder_gradient, 1e-5, "decoder gradient");
    ASSERT_EQ(device.entry<thinwire_cuda_autoencoder_encode_backward_fn>("thinwire_cuda_autoencoder_encode_backward")(
                  device.upload(travel), c.rows, c.columns, c.width, e, values, out, de, workspace, 0, device.stream), 0);
    expect_close(device.download(out, x.size()), input_gradient, 1e-5, "input gradient");
    expect_close(device.download(de, encoder.size()), encoder_gradient, 1e-5, "encoder gradient");
    EXPECT_EQ(device.download(status, 1)[0], 0u);
  }
}

/// A NaN anywhere in x is reported before it spreads, and a damaged factor is.
inline void expect_matrix_codecs_report_bad_values(DeviceUnderTest& device) {
  const std::int64_t n = 20, m = 12, r = 4;
  auto x = normal_matrix(n * m, "bad");
  x[77] = std::numeric_limits<float>::quiet_NaN();
  void* workspace = device.allocate(powersgd_workspace_bytes(n, m, r, 1));
  std::uint32_t* status = device.upload(std::vector<std::uint32_t>(3));
  float *q = device.upload(normal_matrix(m * r, "q")), *p = device.upload(normal_matrix(n * r, "p"));
  ASSERT_EQ(device.entry<thinwire_cuda_powersgd_project_fn>("thinwire_cuda_powersgd_project")(device.upload(x), n, m, r, 1, q, 1, 0, 0, p, nullptr, workspace,
                                                                                              status, 0, device.stream), 0);
  std::vector<float> wire = normal_matrix((n + m) * r, "wire");
  wire[static_cast<std::size_t>(n * r + 3)] = std::numeric_limits<float>::infinity();
  const float* payload = device.upload(wire);
  auto* out = reinterpret_cast<float*>(device.poisoned(static_cast<std::size_t>(n * m) * 4));
  ASSERT_EQ(device.entry<thinwire_cuda_powersgd_expand_fn>("thinwire_cuda_powersgd_expand")(nullptr, payload, payload + n * r, n, m, r, 1, 0, out, 0, workspace,
                                                                                            status + 1, 0, device.stream), 0);
  const std::vector<float> huge(static_cast<std::size_t>(n * m), 1e4f);
  ASSERT_EQ(device.entry<thinwire_cuda_autoencoder_encode_fn>("thinwire_cuda_autoencoder_encode")(
                device.upload(huge), n, m, r, device.upload(std::vector<float>(static_cast<std::size_t>(m * r), 1.0f)), 1,
                device.poisoned(static_cast<std::size_t>(n * r) * 2), workspace, status + 2, 0, device.stream), 0);
  EXPECT_EQ(device.download(status, 3), (std::vector<std::uint32_t>{device_status_non_finite, device_status_damaged, device_status_beyond_range}));
}

}  // namespace thinwire::testing
