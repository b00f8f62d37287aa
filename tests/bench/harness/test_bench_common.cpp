// labels: mpi
// ranks: 1,3
// joined: no
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>

#include "bench/harness/bench_program.h"
#include "bench/codec/codec_check.h"
#include "bench/harness/error_metrics.h"
#include "bench/harness/launch_file.h"
#include "bench/harness/options.h"
#include "bench/training/product_peak.h"
#include "bench/harness/recorder.h"
#include "bench/harness/timing.h"
#include "bench/harness/baseline.h"
#include "collectives/world.h"
#include "core/formulas.h"
#include "kernels/codec/reference_check.h"
#include "results/record.h"
#include "support/codec_rounds.h"
#include "support/mpi_support.h"

namespace thinwire::bench {
namespace {

// A codec whose maths is wrong in a way that no structural check sees: it decodes to 1.01 x.
class Skewed final : public Codec {
 public:
  const CodecTraits& traits() const override { return traits_; }
  std::size_t max_payload_bytes(const Shape& s) const override { return static_cast<std::size_t>(s.elements()) * 4; }
  std::size_t write_payload(ConstTensorView x, const MessageKey&, std::span<std::byte> payload) override {
    std::memcpy(payload.data(), x.data(), x.bytes());
    return x.bytes();
  }
  void read_payload(std::span<const std::byte> payload, const MessageKey&, TensorView out) override {
    if (payload.size() != out.bytes()) throw CorruptData("skewed: size");
    std::memcpy(out.data(), payload.data(), payload.size());
    for (float& v : out.as<float>()) v *= 1.01f;
  }

 private:
  CodecTraits traits_ = [] {
    CodecTraits t;
    t.lossless = true;
    return t;
  }();
};

// Accepts payloads of any length.
class Credulous final : public Codec {
 public:
  const CodecTraits& traits() const override { return traits_; }
  std::size_t max_payload_bytes(const Shape& s) const override { return static_cast<std::size_t>(s.elements()) * 4; }
  std::size_t write_payload(ConstTensorView x, const MessageKey&, std::span<std::byte> payload) override {
    std::memcpy(payload.data(), x.data(), x.bytes());
    return x.bytes();
  }
  void read_payload(std::span<const std::byte> payload, const MessageKey&, TensorView out) override {
    std::memcpy(out.data(), payload.data(), std::min(payload.size(), out.bytes()));
  }

 private:
  CodecTraits traits_;
};

const bool registered = register_codec({.name = "skewed", .summary = "wrong on purpose", .source = "test", .parameters = {}, .has_released_form = false,
                                        .make = [](const thinwire::Parameters&, Form) { return std::make_unique<Skewed>(); }}) &&
                        register_codec({.name = "credulous", .summary = "wrong on purpose", .source = "test", .parameters = {}, .has_released_form = false,
                                        .make = [](const thinwire::Parameters&, Form) { return std::make_unique<Credulous>(); }});

std::string folder() {
  std::string path = std::filesystem::temp_directory_path() / ("thinwire_bench_" + std::to_string(::getppid()) + "_" + std::to_string(testing::size()));
  return path;
}

TEST(ProductPeak, IsStatedOrTheSumOfWhatAllRanksReachAtOnce) {
  EXPECT_DOUBLE_EQ(product_peak(testing::world(), nn::ComputeType::f32, "989.5").gflops, 989500);
  EXPECT_EQ(product_peak(testing::world(), nn::ComputeType::f32, "2").from, "stated");
  for (const char* wrong : {"", "0", "-3", "fast", "5 TFLOP/s", "inf", "nan"})
    EXPECT_THROW(product_peak(testing::world(), nn::ComputeType::f32, wrong), UsageError) << wrong;
  const ProductPeak measured = product_peak(testing::world(), nn::ComputeType::f32, "measure");
  EXPECT_GT(measured.gflops, 0);
  EXPECT_EQ(measured.from, "measured: f32 product of 1024 on each rank");
  double least = measured.gflops;  // one sum: equal on all ranks
  testing::world().all_reduce(&measured.gflops, &least, 1, DType::f64, ReduceOp::max)->wait();
  EXPECT_DOUBLE_EQ(least, measured.gflops);
}

// Of constants a GPU's product is faster than of anything that is trained.
TEST(ProductPeak, MultipliesRandomNumbers) {
  const auto a = peak_operand(3 << 19, 0), b = peak_operand(3 << 19, 1);
  EXPECT_NE(a, b);
  for (const auto* values : {&a, &b}) {
    double sum = 0, squares = 0;
    for (const float x : *values) sum += x, squares += x * x;
    const double n = static_cast<double>(values->size());
    EXPECT_NEAR(sum / n, 0, 0.01);
    EXPECT_NEAR(squares / n, 1, 0.02);
  }
}

TEST(ErrorMetrics, EqualTheScalarDefinitions) {
  const auto x = testing::normal_numbers(100'003, 1), y = testing::normal_numbers(100'003, 2);
  std::vector<float> measured(x.size());
  std::vector<double> reference(x.size());
  double wrong = 0, norm = 0, length = 0, dot = 0, error = 0, zeros = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    reference[i] = x[i];
    measured[i] = i % 10 == 0 ? 0.0f : x[i] + 0.1f * y[i] + 0.05f;
    wrong += std::pow(measured[i] - reference[i], 2);
    norm += reference[i] * reference[i];
    length += double{measured[i]} * measured[i];
    dot += measured[i] * reference[i];
    error += measured[i] - reference[i];
    zeros += measured[i] == 0;
  }
  const ErrorMetrics m = error_metrics(measured, std::span<const double>(reference));
  const auto n = static_cast<double>(x.size());
  EXPECT_NEAR(m.relative_l2, std::sqrt(wrong / norm), 1e-9);
  EXPECT_NEAR(m.cosine, dot / std::sqrt(norm * length), 1e-9);
  EXPECT_NEAR(m.bias, error / n / std::sqrt(norm / n), 1e-9);
  EXPECT_NEAR(m.vnmse, wrong / norm, 1e-9);
  EXPECT_NEAR(m.slope_bias, dot / norm - 1, 1e-9);
  EXPECT_NEAR(m.zero_fraction, zeros / n, 1e-12);
}

// Tensors whose errors are known in closed form: what each column says of them, and what it does not.
TEST(ErrorMetrics, AreTheClosedFormsOfKnownErrors) {
  const std::vector<float> ref = {3, -4, 0, 0};  // norm 5
  const auto of = [&](std::vector<float> x) { return error_metrics(x, std::span<const float>(ref)); };
  const ErrorMetrics half = of({1.5f, -2, 0, 0});  // shrunk by 1/2: parallel, and every column of size says so
  EXPECT_DOUBLE_EQ(half.relative_l2, 0.5);
  EXPECT_DOUBLE_EQ(half.vnmse, 0.25);
  EXPECT_DOUBLE_EQ(half.cosine, 1);
  EXPECT_DOUBLE_EQ(half.slope_bias, -0.5);
  EXPECT_DOUBLE_EQ(half.bias, 0.5 / 4 / 2.5);  // the errors -1.5 and 2 nearly cancel: a mean sees little of a shrunk tensor
  const ErrorMetrics kept = of({0, -4, 0, 0});  // Top-1 of 4: what was dropped is orthogonal to what was kept
  EXPECT_DOUBLE_EQ(kept.vnmse, 9.0 / 25);
  EXPECT_DOUBLE_EQ(kept.cosine, 0.8);
  EXPECT_DOUBLE_EQ(kept.slope_bias, -9.0 / 25) << "the lost share of the energy";
  EXPECT_DOUBLE_EQ(kept.zero_fraction, 0.75);
  const ErrorMetrics noise = of({3, -4, 5, 0});  // an error orthogonal to the tensor: no bias of the slope
  EXPECT_DOUBLE_EQ(noise.vnmse, 1);
  EXPECT_DOUBLE_EQ(noise.cosine, std::sqrt(0.5));
  EXPECT_DOUBLE_EQ(noise.slope_bias, 0);
  EXPECT_DOUBLE_EQ(noise.bias, 5.0 / 4 / 2.5);
  const ErrorMetrics gone = of({0, 0, 0, 0});
  EXPECT_DOUBLE_EQ(gone.vnmse, 1);
  EXPECT_DOUBLE_EQ(gone.cosine, 0);
  EXPECT_DOUBLE_EQ(gone.slope_bias, -1);
  results::CellRow row;
  EXPECT_TRUE(std::isnan(row.vnmse) && std::isnan(row.slope_bias)) << "not measured";
  kept.fill(row);
  EXPECT_EQ(row.vnmse, kept.vnmse);
  EXPECT_EQ(row.slope_bias, kept.slope_bias);
}

// The vNMSE of a reduction is that of the sum over ranks, not a mean of the ranks' own: errors that cancel in the sum do not count.
TEST(ErrorMetrics, OfASumAreThoseOfTheSum) {
  const std::vector<float> x = {1, 2, 2}, error = {0.5f, -0.5f, 0};
  std::vector<double> sum(x.size());
  std::vector<float> decoded(x.size());
  for (const float sign : {1.0f, -1.0f}) {
    add_to(sum, x);
    for (std::size_t i = 0; i < x.size(); ++i) decoded[i] += x[i] + sign * error[i];
  }
  EXPECT_EQ(error_metrics(decoded, std::span<const double>(sum)).vnmse, 0);
  decoded[0] += 3;  // ||e||^2 = 9, ||sum||^2 = 4 * 9
  EXPECT_DOUBLE_EQ(error_metrics(decoded, std::span<const double>(sum)).vnmse, 0.25);
}

TEST(ErrorMetrics, AreDefinedForZeroReferencesAndShowNaN) {
  const std::vector<float> zero(3, 0.0f), one(3, 1.0f), bad = {1, NAN, 1};
  EXPECT_EQ(error_metrics(zero, std::span<const float>(zero)).relative_l2, 0);
  EXPECT_EQ(error_metrics(zero, std::span<const float>(zero)).cosine, 1);
  EXPECT_EQ(error_metrics(zero, std::span<const float>(zero)).slope_bias, 0);
  EXPECT_TRUE(std::isinf(error_metrics(one, std::span<const float>(zero)).vnmse));
  EXPECT_TRUE(std::isnan(error_metrics(one, std::span<const float>(zero)).slope_bias)) << "a slope on zero is not defined";
  EXPECT_TRUE(std::isinf(error_metrics(one, std::span<const float>(zero)).relative_l2));
  const ErrorMetrics m = error_metrics(bad, std::span<const float>(one));
  EXPECT_TRUE(std::isnan(m.relative_l2) && std::isnan(m.vnmse) && std::isnan(m.slope_bias));
  EXPECT_THROW(require_close(m, 1e9, "a sum"), WrongResult) << "NaN is not close to anything";
}

TEST(Formulas, BoundIsReadAndWrittenBytesAtTwiceTheCopyRate) {
  // A copy of 1 GB at the copy rate is at the bound by definition.
  EXPECT_DOUBLE_EQ(bound_fraction(1e9, 1e9, 10, 1e5), 1.0);
  // Reading 4 bytes and writing 2 where a copy moves 4 + 4 takes 3/4 of the copy's time at the bound.
  EXPECT_DOUBLE_EQ(bound_fraction(4e6, 2e6, 1, 3e3), 1.0);
  EXPECT_DOUBLE_EQ(bound_fraction(4e6, 2e6, 1, 6e3), 0.5);
}

TEST(Repetitions, AreEquallyManyOnAllRanksAndKeepEverySample) {
  Communicator* const comm = &testing::world();
  StopRule rule;
  rule.max_repetitions = 20;
  rule.max_seconds = 600;  // not over before, on a loaded machine either
  rule.noise = 0;          // never quiet enough: the number ends it
  RepetitionLoop loop(rule, comm);
  int warm = 0, measured = 0;
  while (loop.next()) {
    (loop.warming_up() ? warm : measured)++;
    loop.add(comm->rank() + measured);  // ranks would decide differently from their own samples
    comm->barrier();
  }
  const std::vector<double> counts = gather_samples(*comm, std::vector<double>{static_cast<double>(measured), static_cast<double>(warm)});
  for (std::size_t i = 0; i < counts.size(); ++i) EXPECT_EQ(counts[i], counts[i % 2]);
  EXPECT_EQ(static_cast<int>(loop.samples().size()), measured);
  EXPECT_EQ(measured, rule.max_repetitions);
  EXPECT_GE(warm, rule.warmup_repetitions);
}

TEST(Repetitions, EndWithTheTimeButForTheFirst) {
  StopRule rule;
  rule.min_seconds = rule.max_seconds = 0;
  EXPECT_EQ(measure(rule, [] {}).size(), 1u) << "fewer than min_repetitions, for the time is over";
}

TEST(Repetitions, FollowTheOptionsOfACell) {
  CellParameters p;
  p.values = {{"repetitions", "7"}, {"min-time", "0"}, {"max-time", "0"}};
  EXPECT_EQ(measure(stop_rule(p), [] {}).size(), 7u);
  p.values = {{"repetitions", "0"}, {"min-time", "2"}, {"max-time", "1"}};
  EXPECT_THROW(stop_rule(p), UsageError);
  p.values = {{"repetitions", "-1"}, {"min-time", "0"}, {"max-time", "1"}};
  EXPECT_THROW(stop_rule(p), UsageError);
}

TEST(Samples, MaximumOverRanksIsPerIteration) {
  Communicator* const comm = &testing::world();
  const std::vector<double> mine = {static_cast<double>(comm->rank()), -static_cast<double>(comm->rank())};
  const auto longest = max_over_ranks(gather_samples(*comm, mine), comm->size());
  EXPECT_EQ(longest, (std::vector<double>{static_cast<double>(comm->size() - 1), 0.0}));
}

TEST(CellParameters, SayWhichOneIsMissingOrMalformed) {
  CellParameters p;
  p.values = {{"batch", "8x"}, {"rate", "0.5"}, {"flag", "maybe"}};
  const auto message = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  EXPECT_NE(message([&] { p.integer("batch"); }).find("batch"), std::string::npos);
  EXPECT_NE(message([&] { p.text("seq"); }).find("--seq"), std::string::npos);
  EXPECT_NE(message([&] { p.flag("flag"); }).find("maybe"), std::string::npos);
  EXPECT_EQ(p.real("rate"), 0.5);
}

TEST(CheckCodec, PassesEveryCodecThatShipsAndCatchesWrongOnes) {
  const Shape shape{37, 21};
  const auto x = testing::normal_numbers(shape.elements(), 4);
  const ConstTensorView view(x.data(), shape);
  for (const char* text : {"none", "cast", "cast:to=bf16", "quantize:bits=2", "quantize:bits=4", "quantize:bits=8", "quantize:bits=3", "quantize:norm=l2",
                           "topk:fraction=0.05", "randomk:fraction=0.05", "autoencoder:width=4", "autoencoder:width=4,wire=f32,init=xavier", "powersgd:rank=3",
                           "powersgd:rank=3,wire=f16", "group+hadamard:block=8,signs=keyed", "topk:fraction=0.05+hadamard+hadamard:block=2", "powersgd:rank=3+hadamard",
                           "autoencoder:width=4+hadamard", "none+subspace:k=5", "group+subspace:k=21", "topk:fraction=0.3+hadamard:block=2+subspace:k=8,table=none",
                           "group+delta", "group+hadamard:block=8+delta"}) {
    CodecStack stack = make_codec(text);
    if (stack.codec->traits().needs_fit) stack.codec->as<Fit>()->fit(std::span(&view, 1));
    EXPECT_NO_THROW(check_codec(stack, view)) << text;
  }
  for (const char* text : {"skewed", "credulous", "credulous+hadamard", "skewed+subspace"}) {
    CodecStack stack = make_codec(text);
    EXPECT_THROW(check_codec(stack, view), WrongResult) << text;
  }
}

// Of many numbers a few lie near zero in a group whose offset is large: they come back with the rounding of the offset.
TEST(CheckCodec, LetsOffsetsRoundButNoCodeBeWrong) {
  const Shape shape{512, 512};
  const auto x = testing::normal_numbers(shape.elements(), 4);
  for (const char* text : {"group:bits=8,range=affine", "group:bits=8,range=minmax", "group:bits=4,range=affine", "spike:bits=4"}) {
    CodecStack stack = make_codec(text);
    EXPECT_NO_THROW(check_codec(stack, ConstTensorView(x.data(), shape))) << text;
  }
  const std::vector<float> value = {1e-4f};
  const std::vector<double> right = {1e-4}, offset = {-4};
  EXPECT_NO_THROW(require_as_near(value, std::vector<float>{1.01e-4f}, right, offset));
  EXPECT_THROW(require_as_near(value, std::vector<float>{1.01e-4f}, right), WrongResult) << "without an offset";
  EXPECT_THROW(require_as_near(value, std::vector<float>{1.05e-4f}, right, offset), WrongResult) << "beyond its rounding";
}

TEST(CommandLine, RefusesWhatItDoesNotKnowAndNamesTheNearest) {
  BenchProgram program;
  program.name = "bench_test";
  program.options = {{"codec", "none", "codec"}, {"batch", "8", "sequences"}};
  const auto parse = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "bench_test");
    std::vector<char*> argv;
    for (std::string& w : words) argv.push_back(w.data());
    return parse_command_line(static_cast<int>(argv.size()), argv.data(), program);
  };
  const auto line = parse({"--codec", "topk", "--out", "x"});
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(line->values, (std::map<std::string, std::string>{{"codec", "topk"}}));
  try {
    parse({"--codek", "topk"});
    ADD_FAILURE();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("--codec"), std::string::npos) << error.what();
  }
  EXPECT_THROW(parse({"--batch"}), UsageError);
  EXPECT_THROW(parse({"--cells", "f.json", "--batch", "3"}), UsageError);
}

TEST(LaunchFile, MalformedOnesAreRefusedWithTheirName) {
  if (testing::rank() != 0) GTEST_SKIP() << "rank 0 reads";
  std::filesystem::create_directories(folder());
  const std::string path = folder() + "/launch.json";
  const auto with = [&](const std::string& text) {
    std::ofstream(path) << text;
    return read_launch_file(path);
  };
  const std::string good = R"({"schema":1,"launch":"L","out":"O","link":"netns:100mbit","cells":[{"cell_id":"ab","parameters":{"batch":8,"rate":0.5,"codec":"topk"}}]})";
  const Launch launch = with(good);
  EXPECT_EQ(launch.link, "netns:100mbit");
  EXPECT_EQ(launch.cells.at(0).parameters.integer("batch"), 8);
  for (std::size_t length : {0ul, 1ul, good.size() / 2, good.size() - 1}) EXPECT_THROW(with(good.substr(0, length)), UsageError);
  EXPECT_THROW(with(R"({"schema":2,"launch":"L","out":"O","cells":[]})"), UsageError);
  EXPECT_THROW(with(R"({"schema":1,"launch":"L","out":"O","cells":[]})"), UsageError);
  EXPECT_THROW(read_launch_file(folder() + "/none.json"), EnvironmentError);
  std::filesystem::remove_all(folder());
}

TEST(Recorder, WritesOneVerifiedRecordPerCellAndAJournal) {
  Communicator* const comm = &testing::world();
  const std::string out = folder() + "_out";
  {
    RecorderOptions options;
    options.program = "bench_test";
    options.command = {"bench_test", "--codec", "topk:fraction=0.1"};
    options.out = out;
    options.launch = "launch1";
    Recorder recorder(options, *comm);
    results::Parameters parameters;
    parameters.set("codec", "topk:fraction=0.10");
    parameters.set("batch", 8);
    const std::string id = results::cell_id("bench_test", comm->size(), "shm", parameters);
    recorder.declare(id, parameters);
    Cell cell;
    cell.cell_id = id;
    cell.parameters.values = {{"codec", "topk:fraction=0.10"}, {"batch", "8"}};
    recorder.launch_started();
    recorder.start(cell);
    Measured measured;
    measured.rows.emplace_back();
    measured.rows[0].traffic = "tp_forward";
    measured.samples.emplace_back();
    recorder.finish(cell, measured);
    recorder.launch_finished();
    EXPECT_EQ(recorder.exit_status(), 0);
    comm->barrier();
    const results::CellRecord record = results::read_cell_record(results::record_path(out, id));
    ASSERT_EQ(record.rows.size(), 1u);
    EXPECT_EQ(record.rows[0].codec, "topk:fraction=0.1") << "canonical, whatever was typed";
    EXPECT_EQ(record.rows[0].method, "topk");
    EXPECT_EQ(record.rows[0].batch, 8);
    EXPECT_EQ(record.rows[0].ranks, comm->size());
    EXPECT_EQ(record.rows[0].repro, (comm->size() > 1 ? "mpirun --oversubscribe -n " + std::to_string(comm->size()) + " " : std::string()) + "bench_test --batch 8 --codec topk:fraction=0.10");
    EXPECT_EQ(record.samples.at(0).cell_id, id);
    const auto entries = results::JournalReader(out + "/journal/launch1.jsonl").poll();
    ASSERT_EQ(entries.size(), 4u);
    EXPECT_EQ(entries[1].event, "cell_started");
    EXPECT_EQ(entries[2].event, "cell_finished");
    EXPECT_EQ(entries[2].cell_id, id);
  }
  comm->barrier();
  if (comm->rank() == 0) std::filesystem::remove_all(out);
}

// All ranks share this machine. Per second of wall time each takes 1 s of a core, others 0.2, the hypervisor 0.05: 0.25 cores of disturbance.
CpuReading played_reading(double at) {
  const double ranks = testing::size();
  return {at, {(ranks + 0.2) * at, 0.01 * at, 0.05 * at}, at, 0};
}

TEST(Recorder, TellsWhatOthersTookOfTheMachineMeanwhile) {
  Communicator* const comm = &testing::world();
  const std::string out = folder() + "_out";
  {
    RecorderOptions options;
    options.program = "bench_test";
    options.out = out;
    options.launch = "launch1";
    double now = 0;
    options.read_cpu = [&](bool with_processes) {
      CpuReading reading = played_reading(now += 10);
      if (with_processes) reading.carrying_s = 0.15 * now;  // shared memory is carried by no kernel thread
      return reading;
    };
    Recorder recorder(options, *comm);
    std::vector<Cell> cells(4);
    for (std::size_t i = 0; i < cells.size(); ++i) {
      results::Parameters parameters;
      parameters.set("batch", static_cast<int>(i));
      cells[i].cell_id = results::cell_id("bench_test", comm->size(), "shm", parameters);
      recorder.declare(cells[i].cell_id, parameters);
    }
    Measured measured, skipped;
    measured.rows.emplace_back();
    skipped.rows.emplace_back();
    skipped.rows[0].status = "SKIPPED";
    recorder.start(cells[0]);  // at 10
    recorder.start(cells[1]);  // at 20: cells of a group overlap
    recorder.finish(cells[0], measured);
    recorder.finish(cells[1], measured);
    recorder.finish(cells[2], measured);  // was never started
    recorder.start(cells[3]);
    recorder.finish(cells[3], skipped);
    comm->barrier();
    for (const std::size_t i : {0u, 1u}) {
      const auto attempts = results::read_cell_record(results::record_path(out, cells[i].cell_id)).training.attempts;
      ASSERT_EQ(attempts.size(), 1u) << i;
      EXPECT_NEAR(attempts[0].disturbance_cores, 0.25, 1e-9);
      EXPECT_DOUBLE_EQ(attempts[0].wall_s, 20);
      EXPECT_DOUBLE_EQ(attempts[0].own_cpu_s, 20 * comm->size()) << "of all ranks";
      EXPECT_NEAR(attempts[0].steal_s, 1, 1e-9);
      EXPECT_NEAR(attempts[0].interrupt_cpu_s, 0.2, 1e-9);
      EXPECT_EQ(attempts[0].carrying_cpu_s, 0);
      EXPECT_EQ(attempts[0].attempt, 1);
      EXPECT_EQ(attempts[0].used, 1);
      EXPECT_EQ(attempts[0].launch, "launch1");
    }
    for (const std::size_t i : {2u, 3u}) EXPECT_TRUE(results::read_cell_record(results::record_path(out, cells[i].cell_id)).training.attempts.empty()) << i;
  }
  comm->barrier();
  if (comm->rank() == 0) std::filesystem::remove_all(out);
  comm->barrier();
}

TEST(DisturbanceMeter, AsksForProcessesOncePerMachine) {
  Communicator* const comm = &testing::world();
  double now = 0;
  int asked = 0;
  DisturbanceMeter meter(*comm, true, [&](bool with_processes) {
    asked += with_processes ? 1 : 0;
    CpuReading reading = played_reading(now += 10);
    if (with_processes) reading.carrying_s = 0.15 * now;  // of what others took, this was ours
    return reading;
  });
  meter.start("cell");
  const std::optional<results::AttemptRow> row = meter.finish("cell");
  ASSERT_TRUE(row);
  EXPECT_NEAR(row->disturbance_cores, 0.10, 1e-9);
  EXPECT_NEAR(row->carrying_cpu_s, 1.5, 1e-9);
  EXPECT_EQ(asked, comm->rank() == 0 ? 2 : 0);
  EXPECT_FALSE(meter.finish("cell")) << "it has ended";
}

// Ranks that nap run between the ticks: the machine seems idle, yet others took 0.3 of a core and the hypervisor 0.05.
TEST(DisturbanceMeter, CountsWhatOtherProcessesUsedWhateverTheTickSaw) {
  Communicator* const comm = &testing::world();
  std::vector<std::int64_t> pids(static_cast<std::size_t>(comm->size()));
  const std::int64_t mine = getpid();
  comm->all_gather(&mine, sizeof mine, pids.data())->wait();
  double now = 0;
  DisturbanceMeter meter(*comm, true, [&](bool with_processes) {
    now += 10;
    CpuReading reading{now, {0.01 * now, 0, 0.05 * now}, 0.9 * now, 0};
    if (!with_processes) return reading;
    reading.carrying_s = 0.1 * now;
    reading.processes.emplace();
    for (const std::int64_t pid : pids) reading.processes->push_back({pid, 5, 0.9 * now, 0});
    reading.processes->push_back({1'000'000'000, 5, 0.3 * now, 0});  // beyond any rank's number
    reading.processes->push_back({1'000'000'001, 5, 0.1 * now, 0});  // carries the job's traffic
    return reading;
  });
  meter.start("cell");
  const std::optional<results::AttemptRow> row = meter.finish("cell");
  ASSERT_TRUE(row);
  EXPECT_NEAR(row->disturbance_cores, 0.35, 1e-9);
  EXPECT_NEAR(row->others_cpu_s, 4, 1e-9);
  EXPECT_NEAR(row->machine_cpu_s, 0.1, 1e-9);
}

TEST(Guarded, TurnsARefusalIntoARowOnAllRanks) {
  Communicator* const comm = &testing::world();
  std::vector<Measured> finished;
  BenchContext context{*comm, false, "shm", [&](const Cell&, Measured m) { finished.push_back(std::move(m)); }, [](const Cell&) {}};
  const Cell cell;
  EXPECT_TRUE(guarded(context, cell, [] {}));
  EXPECT_TRUE(finished.empty());
  EXPECT_FALSE(guarded(context, cell, [] { throw UsageError("cannot be"); }));
  EXPECT_FALSE(guarded(context, cell, [] { throw EnvironmentError("not here"); }));
  // One rank alone found a wrong number at the end of its cell: every rank learns it, in that rank's words.
  EXPECT_FALSE(guarded(context, cell, [&] {
    if (comm->rank() == comm->size() - 1) throw WrongResult("off by one");
  }));
  ASSERT_EQ(finished.size(), 3u);
  const char* expected[][2] = {{"FAILED", "cannot be"}, {"SKIPPED", "not here"}, {"WRONG", "off by one"}};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(finished[i].rows.at(0).status, expected[i][0]);
    EXPECT_EQ(finished[i].rows.at(0).reason, expected[i][1]);
  }
  EXPECT_THROW(guarded(context, cell, [] { throw RuntimeFailure("rank lost"); }), RuntimeFailure);
}

/// One lap of two ranks, the slower of which takes `us`.
std::vector<OperationReport> lap_of(double us) {
  std::vector<OperationReport> ranks(2);
  ranks[0].total_us = us / 2, ranks[1].total_us = us;
  return ranks;
}

TEST(Baseline, OnASlowLinkTheLibraryGoesOnOnlyWhereItIsClearlyFasterThanTheRing) {
  for (const bool slow : {false, true})
    for (const double library : {60.0, 96.0, 100.0, 140.0}) {
      Baseline baseline;
      EXPECT_TRUE(baseline.wants(DenseAlgorithm::library, slow) && baseline.wants(DenseAlgorithm::ring, slow));
      baseline.library.push_back(lap_of(library));
      baseline.ring.push_back(lap_of(100));
      EXPECT_TRUE(baseline.wants(DenseAlgorithm::ring, slow));
      EXPECT_EQ(baseline.wants(DenseAlgorithm::library, slow), !slow || library == 60) << library;
    }
  Baseline baseline;
  baseline.library.push_back(lap_of(96));
  baseline.ring = {lap_of(100), lap_of(101)};
  EXPECT_EQ(baseline.name(), "ring") << "what was dropped has lost";
  baseline.library.push_back(lap_of(96));
  EXPECT_EQ(baseline.name(), "library") << "as many laps, smaller median";
}

}  // namespace
}  // namespace thinwire::bench
