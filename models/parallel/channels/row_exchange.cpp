#include "models/parallel/channels/row_exchange.h"

#include <utility>

#include "collectives/process/rank_clock.h"
#include "core/process/trace.h"

namespace thinwire {

struct RowExchange::Message {
  int layer = 0;
  MessageKey key;
  bool gathers = false;
  std::int64_t elements = 0;  ///< of the whole matrix
  TensorView out;
  std::unique_ptr<Tensor> own_block;
  Tensor* block = nullptr;  ///< the node's rows, between the steps
  Operation first, second;
};

std::vector<ChannelSpec> row_exchange_channels(const ChannelSpec& spec, const DataAxis& axis) {
  ChannelSpec one = spec;
  if (!RowOwners{axis, {}}.two_levels()) {
    one.group = "within_replica";
    return {one};
  }
  ChannelSpec inside = spec, across = spec;
  inside.name += ".inside", inside.group = "inside", inside.level = ChannelLevel::inside;
  across.name += ".across", across.group = "node", across.level = ChannelLevel::across;
  return {inside, across};
}

RowExchange::RowExchange(const NamedChannels& channels, const std::string& name, const RowOwners& owners, int stage)
    : owners_(owners),
      stage_(stage),
      flat_(find_channel(channels, name)),
      inside_(find_channel(channels, name + ".inside")),
      across_(find_channel(channels, name + ".across")),
      ordered_(inside_ && (inside_->dense().ordered() || across_->dense().ordered())) {}

Channel& RowExchange::channel(ChannelPair& pair, const Message& m) const { return pair.at(m.layer, stage_, m.key, m.elements); }

Channel& RowExchange::gathering(ChannelPair& pair, const Message& m, ConstTensorView held) {
  Channel& chosen = channel(pair, m);
  if (&chosen == pair.coded() && started_.insert({&pair, m.key.state_key()}).second) chosen.start_gathers_from(held, m.key);
  return chosen;
}

RowExchange::Ticket RowExchange::message(int layer, const MessageKey& key, bool gathers, TensorView out, const Shape& whole, Tensor* block) {
  Ticket ticket = std::make_shared<Message>();
  Message& m = *ticket;
  m.layer = layer, m.key = key, m.gathers = gathers, m.out = out, m.block = block, m.elements = whole.elements();
  if (flat_) return ticket;
  if (!block) {
    m.own_block = spare_.empty() ? std::make_unique<Tensor>() : std::move(spare_.back());
    if (!spare_.empty()) spare_.pop_back();
    m.block = m.own_block.get();
  }
  m.block->reshape({owners_.of_node(whole.rows()).count, whole.columns()}, out.dtype());
  return ticket;
}

RowExchange::Ticket RowExchange::gather(int layer, const MessageKey& key, ConstTensorView rows, TensorView whole, Tensor* node_rows) {
  Ticket ticket = message(layer, key, true, whole, whole.shape(), node_rows);
  Message& m = *ticket;
  const ConstTensorView held = whole;
  if (flat_) {
    m.second = gathering(*flat_, m, held).all_gather(rows, whole, key);
  } else {
    const std::int64_t columns = whole.shape().columns();
    const RowBlock node = owners_.of_node(whole.shape().rows());
    gathering(*inside_, m, held);
    m.first = gathering(*across_, m, held.flat_slice(node.first * columns, node.count * columns).reshaped({node.count, columns})).all_gather(rows, m.block->view(), key);
    first_.push_back(ticket);
  }
  return ticket;
}

RowExchange::Ticket RowExchange::gather_inside(int layer, const MessageKey& key, const Tensor& node_rows, TensorView whole) {
  TW_ASSERT(inside_ != nullptr, "blocks of a node where there is one level");
  progress_all();  // messages of a channel start in one order
  Ticket ticket = std::make_shared<Message>();
  Message& m = *ticket;
  m.layer = layer, m.key = key, m.gathers = true, m.out = whole, m.elements = whole.elements();
  m.second = channel(*inside_, m).all_gather(node_rows.view(), whole, key);
  return ticket;
}

RowExchange::Ticket RowExchange::reduce(int layer, const MessageKey& key, ConstTensorView whole, TensorView rows) {
  Ticket ticket = message(layer, key, false, rows, whole.shape(), nullptr);
  Message& m = *ticket;
  if (flat_) {
    m.second = channel(*flat_, m).reduce_scatter(whole, rows, key);
  } else {
    MessageKey of_node = key;
    of_node.sender = key.sender * static_cast<std::uint64_t>(owners_.axis.nodes) + static_cast<std::uint64_t>(owners_.at.node);  // nodes' sums are added: their ranks must not round alike
    m.first = channel(*inside_, m).reduce_scatter(whole, m.block->view(), of_node);
    first_.push_back(ticket);
  }
  return ticket;
}

void RowExchange::start_second(Message& m) {
  const ConstTensorView block = std::as_const(*m.block).view();
  // Blocks of one tensor: ranks inside a node must not draw or remember alike.
  m.second = m.gathers ? channel(*inside_, m).all_gather(block, m.out, m.key) : channel(*across_, m).reduce_scatter(block, m.out, m.key.with_slice(owners_.at.inside));
}

void RowExchange::start_next() {
  first_.front()->first.wait();
  start_second(*first_.front());
  first_.pop_front();
}

void RowExchange::progress() {
  if (ordered_) return;  // when a step has ended is a matter of time, and where collectives begin must be none
  while (!first_.empty() && first_.front()->first.test()) start_next();
}

void RowExchange::progress_all() {
  while (!first_.empty()) {
    start_next();
    progress();
  }
}

void RowExchange::wait(const Ticket& ticket, const char* what, double& waited_us) {
  const std::int64_t begin = RankClock::now_ns();
  while (!ticket->second.valid()) {
    start_next();
    progress();
  }
  ticket->second.wait();
  const std::int64_t end = RankClock::now_ns();
  waited_us += static_cast<double>(end - begin) * 1e-3;
  Trace::add(TraceCategory::wait, what, begin, end);
  if (ticket->own_block) spare_.push_back(std::move(ticket->own_block));
}

void RowExchange::forget_payloads() {
  for (ChannelPair* pair : {flat_, inside_, across_})
    if (pair && pair->coded()) pair->coded()->forget_payloads();
}

}  // namespace thinwire
