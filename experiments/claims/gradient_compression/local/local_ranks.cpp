#include "experiments/claims/gradient_compression/local/local_ranks.h"

#include <cmath>
#include <cstring>

#include "collectives/communicator/local_reduce.h"

namespace thinwire::claims::gradient_compression {
namespace {

ConstTensorView view_of(const Floats& x, Shape shape) { return {x.data(), shape}; }
TensorView view_of(Floats& x, Shape shape) { return {x.data(), shape}; }

MessageKey key_of(const std::string& tensor, std::int64_t step) {
  MessageKey key;
  key.tensor = hash_name(tensor);
  key.step = step;
  return key;
}

Bytes bytes_of(std::span<const std::byte> from) { return {from.begin(), from.end()}; }

}  // namespace

LocalRanks::LocalRanks(const std::string& codec, int ranks, Form form) {
  for (int r = 0; r < ranks; ++r) ranks_.push_back(make_codec(codec, form));
}

Reduced LocalRanks::reduce(const std::vector<Floats>& inputs, Shape shape, std::int64_t step, const std::string& tensor) {
  TW_ASSERT(inputs.size() == ranks_.size());
  const MessageKey key = key_of(tensor, step);
  Reduced r;
  r.given = inputs;
  r.own.assign(ranks_.size(), Floats(static_cast<std::size_t>(shape.elements())));
  for (std::size_t i = 0; i < ranks_.size(); ++i) ranks_[i].before_encode(view_of(r.given[i], shape), key);
  r = ranks_.front().codec->traits().rounds > 0 ? by_rounds(std::move(r), shape, key) : by_payloads(std::move(r), shape, key);
  Floats mean;
  for (std::size_t i = ranks_.size(); i-- > 0;) {  // rank 0 last: its sum is the one that is shown
    Floats sum = r.sum;
    ranks_[i].deliver(view_of(sum, shape), key);
    mean = sum;
    for (float& v : mean) v *= 1.0f / static_cast<float>(ranks_.size());
    ranks_[i].after_reduce(view_of(r.given[i], shape), view_of(r.own[i], shape), view_of(mean, shape), key);
    if (i == 0) r.sum = std::move(sum);
  }
  return r;
}

Reduced LocalRanks::by_rounds(Reduced r, Shape shape, const MessageKey& key) {
  const int world = static_cast<int>(ranks_.size()), rounds = ranks_.front().codec->traits().rounds;
  for (int n = 0; n < rounds; ++n) {
    std::vector<Round> all;
    for (std::size_t i = 0; i < ranks_.size(); ++i) all.push_back(ranks_[i].codec->as<Rounds>()->begin_round(n, view_of(std::as_const(r.given[i]), shape), key, world));
    std::vector<Bytes>& sent = r.sent.emplace_back();
    for (const Round& round : all) sent.push_back(bytes_of(round.send));
    Bytes& sum = r.received.emplace_back(sent.front());
    const auto elements = static_cast<std::int64_t>(sum.size() / size_of(all.front().dtype));
    for (std::size_t i = 1; i < sent.size(); ++i) reduce_into(sum.data(), sent[i].data(), elements, all.front().dtype, all.front().op);
    for (Round& round : all) std::memcpy(round.receive.data(), sum.data(), sum.size());
  }
  for (std::size_t i = ranks_.size(); i-- > 0;) {
    Rounds& codec = *ranks_[i].codec->as<Rounds>();
    if (ranks_[i].codec->traits().feedback == FeedbackSource::own_decoded) codec.own_decoded(key, view_of(r.own[i], shape));
    r.sum.assign(static_cast<std::size_t>(shape.elements()), 0.0f);
    codec.end_rounds(key, world, view_of(r.sum, shape));
  }
  return r;
}

Reduced LocalRanks::by_payloads(Reduced r, Shape shape, const MessageKey& key) {
  std::vector<Bytes>& sent = r.sent.emplace_back();
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    Codec& codec = *ranks_[i].codec;
    Bytes& payload = sent.emplace_back(codec.max_payload_bytes(shape));
    payload.resize(codec.encode(view_of(std::as_const(r.given[i]), shape), key, payload));
    codec.decode(payload, key.with_pass(Pass::evaluate), view_of(r.own[i], shape));
  }
  r.sum.assign(static_cast<std::size_t>(shape.elements()), 0.0f);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    if (i == 0)
      ranks_.front().codec->decode(sent[i], key, view_of(r.sum, shape));
    else
      ranks_.front().codec->decode_add(sent[i], key, view_of(r.sum, shape));
  }
  return r;
}

Sent send(Codec& codec, const Floats& x, Shape shape, std::int64_t step) {
  const MessageKey key = key_of("message", step);
  Bytes payload(codec.max_payload_bytes(shape));
  payload.resize(codec.encode(view_of(x, shape), key, payload));
  Sent s{payload.size(), Floats(x.size())};
  codec.decode(payload, key, view_of(s.decoded, shape));
  return s;
}

Floats normal_numbers(std::int64_t count, std::uint64_t seed, const std::string& name) {
  const Random random(seed, name);
  Floats values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(random.normal(i));
  return values;
}

double relative_l2(const Floats& a, const Doubles& b) {
  double wrong = 0, all = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = double{a[i]} - b[i];
    wrong += d * d, all += b[i] * b[i];
  }
  return std::sqrt(wrong / all);
}

double cosine(const Floats& a, const Doubles& b) {
  double dot = 0, of_a = 0, of_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) dot += double{a[i]} * b[i], of_a += double{a[i]} * a[i], of_b += b[i] * b[i];
  return dot / std::sqrt(of_a * of_b);
}

Doubles sum_of(const std::vector<Floats>& all) {
  Doubles sum(all.front().size(), 0.0);
  for (const Floats& x : all)
    for (std::size_t i = 0; i < x.size(); ++i) sum[i] += double{x[i]};
  return sum;
}

}  // namespace thinwire::claims::gradient_compression
