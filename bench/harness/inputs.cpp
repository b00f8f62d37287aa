#include "bench/harness/inputs.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "core/random.h"
#include "models/data/tensor_file.h"

namespace thinwire::bench {
namespace {

class CapturedSeries final : public Series {
 public:
  CapturedSeries(std::shared_ptr<const CaptureReader> capture, CaptureTensor dataset)
      : capture_(std::move(capture)), dataset_(std::move(dataset)) {
    tensor = dataset_.tensor;
    traffic = dataset_.traffic;
    source = "captured";
    corpus = capture_->info().corpus;
    shape = dataset_.shape;
    steps = static_cast<int>(dataset_.steps.size());
  }
  Tensor load(int step, int part) const override { return capture_->load(dataset_, step, part); }

 private:
  std::shared_ptr<const CaptureReader> capture_;
  CaptureTensor dataset_;
};

class GeneratedSeries final : public Series {
 public:
  GeneratedSeries(const std::string& text, Shape shape_, std::uint64_t seed) : generator_(parse_generator(text)), seed_(seed) {
    tensor = generator_.to_string();
    source = "generated";
    shape = shape_;
    steps = 8;
  }
  Tensor load(int step, int part) const override { return generate(generator_, shape, seed_, step, part); }

 private:
  Generator generator_;
  std::uint64_t seed_;
};

class FileSeries final : public Series {
 public:
  explicit FileSeries(std::vector<std::string> files) : files_(std::move(files)) {
    const FileTensor first = load_tensor_file(files_.front());
    tensor = first.name;
    source = "input";
    shape = first.values.shape();
    steps = 1;
  }
  Tensor load(int, int part) const override {
    FileTensor file = load_tensor_file(files_.at(static_cast<std::size_t>(part)));
    if (file.values.shape() != shape)
      throw UsageError("--input: " + files_[static_cast<std::size_t>(part)] + " has shape " + file.values.shape().to_string() + " but " +
                       files_.front() + " has " + shape.to_string() + "; give tensors of one shape");
    return std::move(file.values);
  }

 private:
  std::vector<std::string> files_;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');)
    if (!part.empty()) parts.push_back(part);
  return parts;
}

std::shared_ptr<const CaptureReader> open_capture(const std::string& path) {
  static std::map<std::string, std::shared_ptr<const CaptureReader>> opened;
  auto& capture = opened[path];
  if (!capture) capture = std::make_shared<const CaptureReader>(path);
  return capture;
}

}  // namespace

std::vector<BenchOption> input_options() {
  return {{"capture", "", "captured traffic (written by capture_traffic)"},
          {"input", "", "own tensors: FILE.{h5,npy,safetensors}[:NAME], FILE.npy:bf16 (bits as uint16), one per rank, separated by commas"},
          {"generator", "power_law:exponent=1", "synthetic tensors where neither --capture nor --input is given"}};
}

TrafficSource::TrafficSource(const CellParameters& parameters)
    : inputs_(split(parameters.text("input"))),
      generator_(parameters.text("generator")),
      seed_(static_cast<std::uint64_t>(parameters.integer("seed"))) {
  const std::string capture = parameters.text("capture");
  if (!capture.empty() && !inputs_.empty()) throw UsageError("--capture and --input exclude each other: give one");
  if (!capture.empty()) capture_ = open_capture(capture);
}

std::unique_ptr<Series> TrafficSource::find(CaptureQuery query, int parts, const Shape& shape) const {
  if (capture_) {
    const CaptureTensor& dataset = capture_->find(query);
    if (dataset.parts < parts)
      throw UsageError("the capture holds " + std::to_string(dataset.parts) + " parts of " + dataset.tensor + " but " +
                       std::to_string(parts) + " ranks need one each: capture more micro-batches");
    return std::make_unique<CapturedSeries>(capture_, dataset);
  }
  if (!inputs_.empty()) {
    if (static_cast<int>(inputs_.size()) < parts)
      throw UsageError("--input names " + std::to_string(inputs_.size()) + " tensors but " + std::to_string(parts) +
                       " ranks need one each: separate the files by commas");
    return std::make_unique<FileSeries>(inputs_);
  }
  return std::make_unique<GeneratedSeries>(generator_, shape, mix_stream(seed_, hash_name(query.traffic + query.tensor)));
}

std::vector<std::string> TrafficSource::names(const CaptureQuery& query) const {
  std::vector<std::string> found;
  // Generated tensors differ by name: stages and boundaries get one each.
  for (int i = 0; !capture_ && i < 8; ++i) found.push_back("tensor" + std::to_string(i));
  if (!capture_) return found;
  for (const CaptureTensor& t : capture_->matching(query))
    if (std::find(found.begin(), found.end(), t.tensor) == found.end()) found.push_back(t.tensor);
  return found;
}

}  // namespace thinwire::bench
