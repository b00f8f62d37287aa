// BERT once more, in f64 from its formulas: loops over sequences, positions and numbers, no kernels, no packing of heads, no padding computed.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "models/bert/bert_config.h"
#include "models/data/batch.h"
#include "models/stage/stage.h"

namespace thinwire::testing {

using Vector = std::vector<double>;
using Rows = std::vector<Vector>;

class BertReference {
 public:
  /// Weights as they are in a whole model now.
  BertReference(const BertConfig& config, Stage<double>& stage) : c_(config) {
    for (Parameter<double>* p : stage.parameters()) weights_[p->name()] = {p->w(), p->w() + p->elements()};
  }

  /// What the last block gives of one sequence, its padding left out, behind the final norm where there is one.
  Rows encode(const Batch& batch, std::int64_t sample) const {
    const std::int64_t length = batch.lengths.empty() ? batch.seq : batch.lengths[static_cast<std::size_t>(sample)];
    Rows x;
    for (std::int64_t t = 0; t < length; ++t) {
      const auto at = static_cast<std::size_t>(sample * batch.seq + t);
      Vector v = row("embedding.token", batch.ints("tokens")[at]);
      add(v, row("embedding.position", t));
      if (c_.types > 0) add(v, row("embedding.type", batch.ints("types")[at]));
      x.push_back(c_.post_norm ? norm("embedding.norm", v) : v);
    }
    for (std::int64_t l = 0; l < c_.layers; ++l) x = block("layer" + std::to_string(l), x);
    if (!c_.post_norm)
      for (Vector& v : x) v = norm("head.final_norm", v);
    return x;
  }
  /// Logits of a masked position over the vocabulary, from its row of encode().
  Vector masked_logits(const Vector& state) const {
    Vector t = linear("head.dense", state);
    for (double& v : t) v = gelu(v);
    t = norm("head.norm", t);
    Vector logits;
    for (std::int64_t token = 0; token < c_.vocab; ++token) logits.push_back(dot(t, row("embedding.token", token)) + weights_.at("head.bias")[static_cast<std::size_t>(token)]);
    return logits;
  }
  /// Of the head on the first position.
  Vector sequence_logits(const Vector& first) const {
    Vector pooled = linear("head.pooler", first);
    for (double& v : pooled) v = std::tanh(v);
    return linear("head.classifier", pooled);
  }
  /// Loss of a whole batch without dropout.
  double loss(const Batch& batch) const {
    double masked = 0, sequences = 0, positions = 0, samples = 0;
    for (std::int64_t b = 0; b < batch.batch; ++b) {
      const Rows states = encode(batch, b);
      const auto sample = static_cast<std::size_t>(b);
      if (c_.masks())
        for (std::size_t t = 0; t < states.size(); ++t) {
          const std::int32_t label = batch.ints("masked_labels")[sample * static_cast<std::size_t>(batch.seq) + t];
          if (label == -1) continue;
          masked += entropy(masked_logits(states[t]), label);
          positions += 1;
        }
      if (!c_.reads_sequences()) continue;
      const Vector z = sequence_logits(states[0]);
      if (c_.task == BertTask::regression) {
        sequences += (z[0] - batch.floats("labels")[sample]) * (z[0] - batch.floats("labels")[sample]);
        samples += 1;
      } else if (batch.ints("labels")[sample] != -1) {
        sequences += entropy(z, batch.ints("labels")[sample]);
        samples += 1;
      }
    }
    return (positions > 0 ? masked / positions : 0) + (samples > 0 ? sequences / samples : 0);
  }

 private:
  static void add(Vector& to, const Vector& what) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += what[i];
  }
  static double dot(const Vector& a, const Vector& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  }
  static double entropy(const Vector& logits, std::int32_t label) {
    double sum = 0;
    for (const double z : logits) sum += std::exp(z);
    return std::log(sum) - logits[static_cast<std::size_t>(label)];
  }
  double gelu(double x) const {
    if (c_.exact_gelu) return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
    return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  Vector row(const std::string& table, std::int64_t r) const {
    const Vector& all = weights_.at(table);
    return {all.begin() + r * c_.hidden, all.begin() + (r + 1) * c_.hidden};
  }
  Vector norm(const std::string& name, const Vector& x) const {
    const double n = static_cast<double>(x.size());
    double mean = 0, variance = 0;
    for (const double v : x) mean += v / n;
    for (const double v : x) variance += (v - mean) * (v - mean) / n;
    Vector y;
    for (std::size_t i = 0; i < x.size(); ++i) y.push_back(weights_.at(name + ".gamma")[i] * (x[i] - mean) / std::sqrt(variance + c_.epsilon) + weights_.at(name + ".beta")[i]);
    return y;
  }
  /// Weights [in, out].
  Vector linear(const std::string& name, const Vector& x) const {
    const Vector &w = weights_.at(name + ".weight"), &b = weights_.at(name + ".bias");
    Vector y = b;
    for (std::size_t i = 0; i < x.size(); ++i)
      for (std::size_t o = 0; o < y.size(); ++o) y[o] += x[i] * w[i * y.size() + o];
    return y;
  }
  Rows block(const std::string& name, const Rows& x) const {
    Rows seen = x;
    if (!c_.post_norm)
      for (Vector& v : seen) v = norm(name + ".attention.norm", v);
    const Rows context = attention(name, seen);
    Rows y;
    for (std::size_t t = 0; t < x.size(); ++t) {
      Vector a = x[t];
      add(a, linear(name + ".attention.projection", context[t]));
      if (c_.post_norm) a = norm(name + ".attention.norm", a);
      Vector wide = linear(name + ".mlp.expand", c_.post_norm ? a : norm(name + ".mlp.norm", a));
      for (double& v : wide) v = gelu(v);
      add(a, linear(name + ".mlp.projection", wide));
      y.push_back(c_.post_norm ? norm(name + ".mlp.norm", a) : a);
    }
    return y;
  }
  /// Columns of qkv: by head, in it q, k and v.
  Rows attention(const std::string& name, const Rows& x) const {
    const std::int64_t d = c_.hidden / c_.heads;
    Rows qkv, out;
    for (const Vector& v : x) qkv.push_back(linear(name + ".attention.qkv", v));
    const auto part = [&](std::size_t t, std::int64_t head, std::int64_t which) {
      const auto from = qkv[t].begin() + (head * 3 + which) * d;
      return Vector(from, from + d);
    };
    for (std::size_t q = 0; q < x.size(); ++q) {
      Vector context;
      for (std::int64_t head = 0; head < c_.heads; ++head) {
        Vector sum(static_cast<std::size_t>(d), 0);
        double total = 0;
        for (std::size_t k = 0; k < x.size(); ++k) {
          const double weight = std::exp(dot(part(q, head, 0), part(k, head, 1)) / std::sqrt(static_cast<double>(d)));
          const Vector value = part(k, head, 2);
          for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += weight * value[i];
          total += weight;
        }
        for (const double v : sum) context.push_back(v / total);
      }
      out.push_back(context);
    }
    return out;
  }

  BertConfig c_;
  std::map<std::string, Vector> weights_;
};

}  // namespace thinwire::testing
