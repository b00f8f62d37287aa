// An outer loop around an update policy (local SGD: Stich, ICLR 2019, arXiv 1805.09767; DiLoCo: Douillard et
// al. 2023, arXiv 2311.08105; Streaming DiLoCo: arXiv 2501.18512). Each replica (--dp-replicas) trains by
// itself with the policy inside: its own samples, clipping and optimizer state, gradients summed over the
// ranks of that replica alone. Every so many steps what replicas have moved is averaged, in class
// outer_gradient, and one step of gradient descent is taken with it on weights that all share (outer_step.h).
//
// The global weights are the run's: they are evaluated and are a checkpoint's "weights". A checkpoint holds
// besides, of each replica, its local weights and the inner state, so that a run goes on bit for bit in the
// middle of a round.
//
// In an exchange a matrix that a rule covers is a message of its own; all others and vectors are one, dense.
//
// alignment=true: before they are averaged, pseudo-gradients are compared. Of R replicas that moved by d_r,
// with e_r = d_r / |d_r|, the mean cosine of two of them is
//   (R |mean of e_r|^2 - 1) / (R - 1)
// so one more exact sum over replicas, of e_r, is all that travels for it. A validation tells the last one as
// "outer_alignment".
#pragma once

#include <limits>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "collectives/communicator/process_mesh.h"
#include "models/update/outer/fragment_schedule.h"
#include "models/update/outer/outer_step.h"
#include "models/update/update_policy.h"

namespace thinwire {

struct OuterSettings {
  OuterStep step;
  FragmentSchedule schedule;
  double mixing = 0;
  FragmentLayout layout = FragmentLayout::blocks;
};

template <typename T>
class OuterLoop : public UpdatePolicy<T> {
 public:
  OuterLoop(const UpdateContext<T>& context, const OuterSettings& settings);
  /// Waits for an exchange that is under way: channels outlive this and would go on with its memory.
  ~OuterLoop() override;

  void begin_step(std::int64_t step) override;
  void expect(int unit) override { inner_->expect(unit); }
  void reduce(int unit, int micro, bool last) override { inner_->reduce(unit, micro, last); }
  void finish_reduction() override;
  NormScope clip_scope() const override;
  void add_sum_of_squares(double* sum) const override { inner_->add_sum_of_squares(sum); }
  void check_finite() const override { inner_->check_finite(); }
  void finish_step(const StepContext& step) override;
  bool begin_evaluation() override;
  bool end_evaluation() override { return begin_evaluation(); }
  std::vector<StateSlot> state() override;
  std::vector<StateSlot> weights(std::vector<StateSlot> of_store) override;
  std::map<std::string, double> numbers() const override;
  void set_numbers(const std::map<std::string, double>& numbers) override;
  void loaded(std::int64_t steps, bool anew) override;
  std::vector<typename UpdatePolicy<T>::Told> told() override;

 private:
  /// Of the store's parts, by their numbers.
  struct Fragment {
    std::vector<std::size_t> parts;
    std::int64_t elements = 0;  ///< with what fills cache lines up
    Tensor global;              ///< the global weights
    // Of the exchange that began last: what lies at the start of travelling() travels whole, as one message.
    std::int64_t vectors = 0, whole = 0;  ///< elements of vectors, which stand first, and of all of it
    std::vector<std::size_t> coded, apart;  ///< behind it, messages of their own: matrices that a codec takes; tied tables
    std::vector<Operation> sums;
  };
  struct Home {
    Fragment* fragment = nullptr;
    std::int64_t offset = 0;  ///< in Fragment::global
  };

  bool codes(std::size_t i) const;
  /// Fills offsets_ and what the fragment says of its exchange, for one that begins in this step.
  void lay_out(Fragment& fragment);
  void begin(int fragment);
  /// Before anything of it travels: fills alignment_.
  void align(Fragment& fragment);
  void wait(int fragment);
  void end(int fragment);
  /// The global weights of part i.
  T* global(std::size_t i) { return data_of<T>(homes_[i].fragment->global) + homes_[i].offset; }
  // From begin to end pseudo-gradients need memory in one piece, which gradients do not have. Beside inner
  // steps, which need gradients and may be evaluated, that is memory of its own. Without, it is that of the
  // global weights, which wait where gradients lie.
  T* travelling(Fragment& f) { return data_of<T>(schedule_.overlaps() ? under_way_ : f.global); }
  /// The pseudo-gradient of part i.
  T* moved(std::size_t i) { return travelling(*homes_[i].fragment) + offsets_[i]; }
  /// Its global weights, at that time.
  T* kept(std::size_t i) {
    return schedule_.overlaps() ? global(i) : static_cast<T*>(parts_[i].gradient.data());
  }
  StateSlot of_replica(StateSlot slot) const;
  void count_waiting_inside() { this->waited_us += std::exchange(inner_->waited_us, 0); }

  const std::vector<OwnedPart<T>>& parts_;
  ComputeClock& clock_;
  DataCoordinates place_;
  int replicas_, stage_;
  bool first_stage_;
  OuterStep outer_;
  FragmentSchedule schedule_;
  double mixing_;
  bool aligns_;
  double alignment_ = std::numeric_limits<double>::quiet_NaN();  ///< of the exchange that began last; NaN: none since it was told
  ChannelPair* exchange_;  ///< null: one replica
  std::unique_ptr<UpdatePolicy<T>> inner_;
  std::int64_t step_ = -1;  ///< the last one begun
  std::vector<Fragment> fragments_;
  std::vector<Home> homes_;            ///< by part
  std::vector<Tensor> momentum_;       ///< by part; none where its factor is 0
  Tensor direction_;                   ///< a piece of e_r
  Tensor under_way_;                   ///< travelling(), of an exchange that overlaps inner steps
  std::vector<std::int64_t> offsets_;  ///< in travelling(), by part
};

// What an outer loop registers.
std::set<TrafficClass> outer_classes(const TrainConfig& config);
std::vector<ChannelSpec> outer_channels(const TrainConfig& config, ProcessMesh& mesh);
/// UsageError for what no outer loop goes with.
void check_outer_loop(const TrainConfig& config);

/// Parameters that all have: inner_steps, rate.
std::vector<ParameterSpec> outer_parameters(const char* default_rate, std::vector<ParameterSpec> more = {});
/// Of those with momentum.
std::vector<ParameterSpec> momentum_parameters();

}  // namespace thinwire
