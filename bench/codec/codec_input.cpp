#include "bench/codec/codec_input.h"

#include <algorithm>

namespace thinwire::bench {
namespace {

Tensor rows_of(const Tensor& x, std::int64_t first, std::int64_t count) {
  const std::int64_t columns = x.shape().columns();
  Tensor part(Shape{count, columns});
  std::copy_n(x.as<float>().data() + first * columns, count * columns, part.as<float>().data());
  return part;
}

}  // namespace

CodecInput load_codec_input(const CellParameters& p, bool fits) {
  const TrafficSource source(p);
  CaptureQuery query;
  query.traffic = p.text("class");
  query.tensor = p.text("tensor");
  query.point = p.text("point");
  query.batch = p.integer("batch");
  query.seq = p.integer("seq");
  query.parts = static_cast<int>(p.integer("parts"));
  if (query.tensor.empty()) {
    const auto names = source.names(query);
    if (!names.empty()) query.tensor = names.front();
  }
  CodecInput input;
  input.series = source.find(query, 1, Shape{p.integer("batch"), p.integer("seq"), p.integer("hidden")});
  const int last = input.series->steps - 1;
  input.whole = input.series->load(last, 0);
  if (input.whole.elements() == 0) throw UsageError(input.series->tensor + " has no element: there is nothing to measure");
  for (int step = 0; fits && step < std::min(last, 4); ++step) input.training.push_back(input.series->load(step, 0));
  const std::int64_t rows = input.whole.shape().rows(), half = rows / 2;
  if (fits && last == 0 && half > 0) {
    input.training.push_back(rows_of(input.whole, 0, half));
    input.second_half = rows_of(input.whole, half, rows - half);
  }
  return input;
}

}  // namespace thinwire::bench
