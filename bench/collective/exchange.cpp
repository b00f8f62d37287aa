#include "bench/collective/exchange.h"

#include <algorithm>
#include <deque>
#include <limits>

#include "bench/harness/measure.h"
#include "collectives/link/emulated_network.h"
#include "core/formulas.h"
#include "models/parallel/channels/row_exchange.h"

namespace thinwire::bench {
namespace {

class Chain final : public Exchange {
 public:
  Chain(std::span<const std::unique_ptr<Communicator>> groups, const std::string& operation, const ChannelOptions& options, std::int64_t bucket_bytes) : operation_(operation) {
    for (const auto& group : groups) {
      channels_.emplace_back(*group, options);
      channels_.back().empty_bucket_before_transfers(bucket_bytes);
    }
  }

  OperationReport run(const Tensor& x, std::span<Tensor> outs, const MessageKey& key) override {
    if (operation_ == "all_gather") return channels_[0].all_gather(x.view(), outs[0].view(), key).wait();
    if (operation_ == "reduce_scatter") return channels_[0].reduce_scatter(x.view(), outs[0].view(), key).wait();
    std::vector<OperationReport> reports;
    const Tensor* from = &x;
    for (std::size_t i = 0; i < channels_.size(); ++i) {
      reports.push_back(channels_[i].all_reduce(from->view(), outs[i].view(), key.with_slice(static_cast<std::int32_t>(i))).wait());
      from = &outs[i];
    }
    return combine(reports);
  }

  std::vector<Channel*> channels() override {
    std::vector<Channel*> all;
    for (Channel& channel : channels_) all.push_back(&channel);
    return all;
  }

 private:
  std::string operation_;
  std::vector<Channel> channels_;
};

/// Matrices have no layer here, so a rule covers all of them.
constexpr int no_layer = 0, one_stage = 0;

class TwoLevels final : public Exchange {
 public:
  TwoLevels(Communicator& world, const TwoLevelOptions& levels, const ChannelOptions& options) : levels_(levels) {
    const MeshShape mesh{.dp = world.size(), .dp_nodes = levels.axis.nodes};
    ChannelSpec whole;
    whole.name = levels.operation, whole.traffic = options.traffic;
    for (const ChannelSpec& spec : row_exchange_channels(whole, levels.axis)) {
      const bool inside = spec.level == ChannelLevel::inside;
      groups_.push_back(world.split(group_of(data_groups(mesh, spec.group), world.rank()), world.rank()));
      CompressRule rule;
      rule.codec = inside ? levels.inside : options.codec;
      rule.protocol = inside ? Protocol::automatic : options.protocol;  // as for a training run
      rule.overlap = options.overlap_blocks;
      ChannelPairOptions pair;
      pair.comm_dtype = options.comm_dtype, pair.form = options.form, pair.level = spec.level;
      pairs_.emplace_back(*groups_.back(), spec.traffic, rule, pair);
      named_[spec.name] = &pairs_.back();
      steps_.push_back(inside ? ".inside" : ".across");
      channels().back()->empty_bucket_before_transfers(levels.bucket_bytes);
    }
    rows_ = std::make_unique<RowExchange>(named_, levels.operation, RowOwners{levels.axis, data_coordinates(mesh, world.rank())}, one_stage);
    more_outs_.resize(static_cast<std::size_t>(levels.under_way) - 1);
  }

  OperationReport run(const Tensor& x, std::span<Tensor> outs, const MessageKey& key) override {
    for (Channel* channel : channels()) channel->meter().reset();
    std::vector<RowExchange::Ticket> tickets;
    for (int i = 0; i < levels_.under_way; ++i) {
      Tensor& out = i == 0 ? outs.back() : more_outs_[static_cast<std::size_t>(i) - 1];
      if (i > 0) out.reshape(outs.back().shape(), outs.back().dtype());
      MessageKey own = key;
      own.tensor += static_cast<std::uint64_t>(i);
      tickets.push_back(levels_.operation == "all_gather" ? rows_->gather(no_layer, own, x.view(), out.view()) : rows_->reduce(no_layer, own, x.view(), out.view()));
      rows_->progress();
    }
    double waited_us = 0;
    for (const auto& ticket : tickets) rows_->wait(ticket, "exchange in two steps", waited_us);
    std::vector<OperationReport> reports;
    for (Channel* channel : channels()) reports.push_back(channel->meter().total());
    return combine(reports);
  }

  std::vector<Channel*> channels() override {
    std::vector<Channel*> all;
    for (ChannelPair& pair : pairs_) all.push_back(pair.coded() ? pair.coded() : &pair.dense());
    return all;
  }
  std::string step_name(std::size_t step) const override { return steps_[step]; }

 private:
  TwoLevelOptions levels_;
  std::vector<std::unique_ptr<Communicator>> groups_;
  std::deque<ChannelPair> pairs_;  // they are pointed at
  NamedChannels named_;
  std::vector<std::string> steps_;
  std::unique_ptr<RowExchange> rows_;
  std::vector<Tensor> more_outs_;
};

}  // namespace

std::unique_ptr<Exchange> make_chain(std::span<const std::unique_ptr<Communicator>> groups, const std::string& operation, const ChannelOptions& options, std::int64_t bucket_bytes) {
  return std::make_unique<Chain>(groups, operation, options, bucket_bytes);
}

std::unique_ptr<Exchange> make_two_levels(Communicator& world, const TwoLevelOptions& levels, const ChannelOptions& options) {
  return std::make_unique<TwoLevels>(world, levels, options);
}

StepBytes bytes_of_steps(Exchange& exchange, Communicator& world) {
  StepBytes steps;
  for (Channel* channel : exchange.channels()) {
    if (exchange.step_name(steps.size()).empty()) break;
    const OperationReport& sum = channel->meter().total();
    const Bytes mine{sum.dense_bytes, sum.payload_bytes, sum.link_bytes, sum.received_bytes};
    steps.emplace_back(static_cast<std::size_t>(world.size()));
    world.all_gather(&mine, sizeof mine, steps.back().data())->wait();
  }
  return steps;
}

double card_time_us(const std::string& link, std::span<const Bytes> crossing, int per_node) {
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  if (!EmulatedLink::is_emulated(link)) return unknown;
  const EmulatedLink emulated = EmulatedLink::parse(link);
  if (emulated.meter != LinkMeter::cards || emulated.ranks_per_node != per_node) return unknown;
  std::int64_t most = 0;
  for (std::size_t first = 0; first < crossing.size(); first += static_cast<std::size_t>(per_node)) {
    std::int64_t of_card = 0;
    for (std::size_t rank = first; rank < std::min(crossing.size(), first + static_cast<std::size_t>(per_node)); ++rank) of_card += crossing[rank].link;
    most = std::max(most, of_card);
  }
  return link_time_us(static_cast<double>(most), emulated.slower_gbps());
}

}  // namespace thinwire::bench
