#include "bench/codec/codec_bench.h"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <new>
#include <numeric>
#include <sstream>

#include "bench/codec/codec_check.h"
#include "bench/codec/codec_choice.h"
#include "bench/codec/codec_input.h"
#include "bench/codec/codec_parts_table.h"
#include "bench/harness/options.h"
#include "bench/harness/timing.h"
#include "core/clock.h"
#include "core/formulas.h"
#include "core/joined.h"
#include "core/statistics.h"
#include "kernels/codec/message.h"
#include "kernels/matrix/product.h"
#include "kernels/memory_rate.h"

namespace thinwire::bench {
namespace {

/// Restores the number of OpenMP threads.
class ThreadCount {
 public:
  explicit ThreadCount(int threads) : before_(omp_get_max_threads()) {
    omp_set_num_threads(threads > 0 ? threads : omp_get_num_procs());
  }
  ~ThreadCount() { omp_set_num_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

/// The products inside encode and decode, run bare with the same shapes: what BLAS alone would take.
struct BareProducts {
  std::function<void()> encode, decode;
};

BareProducts bare_products(CodecStack& stack, ConstTensorView x, std::vector<float>& scratch) {
  const auto* products = stack.codec->as<Products>();
  if (products == nullptr) return {};
  const Shape& shape = x.shape();
  const std::int64_t n = shape.rows(), h = shape.columns(), e = products->product_width(shape);
  scratch.assign(static_cast<std::size_t>((n + h) * e + n * h), 0.5f);
  float *left = scratch.data(), *right = left + n * e, *out = right + h * e;
  const float* data = x.as<float>().data();
  const auto run = [=](const std::vector<CodecProduct>& all) {
    return [=] {
      using Operand = CodecProduct::Operand;
      const auto written = [&](Operand which) { return which == Operand::left ? left : which == Operand::right ? right : out; };
      const auto read = [&](Operand which) { return which == Operand::tensor ? data : written(which); };
      for (const CodecProduct& p : all)
        matrix_product(p.transpose_a ? Op::transposed : Op::plain, p.transpose_b ? Op::transposed : Op::plain, p.m, p.n, p.k, read(p.a), read(p.b), written(p.c));
    };
  };
  return {run(products->encode_products(shape)), run(products->decode_products(shape))};
}

double timed_us(const std::function<void()>& body) {
  const Stopwatch watch;
  body();
  return static_cast<double>(watch.elapsed_ns()) * 1e-3;
}

/// One message, as a sender with its wrappers and then a receiver would handle it: of `batch` samples where the rows divide into them, else of one; the same samples
/// and tokens every time.
class Message {
 public:
  Message(CodecStack& stack, ConstTensorView x, std::int64_t batch)
      : stack_(stack), x_(x), samples_(static_cast<std::size_t>(x.shape().rows() % batch == 0 ? batch : 1)), tokens_(bench_tokens(x.shape().rows())), out_(x.shape()),
        payload_(stack.codec->max_payload_bytes(x.shape())) {
    key_.tensor = hash_name("bench");
    std::iota(samples_.begin(), samples_.end(), 0);
    key_.samples = samples_;
    key_.tokens = tokens_;
  }
  void encode() {
    ++key_.step;
    size_ = encode_message(stack_, x_, key_, {payload_.data(), payload_.capacity()}, scratch_);
  }
  void decode() { decode_message(stack_, {payload_.data(), size_}, key_, out_.view()); }

 private:
  CodecStack& stack_;
  ConstTensorView x_;
  MessageKey key_;
  std::vector<std::int64_t> samples_;
  std::vector<std::int32_t> tokens_;
  Tensor out_;
  MessageScratch scratch_;
  Buffer payload_;
  std::size_t size_ = 0;
};

void time_codec(const CellParameters& p, CodecStack& stack, ConstTensorView x, results::CellRow& row, std::vector<results::SampleRow>& samples) {
  Message message(stack, x, std::max<std::int64_t>(1, p.integer("batch")));
  std::vector<float> scratch;
  const BareProducts bare = bare_products(stack, x, scratch);
  std::vector<double> encode, decode, encode_cpu, decode_cpu, memory, blas_encode, blas_decode;
  // Everything that is compared takes turns, so that a busy moment of the machine hits all of it.
  for (RepetitionLoop loop(stop_rule(p)); loop.next();) {
    const std::int64_t cpu0 = process_cpu_ns();
    const double e = timed_us([&] { message.encode(); });
    const std::int64_t cpu1 = process_cpu_ns();
    const double d = timed_us([&] { message.decode(); });
    const std::int64_t cpu2 = process_cpu_ns();
    loop.add(e + d);
    if (loop.warming_up()) {
      if (bare.encode) bare.encode(), bare.decode();
      continue;
    }
    encode.push_back(e);
    decode.push_back(d);
    encode_cpu.push_back(static_cast<double>(cpu1 - cpu0) * 1e-3);
    decode_cpu.push_back(static_cast<double>(cpu2 - cpu1) * 1e-3);
    if (memory.size() < 3 || loop.repetition() % 8 == 0) memory.push_back(measure_memory_rate(x.bytes(), 0, 0.0).gb_per_s);
    if (bare.encode) {
      blas_encode.push_back(timed_us(bare.encode));
      blas_decode.push_back(timed_us(bare.decode));
    }
    results::SampleRow sample;
    sample.traffic = row.traffic;
    sample.repetition = static_cast<std::int64_t>(encode.size()) - 1;
    sample.encode_us = e;
    sample.decode_us = d;
    sample.total_us = e + d;
    samples.push_back(sample);
  }
  // The verified message's, as the ratio: of codecs that draw, payloads differ from message to message.
  const auto bytes = static_cast<double>(x.bytes()), payload = static_cast<double>(row.payload_bytes);
  row.encode_us = median(encode);
  row.decode_us = median(decode);
  row.total_us = row.encode_us + row.decode_us;
  std::vector<double> totals(encode.size());
  for (std::size_t i = 0; i < encode.size(); ++i) totals[i] = encode[i] + decode[i];
  row.total_iqr_us = summarize(totals).interquartile_range;
  row.encode_cpu_us = median(encode_cpu);
  row.decode_cpu_us = median(decode_cpu);
  row.repetitions = static_cast<std::int64_t>(encode.size());
  row.memcpy_gbps = median(memory);
  row.encode_gbps = gigabytes_per_second(bytes, row.encode_us);
  row.decode_gbps = gigabytes_per_second(bytes, row.decode_us);
  row.bound_fraction_encode = bound_fraction(bytes, payload, row.memcpy_gbps, row.encode_us);
  row.bound_fraction_decode = bound_fraction(payload, bytes, row.memcpy_gbps, row.decode_us);
  row.break_even_gbps = break_even_gbps(bytes, payload, row.encode_us + row.decode_us);
  if (!blas_encode.empty()) {
    row.blas_fraction_encode = median(blas_encode) / row.encode_us;
    row.blas_fraction_decode = median(blas_decode) / row.decode_us;
  }
}

/// The codec's goals, where it has some.
void fill_goals(const CodecTraits& traits, results::CellRow& row) {
  if (traits.encode_goal > 0) row.target_fraction_encode = traits.encode_goal;
  if (traits.decode_goal > 0) row.target_fraction_decode = traits.decode_goal;
}

/// Fits, verifies and times one codec; fills `row`.
void measure_row(BenchContext& context, const CellParameters& p, CodecStack& stack, const CodecInput& input, results::CellRow& row, std::vector<results::SampleRow>& samples) {
  const bool fitted = stack.codec->traits().needs_fit;
  const Tensor& x = input.measured(fitted);
  row.dense_bytes = static_cast<std::int64_t>(x.bytes());
  // Out of all codecs, those that training would refuse for this tensor say nothing about it.
  if (context.run_options.contains("all")) stack.codec->check_message(x.shape());
  if (fitted) {
    std::vector<ConstTensorView> training;
    for (const Tensor& t : input.training) training.push_back(t.view());
    stack.codec->as<Fit>()->fit(training);
  }
  const CodecCheck check = check_codec(stack, x.view());
  check.error.fill(row);
  row.payload_bytes = static_cast<std::int64_t>(check.payload_bytes);
  if (check.payload_bytes > 0) row.ratio = static_cast<double>(row.dense_bytes) / static_cast<double>(check.payload_bytes);
  if (context.check_only) return;
  fill_goals(stack.codec->traits(), row);
  time_codec(p, stack, x.view(), row, samples);
}

results::CellRow codec_row(BenchContext& context, const CellParameters& p, const std::string& expression, const CodecInput& input,
                           std::vector<results::SampleRow>& samples) {
  results::CellRow row;
  row.traffic = "codec";
  row.operation = "encode_decode";
  row.protocol = "point_to_point";
  row.compute = "real";
  row.dtype = "f32";
  row.codec = expression;
  row.form = p.text("form");
  row.tensor = input.series->tensor;
  row.tensor_class = input.series->traffic;
  row.source = input.series->source;
  row.corpus = input.series->corpus;
  row.hidden = input.whole.shape().columns();
  row.threads = omp_get_max_threads();
  row.oversubscription = static_cast<double>(row.threads) / omp_get_num_procs();
  const auto failed = [&](results::Status status, const std::string& reason) {
    row.status = results::name_of(status);
    row.reason = reason;
  };
  try {
    CodecStack stack = make_codec(row.codec, parse_form(row.form));
    measure_row(context, p, stack, input, row, samples);
  } catch (const WrongResult& error) {
    failed(results::Status::wrong, error.what());
  } catch (const UsageError& error) {  // who asks for all codecs means those that can take the tensor
    failed(context.run_options.contains("all") ? results::Status::skipped : results::Status::failed, error.what());
  } catch (const EnvironmentError& error) {
    failed(results::Status::skipped, error.what());
  } catch (const std::bad_alloc&) {
    failed(results::Status::skipped, "this machine has too little memory for this codec and tensor");
  }
  return row;
}

std::vector<std::string> expressions(const std::string& text) {
  std::vector<std::string> list;
  std::istringstream words(text);
  for (std::string word; words >> word;) list.push_back(word);
  if (list.empty()) throw UsageError("--codec is empty; give one or more codec expressions, see --list");
  return list;
}

/// --all becomes the list of codecs, so that a record names what was run; the rules of the closing table are read before anything is measured.
bool prepare(CommandLine& line) {
  choice_rules(line.run_options);
  if (!line.run_options.contains("all")) return true;
  if (!line.cells_file.empty() || line.values.contains("codec")) throw UsageError("--all stands beside --codec or --cells: it runs every codec with its defaults and its presets; leave one out");
  const auto form = line.values.find("form");
  line.values["codec"] = joined(preset_expressions(form == line.values.end() ? Form::fair : parse_form(form->second)), " ");
  line.values.try_emplace("max-time", "0.5");
  return true;
}

bool wants_choice(const BenchContext& context) {
  return std::ranges::any_of(std::array{"all", "max-vnmse", "links"}, [&](const char* name) { return context.run_options.contains(name); });
}

/// Rows are shown when the cell is complete; until then its journal, and a terminal, say where it is.
void tell_progress(BenchContext& context, const Cell& cell, const std::string& expression, std::size_t number, std::size_t of) {
  const std::string text = std::to_string(number) + " of " + std::to_string(of) + ": " + expression;
  if (context.note) context.note(cell, text);
  if (isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r\033[K%s%s", text.c_str(), number == of ? "\r\033[K" : "");
}

void run_group(BenchContext& context, std::span<const Cell> cells) {
  if (context.world.size() != 1)
    throw UsageError("bench_codec measures one process; start it without mpirun (or with -n 1), not on " + std::to_string(context.world.size()) + " ranks");
  for (const Cell& cell : cells) {
    context.start(cell);
    const CellParameters& p = cell.parameters;
    const auto measure = [&] {
      const ThreadCount threads(static_cast<int>(p.integer("threads")));
      (void)stop_rule(p);  // what is wrong with it is no codec's
      const std::vector<std::string> codecs = expressions(p.text("codec"));
      const bool fits = std::ranges::any_of(codecs, [](const std::string& e) { return make_codec(e).codec->traits().needs_fit; });
      const CodecInput input = load_codec_input(p, fits);
      Measured measured;
      for (const std::string& expression : codecs) {
        if (codecs.size() > 1) tell_progress(context, cell, expression, measured.rows.size() + 1, codecs.size());
        measured.rows.push_back(codec_row(context, p, expression, input, measured.samples));
      }
      const std::vector<results::CellRow> rows = measured.rows;
      context.finish(cell, std::move(measured));
      if (wants_choice(context)) print_choice(context.text, rows, choice_rules(context.run_options));
      if (context.run_options.contains("breakdown") && !context.check_only) print_codec_parts(context.text, p, codecs, input.measured(fits).view());
    };
    if (context.launched)
      guarded(context, cell, measure);
    else
      measure();  // no other cell waits: what is wrong with the tensor ends the program
  }
}

}  // namespace

BenchProgram codec_bench() {
  BenchProgram program;
  program.name = "bench_codec";
  program.summary = "Encode and decode speed of codecs against memcpy, verified before it is timed";
  program.options = {{"codec", "cast quantize:bits=8 quantize:bits=2 topk randomk autoencoder powersgd", "one or more codec expressions, separated by spaces"},
                     {"form", "fair", "fair or released"},
                     {"threads", "0", "OpenMP threads; 0: every core that this process may use"},
                     {"batch", "32", "batch x seq = rows"},
                     {"seq", "512", "batch x seq = rows"},
                     {"hidden", "512", "columns (generated tensors; a captured one has its own)"},
                     {"class", "tp_forward", "captured: traffic class of the tensor"},
                     {"tensor", "", "captured: name of the tensor; empty: the first one of its class and shape"},
                     {"point", "late", "captured: early or late in training"},
                     {"parts", "2", "captured: number of parts that the tensor was split into"}};
  for (const BenchOption& option : input_options()) program.options.push_back(option);
  program.run_options = {{"all", "every codec with its defaults and its presets instead of --codec, for 0.5 s each unless --max-time says otherwise, and closing tables: which codec for which link", false}};
  program.run_options.push_back({"breakdown", "and a closing table: how long the parts of codecs take that name them (sketch), against what memory must move for each", false});
  for (const RunOption& option : choice_options()) program.run_options.push_back(option);
  program.prepare = prepare;
  program.run_group = run_group;
  return program;
}

}  // namespace thinwire::bench
