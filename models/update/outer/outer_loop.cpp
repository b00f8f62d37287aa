#include "models/update/outer/outer_loop.h"

#include <algorithm>
#include <cmath>
#include <exception>

#include "collectives/process/rank_clock.h"
#include "core/tensor_names.h"
#include "kernels/codec/registry.h"
#include "models/training/config/train_config.h"

namespace thinwire {
namespace {

constexpr const char* exchange_name = "outer_gradient";

MessageKey key_of(const std::string& tensor, std::int64_t step) {
  MessageKey key;
  key.tensor = tensor_id(tensor);
  key.step = step;
  return key;
}

/// Elements up to the next cache line.
std::int64_t on_line(std::int64_t elements) {
  return (elements + 15) / 16 * 16;
}

}  // namespace

template <typename T>
OuterLoop<T>::OuterLoop(const UpdateContext<T>& c, const OuterSettings& settings)
    : parts_(c.store.parts()),
      clock_(c.clock),
      place_(c.mesh.data_coordinates()),
      replicas_(c.mesh.shape().data().replicas),
      stage_(c.mesh.coordinates().pp),
      first_stage_(c.mesh.first_stage()),
      outer_(settings.step),
      schedule_(settings.schedule),
      mixing_(settings.mixing),
      aligns_(c.options.flag("alignment")),
      exchange_(find_channel(c.channels, exchange_name)),
      inner_(
          make_update_policy<T>(*c.inner, c.config, c.mesh, c.store, c.channels, c.tensor_control, c.clock)),
      fragments_(static_cast<std::size_t>(settings.schedule.fragments())),
      homes_(parts_.size()),
      offsets_(parts_.size()) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const OwnedPart<T>& part = parts_[i];
    if (outer_.momentum > 0) momentum_.emplace_back(part.weights.shape(), dtype_of<T>).fill_zero();
    Fragment& f = fragments_[static_cast<std::size_t>(
        fragment_of(part.unit, c.config.model.layers, schedule_.fragments(), settings.layout))];
    f.parts.push_back(i);
    homes_[i] = {&f, f.elements};
    f.elements += on_line(part.weights.elements());
  }
  std::int64_t largest = 0;
  for (Fragment& f : fragments_) {
    f.global.reshape({f.elements}, dtype_of<T>);
    largest = std::max(largest, f.elements);
  }
  for (std::size_t i = 0; i < parts_.size(); ++i)
    copy_bytes(global(i), parts_[i].weights.data(), parts_[i].weights.bytes());
  if (schedule_.overlaps()) under_way_.reshape({largest}, dtype_of<T>);
}

template <typename T>
void OuterLoop<T>::begin_step(std::int64_t step) {
  step_ = step;
  inner_->begin_step(step);
}

template <typename T>
void OuterLoop<T>::finish_reduction() {
  inner_->finish_reduction();
  count_waiting_inside();
}

// A replica's gradient is what its own step is made of, so it is clipped by its own norm; ranks that have it whole need no other.
template <typename T>
NormScope OuterLoop<T>::clip_scope() const {
  return inner_->clip_scope() == NormScope::all ? NormScope::replica : inner_->clip_scope();
}

template <typename T>
void OuterLoop<T>::finish_step(const StepContext& step) {
  inner_->finish_step(step);
  count_waiting_inside();
  // Durations for a replay are measured over a few steps, which must have one of everything.
  if (clock_.mode() == ComputeMode::serial) {
    for (int f = 0; f < schedule_.fragments(); ++f) wait(f), begin(f), end(f);
    return;
  }
  const std::int64_t done = step.step + 1;
  if (const int f = schedule_.begins(done); f >= 0) begin(f);
  if (const int f = schedule_.ends(done); f >= 0) end(f);
}

template <typename T>
OuterLoop<T>::~OuterLoop() {
  if (std::uncaught_exceptions() > 0) return;  // then channels do not go on either
  try {
    for (Fragment& f : fragments_)
      for (Operation& sum : f.sums) sum.wait();
  } catch (const Error&) {  // nobody cares for the result any more
  }
}

// A tied table's copies on two stages stay equal bits only if both arrive as one and the same rule would have
// it: they travel whole, and of three replicas or more as a message of their own: a ring's blocks of a longer
// one, whose rest differs, would add them in another order on either stage.
template <typename T>
bool OuterLoop<T>::codes(std::size_t i) const {
  const OwnedPart<T>& part = parts_[i];
  const Parameter<T>& p = *part.parameter;
  return exchange_ && is_matrix(p) && !part.tied_table &&
         exchange_->codes(part.unit, stage_, key_of(p.name(), step_), p.elements());
}

// On a slow link every message costs latencies, so that what no codec takes is one. Which that is may change
// with the step (warm-up of a rule).
template <typename T>
void OuterLoop<T>::lay_out(Fragment& f) {
  f.whole = 0, f.coded.clear(), f.apart.clear();
  const auto place = [&](std::size_t i) {
    offsets_[i] = f.whole;
    f.whole += parts_[i].weights.elements();
  };
  for (const std::size_t i : f.parts)
    if (!is_matrix(*parts_[i].parameter)) place(i);
  f.vectors = f.whole;
  for (const std::size_t i : f.parts) {
    if (!is_matrix(*parts_[i].parameter)) continue;
    if (codes(i))
      f.coded.push_back(i);
    else if (parts_[i].tied_table && replicas_ > 2)
      f.apart.push_back(i);
    else
      place(i);
  }
  std::int64_t end = f.whole;
  for (const std::vector<std::size_t>* own : {&f.coded, &f.apart})
    for (const std::size_t i : *own) {
      offsets_[i] = on_line(end);
      end = offsets_[i] + parts_[i].weights.elements();
    }
  TW_ASSERT(end <= f.elements);
}

template <typename T>
void OuterLoop<T>::begin(int fragment) {
  Fragment& f = fragments_[static_cast<std::size_t>(fragment)];
  lay_out(f);
  clock_.run("pseudo-gradient", fragment, -1, [&] {
    if (!schedule_.overlaps())
      for (const std::size_t i : f.parts) copy_bytes(kept(i), global(i), parts_[i].weights.bytes());
    for (const std::size_t i : f.parts)
      pseudo_gradient<T>(parts_[i].weights.elements(), kept(i),
                         static_cast<const T*>(parts_[i].weights.data()), moved(i));
  });
  if (!exchange_) return;
  if (aligns_ && !clock_.replays()) align(f);
  for (const std::size_t i : f.coded) {
    const TensorView d(moved(i), dtype_of<T>, parts_[i].weights.shape());
    f.sums.push_back(exchange_->coded()->all_reduce(d, d, key_of(parts_[i].parameter->name(), step_)));
  }
  for (const std::size_t i : f.apart) {
    const TensorView d(moved(i), dtype_of<T>, parts_[i].weights.shape());
    f.sums.push_back(exchange_->dense().all_reduce(d, d, key_of(parts_[i].parameter->name(), step_)));
  }
  if (f.whole == 0) return;
  const TensorView d(travelling(f), dtype_of<T>, {f.whole});
  f.sums.push_back(
      exchange_->dense().all_reduce(d, d, key_of("whole of fragment " + std::to_string(fragment), step_)));
}

template <typename T>
void OuterLoop<T>::align(Fragment& f) {
  std::vector<std::span<const T>> pieces;
  for (const std::size_t i : f.parts)
    if (is_matrix(*parts_[i].parameter)) pieces.emplace_back(moved(i), static_cast<std::size_t>(parts_[i].weights.elements()));
  if (f.vectors > 0) pieces.emplace_back(travelling(f), static_cast<std::size_t>(f.vectors));
  double squares = 0, of_mean = 0;
  for (const std::span<const T> piece : pieces)
    for (const T x : piece) squares += static_cast<double>(x) * static_cast<double>(x);
  const double length = std::sqrt(squares);
  int number = 0;
  for (const std::span<const T> piece : pieces) {
    const auto n = static_cast<std::int64_t>(piece.size());
    T* const e = shaped<T>(direction_, {n});
    for (std::size_t i = 0; i < piece.size(); ++i) e[i] = static_cast<T>(length > 0 ? static_cast<double>(piece[i]) / length : 0);
    Operation sum = exchange_->dense().all_reduce(direction_.view(), direction_.view(), key_of("direction " + std::to_string(number++), step_));
    const std::int64_t begin = RankClock::now_ns();
    sum.wait();
    this->waited_us += static_cast<double>(RankClock::now_ns() - begin) * 1e-3;
    for (std::int64_t i = 0; i < n; ++i) of_mean += static_cast<double>(e[i]) * static_cast<double>(e[i]);
  }
  alignment_ = (replicas_ * of_mean - 1) / (replicas_ - 1);
}

template <typename T>
std::vector<typename UpdatePolicy<T>::Told> OuterLoop<T>::told() {
  const double last = std::exchange(alignment_, std::numeric_limits<double>::quiet_NaN());
  if (std::isnan(last)) return {};
  return {{"outer_alignment", last}};
}

template <typename T>
void OuterLoop<T>::wait(int fragment) {
  Fragment& f = fragments_[static_cast<std::size_t>(fragment)];
  if (f.sums.empty()) return;
  const std::int64_t begin = RankClock::now_ns();
  for (Operation& sum : f.sums) sum.wait();
  const std::int64_t end = RankClock::now_ns();
  this->waited_us += static_cast<double>(end - begin) * 1e-3;
  Trace::add(TraceCategory::wait, "outer gradient", begin, end);
  f.sums.clear();
}

template <typename T>
void OuterLoop<T>::end(int fragment) {
  wait(fragment);
  const Fragment& f = fragments_[static_cast<std::size_t>(fragment)];
  clock_.run("outer step", fragment, -1, [&] {
    for (const std::size_t i : f.parts) {
      const std::int64_t n = parts_[i].weights.elements();
      outer_step<T>(outer_, n, moved(i), momentum_.empty() ? nullptr : data_of<T>(momentum_[i]), kept(i));
      take_over<T>(mixing_, n, kept(i), static_cast<T*>(parts_[i].weights.data()));
    }
    if (!schedule_.overlaps())
      for (const std::size_t i : f.parts) copy_bytes(global(i), kept(i), parts_[i].weights.bytes());
  });
}

// Local weights wait in the memory of the global ones.
template <typename T>
bool OuterLoop<T>::begin_evaluation() {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    T* const local = static_cast<T*>(parts_[i].weights.data());
    std::swap_ranges(local, local + parts_[i].weights.elements(), global(i));
  }
  return true;
}

template <typename T>
StateSlot OuterLoop<T>::of_replica(StateSlot slot) const {
  slot.copy = slot.copy || (slot.owner == Owner::replicated && place_.within_replica != 0);
  slot.owner = Owner::per_replica;
  slot.replica = place_.replica, slot.replicas = replicas_;
  return slot;
}

template <typename T>
std::vector<StateSlot> OuterLoop<T>::weights(std::vector<StateSlot> of_store) {
  std::vector<StateSlot> slots;
  for (StateSlot& slot : of_store) {
    slot = of_replica(std::move(slot));
    slot.name = "local_" + slot.name;
    slot.sources = {"weights"};
    slots.push_back(std::move(slot));
  }
  for (std::size_t i = 0; i < parts_.size(); ++i)
    slots.push_back(slot_of(parts_[i], "weights",
                            TensorView(global(i), dtype_of<T>, parts_[i].weights.shape()), first_stage_));
  return slots;
}

template <typename T>
std::vector<StateSlot> OuterLoop<T>::state() {
  std::vector<StateSlot> slots;
  for (StateSlot& slot : inner_->state()) slots.push_back(of_replica(std::move(slot)));
  for (std::size_t i = 0; i < momentum_.size(); ++i) slots.push_back(slot_of(parts_[i], "outer_momentum", momentum_[i].view(), first_stage_));
  if (!schedule_.overlaps()) return slots;
  // What is under way arrives first, and lies where gradients do between two steps. Which fragment it is follows from the number of the step.
  const int fragment = schedule_.under_way(step_ + 1);
  for (std::size_t i = 0; i < parts_.size(); ++i) std::fill_n(static_cast<T*>(parts_[i].gradient.data()), parts_[i].gradient.elements(), T{0});
  if (fragment >= 0) {
    wait(fragment);
    for (const std::size_t i : fragments_[static_cast<std::size_t>(fragment)].parts) copy_bytes(parts_[i].gradient.data(), moved(i), parts_[i].gradient.bytes());
  }
  for (std::size_t i = 0; i < parts_.size(); ++i) slots.push_back(slot_of(parts_[i], "outer_gradient", parts_[i].gradient, first_stage_));
  return slots;
}

template <typename T>
std::map<std::string, double> OuterLoop<T>::numbers() const {
  std::map<std::string, double> all = inner_->numbers();
  if (!std::isnan(alignment_)) all["outer_alignment"] = alignment_;
  return all;
}

template <typename T>
void OuterLoop<T>::set_numbers(const std::map<std::string, double>& numbers) {
  inner_->set_numbers(numbers);
  const auto aligned = numbers.find("outer_alignment");
  alignment_ = aligned == numbers.end() ? std::numeric_limits<double>::quiet_NaN() : aligned->second;
}

template <typename T>
void OuterLoop<T>::loaded(std::int64_t steps, bool anew) {
  inner_->loaded(steps, anew);
  if (anew) inner_->moments_anew(steps);
  step_ = steps - 1;
  const int fragment = schedule_.under_way(steps);
  if (fragment < 0) return;
  Fragment& f = fragments_[static_cast<std::size_t>(fragment)];
  lay_out(f);
  for (const std::size_t i : f.parts)
    copy_bytes(moved(i), parts_[i].gradient.data(), parts_[i].gradient.bytes());
}

template class OuterLoop<float>;
template class OuterLoop<double>;

std::set<TrafficClass> outer_classes(const TrainConfig&) { return {TrafficClass::outer_gradient}; }

std::vector<ChannelSpec> outer_channels(const TrainConfig&, ProcessMesh&) {
  return {{.name = exchange_name, .traffic = TrafficClass::outer_gradient, .group = "replica", .average = true}};
}

void check_outer_loop(const TrainConfig& c) {
  const auto refuse = [&](const std::string& what, const std::string& why) { throw UsageError(what + " does not go with --optimizer " + parse_update(c.optimizer).name() + ": " + why); };
  if (c.device != DeviceKind::host) refuse("--device cuda", "the outer step exists on the host only; use --device host");
  if (c.error_interval > 0)
    refuse("--error-interval " + std::to_string(c.error_interval), "it compares messages of every so many steps, and the outer gradient has steps of its own; use --error-interval 0");
  if (const int replicas = c.mesh.data().replicas; parse_update(c.optimizer).options.flag("alignment") && (replicas == 1 || c.mesh.ranks() != replicas))
    refuse("alignment=true", "it compares what two or more replicas of one rank each have moved, and here " + std::to_string(replicas) + (replicas == 1 ? " replica has " : " replicas have ") +
                                 std::to_string(c.mesh.ranks()) + " ranks; make --dp-replicas the number of ranks, or leave it out");
  for (const auto& [traffic, rule] : c.compress)
    if (c.mesh.data().replicas > 1 && rule.active() && make_codec(rule.codec, c.form).codec->as<Trainable>() != nullptr)
      refuse("compress." + name_of(traffic) + " = " + rule.codec, "the weights of that codec would be others in each replica, and the outer step averages the model's alone; take a codec that does not learn");
  const auto gathered = c.compress.find(TrafficClass::param_all_gather);
  if (gathered == c.compress.end()) return;
  for (const std::string& codec : {gathered->second.codec, gathered->second.inside}) {
    if (!compresses(codec)) continue;
    const CodecStack stack = make_codec(codec, c.form);
    if (stack.codec->traits().stateful || !stack.wrappers.empty())
      refuse("compress.param_all_gather = " + codec, "an evaluation gathers the global weights, others than those that are trained, and a codec that remembers what it sent would mix the two; take one without state");
  }
}

std::vector<ParameterSpec> outer_parameters(const char* default_rate, std::vector<ParameterSpec> more) {
  std::vector<ParameterSpec> all = {
      {.name = "inner_steps", .kind = ParameterSpec::Kind::integer, .default_value = "30", .minimum = 1, .maximum = 1e9, .help = "steps that replicas take apart"},
      {.name = "rate", .default_value = default_rate, .minimum = 0, .maximum = 100, .help = "outer learning rate: share of the mean movement that the global weights follow"},
      {.name = "alignment", .kind = ParameterSpec::Kind::flag, .default_value = "false", .help = "measure the mean cosine of what two replicas moved, by one more exact sum; validations tell it"}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::vector<ParameterSpec> momentum_parameters() {
  return {{.name = "momentum", .default_value = "0.9", .minimum = 0, .maximum = 1, .help = "share of the sum of outer gradients that an outer step keeps"},
          {.name = "nesterov", .kind = ParameterSpec::Kind::flag, .default_value = "true", .help = "step along d + momentum u instead of u"}};
}

}  // namespace thinwire
