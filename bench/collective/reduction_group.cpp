#include "bench/collective/reduction_group.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "bench/harness/error_metrics.h"
#include "bench/harness/link_trust.h"
#include "collectives/link/link_calibration.h"
#include "core/process/real_time.h"

namespace thinwire::bench {

std::vector<BenchOption> reduction_options() {
  std::vector<BenchOption> options = {{"dp", "2", "data-parallel replicas"},
                                      {"tensor", "", "captured tensor; default the first"},
                                      {"batch", "8", "batch of the captured pass"},
                                      {"seq", "128", "sequence length of the captured pass"},
                                      {"rows", "512", "rows of a generated tensor"},
                                      {"hidden", "512", "columns of a generated tensor"},
                                      {"point", "late", "early | late point of training"},
                                      {"method", "", "short name for the record; default the codec's name"},
                                      {"codec", "none", "codec expression, see --list"},
                                      {"form", "fair", "fair | released"},
                                      {"protocol", "automatic", "automatic | rounds | gather | two_shot"},
                                      {"comm-dtype", "f16", "type of the dense baseline: f16 | bf16 | f32"},
                                      {"serial", "2", "repetitions with one rank at a time, when ranks outnumber cores"}};
  for (const auto& more : {input_options(), counted_repetitions_options()}) options.insert(options.end(), more.begin(), more.end());
  return options;
}

namespace {

Tensor rows_of(const Tensor& x, const RowBlock& block) {
  Tensor part(Shape{block.count, x.shape().columns()});
  const std::size_t first = static_cast<std::size_t>(block.first * x.shape().columns());
  std::ranges::copy(x.as<float>().subspan(first, part.as<float>().size()), part.as<float>().begin());
  return part;
}

}  // namespace

ReductionGroup::ReductionGroup(BenchContext& context, const CellParameters& parameters, ReductionPlan plan)
    : context_(context),
      plan_(std::move(plan)),
      compute_(compute_plan(context.world)),
      wire_(parse_dtype(parameters.text("comm-dtype"))),
      repetitions_(repetitions_of(parameters)),
      serial_(static_cast<int>(parameters.integer("serial"))) {
  // All captured steps: warm start and error feedback need a history.
  for (int step = 0; step < plan_.series->steps; ++step) {
    inputs_.push_back(plan_.series->load(step, plan_.part));
    whole_ = inputs_.back().shape();
    if (gathers()) inputs_.back() = rows_of(inputs_.back(), own_block());
    wire_inputs_.push_back(to_wire(inputs_.back(), wire_));
  }
  const RowBlock block = result_block();
  const std::int64_t columns = whole_.columns();
  reference_.assign(static_cast<std::size_t>(block.count * columns), 0.0);
  for (const auto& [series, part] : plan_.everybody) {
    const Tensor x = series->load(series->steps - 1, part);
    add_to(reference_, x.as<float>().subspan(static_cast<std::size_t>(block.first * columns), reference_.size()));
  }
  if (plan_.compared_with.empty()) return;
  Tensor sum = plan_.series->load(plan_.series->steps - 1, plan_.part);
  for (auto& group : plan_.compared_with)
    Channel(*group, {plan_.traffic, uncompressed, Form::fair, Protocol::dense, DType::f32, DenseAlgorithm::ring, false})
        .all_reduce(sum.view(), sum.view(), MessageKey{})
        .wait();
  const auto values = sum.as<float>().subspan(static_cast<std::size_t>(block.first * columns), reference_.size());
  std::copy(values.begin(), values.end(), reference_.begin());
}

RowBlock ReductionGroup::own_block() const {
  return owners().two_levels() ? owners().own(whole_.rows()) : shard_rows(whole_.rows(), context_.world.rank(), context_.world.size());
}

RowBlock ReductionGroup::result_block() const {
  if (gathers()) return {0, whole_.rows()};
  if (plan_.shares > 0) return shard_rows(whole_.rows(), plan_.share, plan_.shares);
  return own_block();
}

std::unique_ptr<Exchange> ReductionGroup::make_exchange(const ChannelOptions& options, const std::string& inside) {
  const std::int64_t bucket = token_bucket_bytes(context_.link);
  if (!owners().two_levels()) return make_chain(plan_.steps, plan_.operation, options, bucket);
  return make_two_levels(context_.world, {plan_.operation, plan_.axis, inside, plan_.under_way, bucket}, options);
}

void ReductionGroup::baseline_round() {
  // In two steps a trainer's sums go round our ring (models/parallel/channels/dense_algorithm.h), and there is no other.
  std::vector<DenseAlgorithm> algorithms = {DenseAlgorithm::ring};
  if (!owners().two_levels()) algorithms.insert(algorithms.begin(), DenseAlgorithm::library);
  if (baselines_.empty()) {
    for (DenseAlgorithm algorithm : algorithms) {
      DenseBaseline dense{make_exchange({plan_.traffic, uncompressed, Form::fair, Protocol::dense, wire_, algorithm, false}, uncompressed), {}};
      for (std::size_t i = 0; i < dense.exchange->channels().size(); ++i) dense.outs.emplace_back(result_shape(), wire_);
      baselines_.push_back(std::move(dense));
    }
  }
  const bool slow = is_slow(context_.link);
  std::optional<RealTimePriority> undisturbed;
  if (owners().two_levels() && compute_.timed) undisturbed.emplace();
  const Tensor& x = wire_inputs_[std::max(baseline_.library.size(), baseline_.ring.size()) % wire_inputs_.size()];
  std::vector<bool> wanted;  // decided before a lap of this round counts
  for (DenseAlgorithm a : algorithms) wanted.push_back(baseline_.wants(a, slow));
  for (std::size_t i = 0; i < baselines_.size(); ++i) {
    if (!wanted[i]) continue;
    const auto body = [&] { return baselines_[i].exchange->run(x, baselines_[i].outs, MessageKey{}); };
    Laps& laps = algorithms[i] == DenseAlgorithm::library ? baseline_.library : baseline_.ring;
    if (laps.empty() && !slow) lap(context_.world, body);  // first contact is not charged
    laps.push_back(lap(context_.world, body));
  }
}

Shape ReductionGroup::result_shape() const {
  return scatters() ? Shape{result_block().count, whole_.columns()} : whole_;
}

void ReductionGroup::measure(Pending& pending) {
  const CellParameters& p = pending.cell.parameters;
  const Form form = plan_.released_steps && parse_codec(p.text("codec")).is_dense() ? Form::fair : parse_form(p.text("form"));
  ChannelOptions options{plan_.traffic, p.text("codec"), form, parse_protocol(p.text("protocol")), wire_, baseline_.algorithm(), false};
  options.overlap_blocks = plan_.overlap_blocks;
  // The library's reduce-scatter takes all blocks at once.
  const bool by_blocks = scatters() && compresses(options.codec) && make_codec(options.codec, form).codec->traits().rounds_per_shard;
  if (by_blocks && options.overlap_blocks) options.algorithm = DenseAlgorithm::ring;
  const std::string inside = p.has("codec-inside") ? p.text("codec-inside") : uncompressed;
  if (compresses(inside) && !owners().two_levels()) throw UsageError("--codec-inside " + inside + " codes what stays inside a node, but there are no nodes of several ranks; give --dp-nodes");
  const auto exchange = make_exchange(options, inside);
  const std::vector<Channel*> channels = exchange->channels();
  const auto any = [&](auto has) { return std::ranges::any_of(channels, [&](Channel* channel) { return has(channel->codec()); }); };
  const bool dense = !any([](const CodecStack& stack) { return !stack.is_dense(); }), slow = is_slow(context_.link);
  for (Channel* channel : channels) {
    if (!channel->codec().codec->traits().needs_fit) continue;
    // Fitted on rank 0's replica at the first step (all ranks read the same data), measured at the last.
    const Tensor training = plan_.everybody.front().first->load(0, plan_.everybody.front().second);
    const ConstTensorView samples[] = {training.view()};
    channel->fit(samples);
  }
  const RowBlock block = result_block();
  const std::int64_t columns = whole_.columns();
  std::vector<Tensor> outs;
  for (std::size_t i = 0; i < channels.size(); ++i) outs.emplace_back(result_shape(), dense ? wire_ : DType::f32);
  MessageKey key;
  key.tensor = hash_name(plan_.series->tensor);
  std::optional<RealTimePriority> undisturbed;  // ranks that sleep in place of codecs wake when their wait ends
  const auto set_compute = [&](ComputeMode mode, double scale = 1) {
    for (Channel* channel : channels) channel->set_compute(mode, scale);
    if (mode == ComputeMode::replay && owners().two_levels()) undisturbed.emplace();
  };
  std::vector<OperationReport> verified;
  // The history of a codec that keeps state, one real pass per captured step; the last step is verified.
  const bool history = any([](const CodecStack& stack) { return stack.codec->traits().stateful || !stack.wrappers.empty(); });
  set_compute(compute_.timed ? ComputeMode::serial : ComputeMode::real);
  for (std::size_t step = history ? 0 : inputs_.size() - 1; step < inputs_.size(); ++step) {
    key.step = static_cast<std::int64_t>(step);
    verified = lap(context_.world, [&] { return exchange->run(dense ? wire_inputs_[step] : inputs_[step], outs, key); });
  }
  Tensor scratch;
  const std::span<const float> result = from_wire(outs.back(), scratch);
  const std::size_t first = scatters() ? 0 : static_cast<std::size_t>(block.first * columns);
  const ErrorMetrics error = error_metrics_over_ranks(context_.world, result.subspan(first, reference_.size()), reference_);
  const bool lossless = !any([](const CodecStack& stack) { return !stack.codec->traits().lossless; });
  // A released form may be as wrong as its authors' code: its error is a result.
  const double most = lossless ? 5e-3 : form == Form::released ? std::numeric_limits<double>::infinity() : 3.0;
  if (plan_.verified) require_close(error, most, name_of(plan_.traffic) + " by " + p.text("codec"));

  results::CellRow row;
  row.cell_id = pending.cell.cell_id;
  row.traffic = name_of(plan_.traffic);
  row.operation = plan_.operation;
  row.protocol = name_of(channels.back()->protocol());
  row.codec = channels.back()->codec().expression.canonical();  // of two levels that of what crosses nodes
  row.dp = p.integer("dp");
  row.dtype = name_of(wire_);
  row.tensor = plan_.series->tensor;
  row.source = plan_.series->source;
  row.corpus = plan_.series->corpus;
  row.hidden = columns;
  error.fill(row);
  int turn = 0;
  const auto body = [&] {
    const std::size_t step = static_cast<std::size_t>(turn++) % inputs_.size();
    key.step = static_cast<std::int64_t>(inputs_.size()) + turn;  // time goes on: stateful codecs see new messages
    return exchange->run(dense ? wire_inputs_[step] : inputs_[step], outs, key);
  };
  if (!context_.check_only) pending.laps = measure_codec(context_.world, compute_, serial_, repetitions_, set_compute, body, std::move(verified), dense && slow);
  if (!context_.check_only && compute_.timed && owners().two_levels()) {
    constexpr double no_time = 1e-6;
    set_compute(ComputeMode::replay, no_time);
    Laps bare;
    while (static_cast<int>(bare.size()) < repetitions_) bare.push_back(lap(context_.world, body));
    pending.bare_us = median_total_us(bare);
  }
  pending.measured.rows.push_back(std::move(row));
  pending.steps = bytes_of_steps(*exchange, context_.world);
  for (std::size_t i = 0; i < pending.steps.size(); ++i) {
    results::CellRow step = static_cast<const results::CellRow&>(pending.measured.rows.front());
    static_cast<results::ErrorColumns&>(step) = {};
    step.traffic += exchange->step_name(i);
    step.protocol = name_of(channels[i]->protocol());
    step.codec = channels[i]->codec().expression.canonical();
    pending.measured.rows.push_back(std::move(step));
  }
}

/// Bytes of the steps apart; and of the whole what crosses nodes, against what the link carries.
void ReductionGroup::add_steps(Pending& pending, const StepBytes& baseline) const {
  if (pending.steps.empty()) return;
  const auto mean = [](std::span<const Bytes> ranks, std::int64_t Bytes::* bytes) {
    std::int64_t sum = 0;
    for (const Bytes& b : ranks) sum += b.*bytes;
    return sum / static_cast<std::int64_t>(ranks.size());
  };
  for (std::size_t i = 0; i < pending.steps.size(); ++i) {
    const std::vector<Bytes>& ranks = pending.steps[i];
    results::CellRow& row = pending.measured.rows[i + 1];
    row.dense_bytes = mean(ranks, &Bytes::dense), row.payload_bytes = mean(ranks, &Bytes::payload);
    row.link_bytes = mean(ranks, &Bytes::link), row.received_bytes = mean(ranks, &Bytes::received);
    row.link_bytes_max = std::ranges::max(ranks, {}, &Bytes::link).link;
    if (i >= baseline.size()) continue;
    row.baseline_link_bytes = mean(baseline[i], &Bytes::link);
    row.ratio = static_cast<double>(row.baseline_link_bytes) / static_cast<double>(std::max<std::int64_t>(1, row.link_bytes));
  }
  results::CellRow& whole = pending.measured.rows.front();
  whole.break_even_gbps = results::not_measured;  // of one link; here are two
  const double needed = card_time_us(context_.link, pending.steps.back(), plan_.axis.inside);
  if (std::isnan(needed) || context_.check_only) return;
  whole.bound_fraction = needed / whole.total_us, whole.target_fraction = 0.9;
  if (context_.world.rank() != 0) return;
  std::fprintf(context_.text, "# %s by %s, %s across nodes: what leaves a node needs %.0f us, %.2f of the exchange's %.0f us", whole.traffic.c_str(), pending.measured.rows[1].codec.c_str(), whole.codec.c_str(), needed,
               whole.bound_fraction, whole.total_us);
  if (!std::isnan(pending.bare_us)) std::fprintf(context_.text, " and %.2f of the %.0f us with codecs that take no time", needed / pending.bare_us, pending.bare_us);
  std::fputc('\n', context_.text);
}

void ReductionGroup::run(std::span<const Cell> cells) {
  LinkTrust link(context_);
  std::vector<Pending> group(cells.size());
  BaselineSchedule schedule(context_.check_only ? 0 : repetitions_, cells.size(), [&] { baseline_round(); });
  for (std::size_t i = 0; i < cells.size(); ++i) {
    group[i].cell = cells[i];
    schedule.before_cell(i);
    context_.start(cells[i]);
    group[i].good = guarded(context_, cells[i], [&] { measure(group[i]); });
  }
  schedule.finish();
  const StepBytes baseline = baselines_.empty() ? StepBytes() : bytes_of_steps(*baselines_.back().exchange, context_.world);
  for (Pending& pending : group) {
    if (!pending.good) continue;
    results::CellRow& row = pending.measured.rows.front();
    if (!context_.check_only) {
      fill_times(row, compute_, pending.laps, baseline_.faster(), baseline_.name());
      append_samples(pending.measured.samples, row, pending.laps.timed, false);
      append_samples(pending.measured.samples, row, baseline_.faster(), true);
    }
    add_steps(pending, baseline);
    link.judge(pending.measured);
    context_.finish(pending.cell, std::move(pending.measured));
  }
}

}  // namespace thinwire::bench
