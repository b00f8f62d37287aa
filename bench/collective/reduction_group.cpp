#include "bench/collective/reduction_group.h"

#include <algorithm>

#include "bench/harness/error_metrics.h"
#include "bench/harness/link_trust.h"
#include "collectives/link/link_calibration.h"

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
  for (BenchOption& option : input_options()) options.push_back(option);
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
    if (gathers()) {
      const RowBlock own = shard_rows(whole_.rows(), context_.world.rank(), context_.world.size());
      inputs_.back() = rows_of(inputs_.back(), own);
    }
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

RowBlock ReductionGroup::result_block() const {
  if (gathers()) return {0, whole_.rows()};
  if (plan_.shares > 0) return shard_rows(whole_.rows(), plan_.share, plan_.shares);
  return shard_rows(whole_.rows(), context_.world.rank(), context_.world.size());
}

std::vector<Channel> ReductionGroup::make_channels(const ChannelOptions& options) {
  std::vector<Channel> channels;
  for (auto& group : plan_.steps) {
    channels.emplace_back(*group, options);
    channels.back().empty_bucket_before_transfers(token_bucket_bytes(context_.link));
  }
  return channels;
}

OperationReport ReductionGroup::reduce(std::vector<Channel>& channels, const Tensor& x, std::span<Tensor> outs, const MessageKey& key) {
  if (gathers()) return channels[0].all_gather(x.view(), outs[0].view(), key).wait();
  if (scatters()) return channels[0].reduce_scatter(x.view(), outs[0].view(), key).wait();
  std::vector<OperationReport> reports;
  const Tensor* from = &x;
  for (std::size_t i = 0; i < channels.size(); ++i) {
    reports.push_back(channels[i].all_reduce(from->view(), outs[i].view(), key.with_slice(static_cast<std::int32_t>(i))).wait());
    from = &outs[i];
  }
  return combine(reports);
}

void ReductionGroup::baseline_round() {
  if (baselines_.empty()) {
    for (DenseAlgorithm algorithm : {DenseAlgorithm::library, DenseAlgorithm::ring}) {
      DenseBaseline dense{make_channels({plan_.traffic, uncompressed, Form::fair, Protocol::dense, wire_, algorithm, false}), {}};
      for (std::size_t i = 0; i < dense.channels.size(); ++i) dense.outs.emplace_back(result_shape(), wire_);
      baselines_.push_back(std::move(dense));
    }
  }
  const bool slow = is_slow(context_.link);
  const Tensor& x = wire_inputs_[std::max(baseline_.library.size(), baseline_.ring.size()) % wire_inputs_.size()];
  std::vector<bool> wanted;  // decided before a lap of this round counts
  for (DenseAlgorithm a : {DenseAlgorithm::library, DenseAlgorithm::ring}) wanted.push_back(baseline_.wants(a, slow));
  for (std::size_t i = 0; i < baselines_.size(); ++i) {
    if (!wanted[i]) continue;
    const auto body = [&] { return reduce(baselines_[i].channels, x, baselines_[i].outs, MessageKey{}); };
    Laps& laps = i == 0 ? baseline_.library : baseline_.ring;
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
  auto channels = make_channels(options);
  const CodecTraits traits = channels[0].codec().codec->traits();
  const bool dense = channels[0].codec().is_dense(), slow = is_slow(context_.link);
  if (traits.needs_fit) {
    // Fitted on rank 0's replica at the first step (all ranks read the same data), measured at the last.
    const Tensor training = plan_.everybody.front().first->load(0, plan_.everybody.front().second);
    const ConstTensorView samples[] = {training.view()};
    for (Channel& channel : channels) channel.fit(samples);
  }
  const RowBlock block = result_block();
  const std::int64_t columns = whole_.columns();
  std::vector<Tensor> outs;
  for (std::size_t i = 0; i < channels.size(); ++i)
    outs.emplace_back(result_shape(), dense ? wire_ : DType::f32);
  MessageKey key;
  key.tensor = hash_name(plan_.series->tensor);
  const auto set_compute = [&](ComputeMode mode) {
    for (Channel& channel : channels) channel.set_compute(mode);
  };
  std::vector<OperationReport> verified;
  // The history of a codec that keeps state, one real pass per captured step; the last step is verified.
  const bool history = traits.stateful || !channels[0].codec().wrappers.empty();
  set_compute(compute_.timed ? ComputeMode::serial : ComputeMode::real);
  for (std::size_t step = history ? 0 : inputs_.size() - 1; step < inputs_.size(); ++step) {
    key.step = static_cast<std::int64_t>(step);
    verified = lap(context_.world, [&] { return reduce(channels, dense ? wire_inputs_[step] : inputs_[step], outs, key); });
  }
  Tensor scratch;
  const std::span<const float> result = from_wire(outs.back(), scratch);
  const std::size_t first = scatters() ? 0 : static_cast<std::size_t>(block.first * columns);
  const ErrorMetrics error = error_metrics_over_ranks(context_.world, result.subspan(first, reference_.size()), reference_);
  if (plan_.verified) require_close(error, traits.lossless ? 5e-3 : 3.0, name_of(plan_.traffic) + " by " + p.text("codec"));

  results::CellRow row;
  row.cell_id = pending.cell.cell_id;
  row.traffic = name_of(plan_.traffic);
  row.operation = plan_.operation;
  row.protocol = name_of(channels[0].protocol());
  row.codec = channels[0].codec().expression.canonical();
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
    return reduce(channels, dense ? wire_inputs_[step] : inputs_[step], outs, key);
  };
  if (!context_.check_only) pending.laps = measure_codec(context_.world, compute_, serial_, repetitions_, set_compute, body, std::move(verified), dense && slow);
  pending.measured.rows.push_back(std::move(row));
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
  for (Pending& pending : group) {
    if (!pending.good) continue;
    results::CellRow& row = pending.measured.rows.front();
    if (!context_.check_only) {
      fill_times(row, compute_, pending.laps, baseline_.faster(), baseline_.name());
      append_samples(pending.measured.samples, row, pending.laps.timed, false);
      append_samples(pending.measured.samples, row, baseline_.faster(), true);
    }
    link.judge(pending.measured);
    context_.finish(pending.cell, std::move(pending.measured));
  }
}

}  // namespace thinwire::bench
