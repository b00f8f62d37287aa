#include "bench/collective/activation_group.h"

#include "bench/harness/error_metrics.h"
#include "bench/harness/link_trust.h"
#include "collectives/link/link_calibration.h"
#include "kernels/convert.h"

namespace thinwire::bench {
namespace {

/// Block of `index` of `blocks` rows of a matrix: what one tensor-parallel rank sends of a boundary tensor
/// (scatter/gather: the other ranks send the rest).
Tensor row_block(const Tensor& x, int index, int blocks) {
  const RowBlock block = shard_rows(x.shape().rows(), index, blocks);
  const std::int64_t columns = x.shape().columns();
  Tensor out(Shape{block.count, columns});
  std::memcpy(out.view().data(), x.as<float>().data() + block.first * columns, out.bytes());
  return out;
}

/// Rows that a trained codec is fitted on: eight per column of a tensor of 512 columns, more teach little.
constexpr std::int64_t most_fit_rows = 4096;

/// Largest error this family of codecs may show before it is called WRONG. Loose on purpose: codecs are proven
/// against their references in the tests; here it catches a broken link or protocol.
double plausible_error(const CodecTraits& traits) { return traits.lossless ? 5e-3 : 1.5; }

}  // namespace

ActivationGroup::ActivationGroup(BenchContext& context, const CellParameters& parameters)
    : context_(context),
      shared_(parameters),
      plan_(compute_plan(context.world)),
      tp_(static_cast<int>(parameters.integer("tp"))),
      pp_(static_cast<int>(parameters.integer("pp"))),
      rows_(parameters.integer("batch") * parameters.integer("seq")),
      hidden_(parameters.integer("hidden")),
      wire_(parse_dtype(parameters.text("comm-dtype"))),
      repetitions_(repetitions_of(parameters)),
      serial_(static_cast<int>(parameters.integer("serial"))) {
  const int ranks = context.world.size();
  if (tp_ < 1 || pp_ < 1 || tp_ * pp_ != ranks)
    throw UsageError("tp " + std::to_string(tp_) + " x pp " + std::to_string(pp_) + " needs " + std::to_string(tp_ * pp_) +
                     " ranks but " + std::to_string(ranks) + " were launched: mpirun -n " + std::to_string(tp_ * pp_));
  if (rows_ < 1 || hidden_ < 1) throw UsageError("--batch, --seq and --hidden must be at least 1");
  stage_ = context.world.rank() / tp_;
  tensor_index_ = context.world.rank() % tp_;
  tensor_group_ = context.world.split(stage_, tensor_index_);
  load_inputs();
  make_baselines();
}

void ActivationGroup::load_inputs() {
  const TrafficSource source(shared_);
  const std::int64_t batch = shared_.integer("batch"), seq = shared_.integer("seq");
  const auto take = [&](Input& input, CaptureQuery query, int parts, int part, int index_of_name, bool scattered, bool sent) {
    query.batch = batch;
    query.seq = seq;
    query.point = "late";
    const auto names = source.names(query);
    if (names.empty()) throw UsageError("the capture " + shared_.text("capture") + " holds no " + query.traffic + " at batch " +
                                        std::to_string(batch) + ", seq " + std::to_string(seq) + ": capture that shape");
    query.tensor = names[static_cast<std::size_t>(index_of_name) % names.size()];
    input.series = source.find(query, parts, Shape{batch, seq, hidden_});
    if (input.series->shape.columns() != hidden_)
      throw UsageError("--hidden " + std::to_string(hidden_) + " but the tensors of " + input.series->tensor + " have " +
                       std::to_string(input.series->shape.columns()) + " columns: give --hidden " + std::to_string(input.series->shape.columns()));
    input.part = part;
    input.sent = sent;
    // Two steps are enough to make repetitions differ; more would only fill memory.
    steps_ = std::min(2, input.series->steps);
    for (int step = input.series->steps - (sent ? steps_ : 1); step < input.series->steps; ++step) {
      Tensor x = input.series->load(step, part);
      if (scattered) x = row_block(x, tensor_index_, tp_);
      if (sent) input.wire.push_back(to_wire(x, wire_));
      input.steps.push_back(std::move(x));
    }
  };
  if (tp_ > 1) {
    CaptureQuery query;
    query.traffic = "tp_forward";
    query.parts = tp_;
    take(partial_sum_, query, tp_, tensor_index_, stage_, false, true);
    tensor_baseline_.emplace();
    const RowBlock block = shard_rows(rows_, tensor_index_, tp_);
    reference_.assign(static_cast<std::size_t>(block.count * hidden_), 0.0);
    for (int part = 0; part < tp_; ++part) {
      const Tensor x = partial_sum_.series->load(partial_sum_.series->steps - 1, part);
      add_to(reference_, x.as<float>().subspan(static_cast<std::size_t>(block.first * hidden_), reference_.size()));
    }
  }
  // Even boundaries first, then odd ones: a middle stage belongs to one of each.
  for (int parity = 0; parity < 2; ++parity) {
    const int mine = (stage_ % 2 == parity) ? stage_ : stage_ - 1;
    const bool takes_part = mine >= 0 && mine + 1 < pp_;
    auto pair = context_.world.split(takes_part ? mine * tp_ + tensor_index_ : -1, stage_);
    if (!takes_part) continue;
    Boundary boundary;
    boundary.pair = std::move(pair);
    boundary.upstream = stage_ == mine;
    CaptureQuery query;
    query.traffic = "pp_forward";
    // Boundary b of pp stages lies at the b-th of the model's captured boundaries, spread evenly.
    CaptureQuery here = query;
    here.batch = batch;
    here.seq = seq;
    here.point = "late";
    const int captured = static_cast<int>(source.names(here).size());
    if (captured < pp_ - 1 && !shared_.text("capture").empty())
      throw UsageError("the capture " + shared_.text("capture") + " holds " + std::to_string(captured) + " stage boundaries at batch " +
                       std::to_string(batch) + ", seq " + std::to_string(seq) + " but " + std::to_string(pp_) + " stages need " +
                       std::to_string(pp_ - 1) + " different ones: capture again with a larger --max-mib");
    const int index = captured < pp_ - 1 ? mine : (mine + 1) * (captured + 1) / pp_ - 1;
    take(boundary.activation, query, 1, 0, index, true, boundary.upstream);
    query.traffic = "pp_backward";
    take(boundary.gradient, query, 1, 0, index, true, !boundary.upstream);
    boundaries_.push_back(std::move(boundary));
  }
  if (pp_ > 1) {
    forward_baseline_.emplace();
    backward_baseline_.emplace();
  }
}

/// Evenly spaced rows of the first captured step, summed over the parts.
Tensor ActivationGroup::fit_sample(const Input& input, int parts) const {
  const std::int64_t rows = input.series->shape.rows(), used = std::min(rows, most_fit_rows);
  Tensor sample(Shape{used, hidden_});
  sample.fill_zero();
  for (int part = 0; part < parts; ++part) {
    const Tensor x = input.series->load(0, part);
    for (std::int64_t r = 0; r < used; ++r)
      accumulate(sample.as<float>().subspan(static_cast<std::size_t>(r * hidden_), static_cast<std::size_t>(hidden_)),
                 x.as<float>().subspan(static_cast<std::size_t>(r * rows / used * hidden_), static_cast<std::size_t>(hidden_)));
  }
  return sample;
}

MessageKey ActivationGroup::key(const Input& input, int step, int boundary) const {
  MessageKey k;
  k.tensor = mix_stream(hash_name(input.series->tensor), static_cast<std::uint64_t>(boundary));
  k.step = step;
  return k;
}

/// Channels of the dense baselines live as long as the group and are warmed up once: a baseline must not pay for first
/// contact that its cells do not pay for.
void ActivationGroup::make_baselines() {
  if (tensor_baseline_) {
    for (DenseAlgorithm algorithm : {DenseAlgorithm::library, DenseAlgorithm::ring}) {
      tensor_baseline_channels_.emplace_back(*tensor_group_,
                                         ChannelOptions{TrafficClass::tp_forward, uncompressed, Form::fair, Protocol::dense, wire_, algorithm, false});
      tensor_baseline_channels_.back().empty_bucket_before_transfers(token_bucket_bytes(context_.link));
    }
    baseline_out_.reshape(partial_sum_.wire[0].shape(), wire_);
  }
  for (Boundary& b : boundaries_) {
    b.baseline_out.reshape(b.activation.steps[0].shape(), wire_);
    for (TrafficClass traffic : {TrafficClass::pp_forward, TrafficClass::pp_backward}) {
      b.baseline.emplace_back(*b.pair, ChannelOptions{traffic, uncompressed, Form::fair, Protocol::point_to_point, wire_, DenseAlgorithm::library, false});
      b.baseline.back().empty_bucket_before_transfers(token_bucket_bytes(context_.link));
    }
  }
}

void ActivationGroup::baseline_round() {
  const std::size_t turn = static_cast<std::size_t>(rounds_++) % 2;
  const bool slow = is_slow(context_.link);
  std::vector<bool> wanted;  // decided before a lap of this round counts
  for (DenseAlgorithm a : {DenseAlgorithm::library, DenseAlgorithm::ring}) wanted.push_back(tensor_baseline_ && tensor_baseline_->wants(a, slow));
  for (std::size_t i = 0; i < tensor_baseline_channels_.size(); ++i) {
    if (!wanted[i]) continue;
    const auto& inputs = partial_sum_.wire;
    const auto body = [&] {
      return tensor_baseline_channels_[i].all_reduce(inputs[turn % inputs.size()].view(), baseline_out_.view(), key(partial_sum_, 0, 0)).wait();
    };
    Laps& laps = i == 0 ? tensor_baseline_->library : tensor_baseline_->ring;
    if (laps.empty() && !slow) lap(context_.world, body);
    laps.push_back(lap(context_.world, body));
  }
  if (!forward_baseline_) return;
  for (const bool backward : {false, true}) {
    const auto body = [&] {
      std::vector<Operation> operations;
      for (Boundary& b : boundaries_) {
        const Input& input = backward ? b.gradient : b.activation;
        const bool sends = b.upstream != backward;
        Channel& channel = b.baseline[backward ? 1 : 0];
        const int other = b.upstream ? 1 : 0;
        operations.push_back(sends ? channel.send(input.wire[turn % input.wire.size()].view(), other, key(input, 0, 0))
                                   : channel.receive(b.baseline_out.view(), other, key(input, 0, 0)));
      }
      wait_all(operations);
      std::vector<OperationReport> reports;
      for (Operation& o : operations) reports.push_back(o.wait());
      return combine(reports);
    };
    Baseline& baseline = backward ? *backward_baseline_ : *forward_baseline_;
    if (baseline.library.empty() && !slow) lap(context_.world, body);
    baseline.library.push_back(lap(context_.world, body));
  }
}

results::CellRow ActivationGroup::new_row(const Cell& cell, TrafficClass traffic, const Input* input) const {
  results::CellRow row;
  row.cell_id = cell.cell_id;
  row.traffic = name_of(traffic);
  row.tp = tp_;
  row.pp = pp_;
  row.dtype = name_of(wire_);
  if (input != nullptr) {
    row.tensor = input->series->tensor;
    row.source = input->series->source;
    row.corpus = input->series->corpus;
  }
  return row;
}

void ActivationGroup::run(std::span<const Cell> cells) {
  // Calibration needs the link for itself; its verdict marks rows MISTRUSTED.
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
    finish(pending);
    link.judge(pending.measured);
    context_.finish(pending.cell, std::move(pending.measured));
  }
}

void ActivationGroup::measure(Pending& pending) {
  if (tp_ > 1) tensor_forward(pending);
  if (pp_ > 1) boundaries(pending);
}

void ActivationGroup::tensor_forward(Pending& pending) {
  const CellParameters& p = pending.cell.parameters;
  Channel channel(*tensor_group_, {TrafficClass::tp_forward, p.text("codec"), parse_form(p.text("form")), parse_protocol(p.text("protocol")),
                                   wire_, tensor_baseline_->algorithm(), false});
  channel.empty_bucket_before_transfers(token_bucket_bytes(context_.link));
  Input& input = partial_sum_;
  const int last = steps_ - 1;
  if (channel.codec().codec->traits().needs_fit) {
    // Fitted on the sum at the first captured step, measured on the last: held out.
    const Tensor sum = fit_sample(input, tp_);
    const ConstTensorView samples[] = {sum.view()};
    channel.fit(samples);
  }
  // A dense cell travels in the wire type as it is, like its baseline: no conversion is charged to it.
  const bool dense = channel.codec().is_dense();
  Tensor out(input.steps[0].shape(), dense ? wire_ : DType::f32);
  int turn = 0;
  const auto body = [&] {
    const int step = (last + turn++) % (last + 1);  // the first lap, which is verified, takes the last step
    const Tensor& x = dense ? input.wire[static_cast<std::size_t>(step)] : input.steps[static_cast<std::size_t>(step)];
    return channel.all_reduce(x.view(), out.view(), key(input, step, 0)).wait();
  };
  channel.set_compute(plan_.timed ? ComputeMode::serial : ComputeMode::real);
  auto verified = lap(context_.world, body);

  // Verify my block of rows against the float64 sum of all parts.
  const RowBlock block = shard_rows(rows_, tensor_index_, tp_);
  Tensor scratch;
  const ErrorMetrics error = error_metrics_over_ranks(
      context_.world, from_wire(out, scratch).subspan(static_cast<std::size_t>(block.first * hidden_), reference_.size()), reference_);
  require_close(error, plausible_error(channel.codec().codec->traits()), "tp_forward by " + p.text("codec"));

  results::CellRow row = new_row(pending.cell, TrafficClass::tp_forward, &input);
  row.operation = "all_reduce";
  row.protocol = name_of(channel.protocol());
  row.codec = channel.codec().expression.canonical();
  error.fill(row);
  CodecLaps laps;
  if (!context_.check_only) laps = measure_codec(context_.world, plan_, serial_, repetitions_, [&](ComputeMode m) { channel.set_compute(m); }, body, std::move(verified),
                                                     dense && is_slow(context_.link));
  pending.measured.rows.push_back(std::move(row));
  pending.laps.push_back(std::move(laps));
}

void ActivationGroup::boundaries(Pending& pending) {
  const CellParameters& p = pending.cell.parameters;
  std::vector<Channel> forward, backward;
  std::vector<Tensor> decoded, returned;
  bool dense = false;
  std::string canonical, protocol;
  const std::string codec = p.text("codec");
  const CodecTraits traits = make_codec(codec).codec->traits();
  for (Boundary& b : boundaries_) {
    forward.emplace_back(*b.pair, ChannelOptions{TrafficClass::pp_forward, codec, parse_form(p.text("form")), Protocol::automatic, wire_,
                                                 DenseAlgorithm::library, false});
    backward.emplace_back(*b.pair, ChannelOptions{TrafficClass::pp_backward, "none", Form::fair, Protocol::automatic, wire_,
                                                  DenseAlgorithm::library, false});
    for (Channel* c : {&forward.back(), &backward.back()}) c->empty_bucket_before_transfers(token_bucket_bytes(context_.link));
    dense = forward.back().codec().is_dense();
    if (traits.needs_fit) {
      const Tensor training = fit_sample(b.activation, 1);
      const ConstTensorView samples[] = {training.view()};
      forward.back().fit(samples);
    }
    const DType type = dense ? wire_ : DType::f32;
    decoded.push_back(b.upstream ? Tensor() : Tensor(b.activation.steps[0].shape(), type));
    returned.push_back(b.upstream ? Tensor(b.gradient.steps[0].shape(), type) : Tensor());
  }
  canonical = parse_codec(codec).canonical();
  const int last = steps_ - 1;
  const Tensor nothing;  // what a receiver "sends"
  const auto pass = [&](bool back, int& turn) {
    const int step = last == 0 ? 0 : (last + turn++) % (last + 1);
    std::vector<Operation> operations;
    for (std::size_t i = 0; i < boundaries_.size(); ++i) {
      Boundary& b = boundaries_[i];
      const int other = b.upstream ? 1 : 0;
      const Input& input = back ? b.gradient : b.activation;
      const MessageKey k = key(b.activation, step, 0);
      const Tensor& x = input.sent ? (dense ? input.wire : input.steps)[static_cast<std::size_t>(step)] : nothing;
      if (!back) operations.push_back(b.upstream ? forward[i].send(x.view(), other, k) : forward[i].receive(decoded[i].view(), other, k));
      else if (dense) operations.push_back(b.upstream ? backward[i].receive(returned[i].view(), other, k) : backward[i].send(x.view(), other, k));
      else
        operations.push_back(b.upstream ? backward[i].receive_backward(returned[i].view(), other, k, forward[i])
                                        : backward[i].send_backward(x.view(), other, k, forward[i]));
    }
    wait_all(operations);
    std::vector<OperationReport> reports;
    for (Operation& o : operations) reports.push_back(o.wait());
    return combine(reports);
  };
  for (const bool back : {false, true}) {
    int turn = 0;
    std::vector<Channel>& channels = back ? backward : forward;
    const auto body = [&] { return pass(back, turn); };
    const auto set_compute = [&](ComputeMode m) {
      for (Channel& c : channels) c.set_compute(m);
    };
    set_compute(plan_.timed ? ComputeMode::serial : ComputeMode::real);
    auto verified = lap(context_.world, body);

    // The receiving end of each boundary compares with what the other end had.
    ErrorSums sums;
    for (std::size_t i = 0; i < boundaries_.size(); ++i) {
      if (boundaries_[i].upstream != back) continue;
      const Tensor& truth = (back ? boundaries_[i].gradient : boundaries_[i].activation).steps.back();
      Tensor scratch;
      sums.add(from_wire(back ? returned[i] : decoded[i], scratch), truth.as<float>());
    }
    const ErrorMetrics error = sums.metrics_over_ranks(context_.world);
    require_close(error, plausible_error(traits), std::string(back ? "pp_backward" : "pp_forward") + " by " + codec);

    const Input* input = boundaries_.empty() ? nullptr : back ? &boundaries_[0].gradient : &boundaries_[0].activation;
    results::CellRow row = new_row(pending.cell, back ? TrafficClass::pp_backward : TrafficClass::pp_forward, input);
    row.operation = "send_recv";
    row.protocol = name_of(Protocol::point_to_point);
    row.codec = canonical;
    error.fill(row);
    CodecLaps laps;
    if (!context_.check_only) laps = measure_codec(context_.world, plan_, serial_, repetitions_, set_compute, body, std::move(verified),
                                                       dense && is_slow(context_.link));
    pending.measured.rows.push_back(std::move(row));
    pending.laps.push_back(std::move(laps));
  }
}

void ActivationGroup::finish(Pending& pending) {
  for (std::size_t i = 0; i < pending.measured.rows.size() && !context_.check_only; ++i) {
    results::CellRow& row = pending.measured.rows[i];
    const Baseline& baseline = row.traffic == "tp_forward" ? *tensor_baseline_ : row.traffic == "pp_forward" ? *forward_baseline_ : *backward_baseline_;
    fill_times(row, plan_, pending.laps[i], baseline.faster(), baseline.name(), row.operation == "send_recv" ? (pp_ - 1) * tp_ : 0);
    append_samples(pending.measured.samples, row, pending.laps[i].timed, false);
    append_samples(pending.measured.samples, row, baseline.faster(), true);
  }
}

}  // namespace thinwire::bench
