// The layout `flat` of every store that shards (--zero-layout flat): parameters lie one behind the other in flat ones (flat_layout.h), each a matrix [W, shard] whose row r rank r
// owns. A store of rows holds those, exactly as it holds matrices (gathers, lent gradients, copies in nodes, rounded values); the parameters themselves are views into what it lends,
// and what a rank updates are the pieces of parameters that its shard cuts out.
#pragma once

#include <deque>
#include <map>

#include "models/store/flat_layout.h"
#include "models/store/parameter_store.h"

namespace thinwire {

/// Members begin at multiples of 16 bytes, as FSDP's do.
template <typename T>
constexpr std::int64_t flat_alignment = 16 / static_cast<std::int64_t>(sizeof(T));

template <typename T>
class FlatStore final : public ParameterStore<T> {
 public:
  /// `info`: the store that holds the flat parameters.
  FlatStore(const StoreInfo& info, const StoreContext<T>& context);

  const std::vector<OwnedPart<T>>& parts() const override { return parts_; }
  const std::vector<OwnedPart<T>>& exchanged() const override { return inner_->parts(); }
  void updated(std::int64_t version) override;
  void loaded(std::int64_t version) override;
  std::vector<StateSlot> state() override;
  void unshard(int unit) override;
  void wait_unshard(int unit) override;
  void reshard(int unit) override;
  void lend_gradients(int unit) override;
  void gradient_reduced(const OwnedPart<T>& part) override;

 private:
  struct Flat {
    FlatParameter plan;
    Parameter<T> whole;  ///< [W, shard]
    std::vector<Parameter<T>*> members;
  };
  void make_flats(const StoreContext<T>& c);
  /// First values of rows [first_row, ...) of a flat parameter.
  void begin_rows(const Flat& flat, std::int64_t first_row, TensorView to) const;
  void make_inner(const StoreInfo& info, const StoreContext<T>& c);
  void make_parts(const StoreContext<T>& c);
  /// Calls body(flat, member, first of the piece in the member, first of it in the range, its elements) for what a range of a flat parameter has of its members.
  template <typename Body>
  static void for_pieces(const Flat& flat, std::int64_t first, std::int64_t count, Body&& body);
  void follow_values(Flat& flat);
  void follow_gradient(Flat& flat);
  void take_waiting() { this->waited_us += std::exchange(inner_->waited_us, 0); }

  double padding_ = 0;
  std::deque<Flat> flats_;
  std::map<const Parameter<T>*, Flat*> flat_of_;
  std::map<std::string, Flat*> by_name_;
  std::map<int, std::vector<Flat*>> of_unit_;  ///< by layer
  std::unique_ptr<ParameterStore<T>> inner_;
  std::vector<OwnedPart<T>> parts_;
};

/// The store of `info`, in the layout of StoreContext::flat. With nobody to share with layouts are one.
template <typename T>
std::unique_ptr<ParameterStore<T>> make_store_in_layout(const StoreInfo& info, const StoreContext<T>& context);

}  // namespace thinwire
