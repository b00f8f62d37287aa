#include "models/training/checkpoint/checkpoint_pieces.h"

#include <algorithm>
#include <cstring>
#include <sstream>

namespace thinwire {
namespace {

constexpr std::int64_t message_bytes = 16 << 20;
constexpr int piece_tag = 71, catalogue_tag = 72;
constexpr const char* per_replica = "per_replica/";

std::int64_t rows_per_message(std::int64_t row_bytes) {
  return std::max<std::int64_t>(1, message_bytes / std::max<std::int64_t>(1, row_bytes));
}

/// Nothing when the slot's values hold nothing of the dataset. A piece is a rectangle: values that begin or end inside a row make up to three.
void add_piece(std::vector<Piece>& pieces, const std::string& folder, const StateSlot& slot) {
  const ParameterLayout& layout = slot.layout;
  const std::int64_t columns = layout.columns().count, elements = columns == 0 ? 0 : slot.value.elements();
  std::int64_t row = slot.first_row, column = slot.first_column;
  for (std::int64_t done = 0; done < elements;) {
    const std::int64_t left = elements - done, whole = column == 0 ? left / columns : 0, count = whole > 0 ? columns : std::min(columns - column, left), rows = std::max<std::int64_t>(1, whole);
    Piece p{folder + "/" + layout.name(), layout.used(), {layout.rows().begin + row, rows}, {layout.columns().begin + column, count}, {}};
    p.rows.count = std::clamp<std::int64_t>(p.global.rows() - p.rows.begin, 0, rows);
    p.columns.count = std::clamp<std::int64_t>(p.global.columns() - p.columns.begin, 0, count);
    p.local = slot.value.flat_slice(done, p.rows.count * p.columns.count).reshaped({p.rows.count, p.columns.count});
    if (p.rows.count > 0 && p.columns.count > 0) pieces.push_back(p);
    done += rows * count, row += rows, column = 0;
  }
}

std::string replica_folder(const StateSlot& slot, int replica) { return per_replica + std::to_string(replica) + "/" + slot.name; }
std::string dataset_of(const std::string& folder, const StateSlot& slot) { return folder + "/" + slot.layout.name(); }

template <typename Copy>
void for_blocks(const Piece& piece, Copy&& copy) {
  const auto row_bytes = piece.columns.count * static_cast<std::int64_t>(size_of(piece.local.dtype()));
  const std::int64_t step = rows_per_message(row_bytes);
  for (std::int64_t r = 0; r < piece.rows.count; r += step)
    copy(static_cast<std::byte*>(piece.local.data()) + r * row_bytes, std::min(step, piece.rows.count - r) * row_bytes);
}

bool on_host(const Piece& piece) { return piece.local.device().kind == DeviceKind::host; }

/// Between the host and a part of the piece, wherever it lies; done on return.
void copy_part(const Piece& piece, void* to, const void* from, std::int64_t bytes) {
  const PlacementScope there(piece.local.device());
  copy_and_wait(to, from, static_cast<std::size_t>(bytes));
}

/// Where the rows of an entry lie in the bytes of the whole dataset, and how many of them a message holds.
struct EntryRows {
  std::int64_t width, row_bytes, step;
  EntryRows(const PieceCatalogue::Dataset& d, const PieceCatalogue::Entry& e, DType dtype)
      : width(d.global.columns() * static_cast<std::int64_t>(size_of(dtype))),
        row_bytes(e.columns.count * static_cast<std::int64_t>(size_of(dtype))),
        step(rows_per_message(row_bytes)) {}
  std::int64_t at(const PieceCatalogue::Entry& e, std::int64_t row, DType dtype) const {
    return (e.rows.begin + row) * width + e.columns.begin * static_cast<std::int64_t>(size_of(dtype));
  }
};

}  // namespace

std::vector<Piece> pieces_to_save(ParallelTrainer& trainer) {
  std::vector<Piece> pieces;
  const DataCoordinates at = trainer.mesh().data_coordinates();
  for (const StateSlot& slot : trainer.state_slots()) {
    if (slot.copy || !slot.layout.counts_in_norm()) continue;
    switch (slot.owner) {
      case Owner::replicated:
        if (at.replica == 0 && at.within_replica == 0) add_piece(pieces, slot.name, slot);
        break;
      case Owner::sharded:
        if (at.replica == 0) add_piece(pieces, slot.name, slot);
        break;
      case Owner::per_replica:
        add_piece(pieces, replica_folder(slot, slot.replica), slot);
        break;
    }
  }
  return pieces;
}

std::vector<Piece> pieces_to_load(ParallelTrainer& trainer, const CheckpointContents& file, bool reset_replica_state) {
  const auto held_as = [&](const StateSlot& slot, const std::string& folder) { return file.datasets.contains(dataset_of(folder, slot)); };
  const auto replicas_of = [&](const StateSlot& slot) {
    const auto found = file.replicas.find(slot.name);
    return found == file.replicas.end() ? 0 : found->second;
  };
  const auto refuse = [](const StateSlot& slot, const std::string& there, const std::string& here) {
    throw UsageError(slot.name + " is state that each replica has of its own: the checkpoint has it of " + there + ", this run has " + here +
                     ". Give as many, or --replica-state reset to start it anew.");
  };
  std::vector<Piece> pieces;
  for (const StateSlot& slot : trainer.state_slots()) {
    const auto source = std::ranges::find_if(slot.sources, [&](const std::string& folder) { return held_as(slot, folder); });
    const std::string folder = source == slot.sources.end() ? slot.name : *source;
    if (slot.owner == Owner::per_replica) {
      const int there = replicas_of(slot);
      if (reset_replica_state) {
        if (source != slot.sources.end()) add_piece(pieces, folder, slot);
      } else if (there == slot.replicas) {
        add_piece(pieces, replica_folder(slot, slot.replica), slot);
      } else {
        refuse(slot, there == 0 ? "one for all" : std::to_string(there) + " replicas", std::to_string(slot.replicas));
      }
    } else if (!held_as(slot, folder) && held_as(slot, replica_folder(slot, 0))) {
      // One replica has no others to differ from, so that its policy keeps as the run's what several keep apart.
      if (!reset_replica_state) refuse(slot, std::to_string(replicas_of(slot)) + " replicas", "one for all");
    } else {
      add_piece(pieces, folder, slot);
    }
  }
  return pieces;
}

bool has_shape(const std::vector<std::int64_t>& have, const Shape& wanted) {
  std::vector<std::int64_t> extents;
  for (int i = 0; i < wanted.rank(); ++i) extents.push_back(wanted[i]);
  return have == extents;
}

std::string CheckpointContents::text() const {
  std::string lines;
  for (const std::string& name : datasets) lines += name + "\n";
  return lines;
}

CheckpointContents CheckpointContents::parse(const std::string& text) {
  CheckpointContents contents;
  std::istringstream lines(text);
  for (std::string name; std::getline(lines, name);) {
    contents.datasets.insert(name);
    if (!name.starts_with(per_replica)) continue;
    const std::size_t number = std::string_view(per_replica).size(), kind = name.find('/', number) + 1;
    int& replicas = contents.replicas[name.substr(kind, name.find('/', kind) - kind)];
    replicas = std::max(replicas, std::stoi(name.substr(number)) + 1);
  }
  return contents;
}

PieceCatalogue PieceCatalogue::gather(Communicator& world, std::vector<Piece>& own) {
  std::stable_sort(own.begin(), own.end(), [](const Piece& a, const Piece& b) { return a.dataset < b.dataset; });
  std::ostringstream text;
  for (const Piece& p : own)
    text << p.dataset << ' ' << p.global.rank() << ' ' << p.global.rows() << ' ' << p.global.columns() << ' ' << p.rows.begin << ' ' << p.rows.count << ' '
         << p.columns.begin << ' ' << p.columns.count << '\n';
  PieceCatalogue catalogue;
  const std::string mine = text.str();
  std::int64_t size = static_cast<std::int64_t>(mine.size());
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(world.size()));
  world.all_gather(&size, sizeof size, sizes.data())->wait();
  if (world.rank() != 0) {
    if (size > 0) world.send(mine.data(), size, 0, catalogue_tag)->wait();
    return catalogue;
  }
  for (int r = 0; r < world.size(); ++r) {
    std::string lines = r == 0 ? mine : std::string(static_cast<std::size_t>(sizes[static_cast<std::size_t>(r)]), ' ');
    if (r != 0 && !lines.empty()) world.receive(lines.data(), static_cast<std::int64_t>(lines.size()), r, catalogue_tag)->wait();
    std::istringstream in(lines);
    std::string name;
    std::int64_t axes = 0, rows = 0, columns = 0;
    Entry e{r, {}, {}};
    while (in >> name >> axes >> rows >> columns >> e.rows.begin >> e.rows.count >> e.columns.begin >> e.columns.count) {
      Dataset& d = catalogue.datasets_[name];
      d.global = axes == 1 ? Shape{columns} : Shape{rows, columns};
      d.entries.push_back(e);
    }
  }
  return catalogue;
}

Piece& PieceExchange::own(const std::string& name, const PieceCatalogue::Entry& entry) {
  for (Piece& p : own_)
    if (p.dataset == name && p.rows == entry.rows && p.columns == entry.columns && p.local.data() != nullptr) return p;
  TW_ASSERT(false, name + " is not on this rank");
  return own_.front();
}

void PieceExchange::collect(const std::string& name, const PieceCatalogue::Dataset& d, TensorView whole) {
  std::int64_t elements = 0;
  for (const PieceCatalogue::Entry& e : d.entries) {
    const EntryRows rows(d, e, dtype_);
    for (std::int64_t r = 0; r < e.rows.count; r += rows.step) {
      const std::int64_t count = std::min(rows.step, e.rows.count - r);
      const std::byte* from = nullptr;
      if (e.rank == 0) {
        const Piece& mine = own(name, e);
        from = static_cast<const std::byte*>(mine.local.data()) + r * rows.row_bytes;
        if (!on_host(mine)) {
          buffer_.reshape({count * rows.row_bytes}, DType::u8);
          copy_part(mine, buffer_.view().data(), from, count * rows.row_bytes);
          from = static_cast<const std::byte*>(buffer_.view().data());
        }
      } else {
        buffer_.reshape({count * rows.row_bytes}, DType::u8);
        world_.receive(buffer_.view().data(), count * rows.row_bytes, e.rank, piece_tag)->wait();
        from = static_cast<const std::byte*>(buffer_.view().data());
      }
      for (std::int64_t i = 0; i < count; ++i)
        std::memcpy(static_cast<std::byte*>(whole.data()) + rows.at(e, r + i, dtype_), from + i * rows.row_bytes, static_cast<std::size_t>(rows.row_bytes));
    }
    elements += e.rows.count * e.columns.count;
  }
  if (elements != whole.elements())
    throw RuntimeFailure("checkpoint: the ranks hold " + std::to_string(elements) + " elements of " + name + " where " + std::to_string(whole.elements()) +
                         " are expected: the layout of this parameter is wrong (a bug of thinwire)");
}

void PieceExchange::distribute(const std::string& name, const PieceCatalogue::Dataset& d, ConstTensorView whole) {
  std::vector<bool> used(own_.size(), false);
  for (const PieceCatalogue::Entry& e : d.entries) {
    const EntryRows rows(d, e, dtype_);
    const Piece* mine = nullptr;
    if (e.rank == 0)  // two pieces may want the same block (a tied table): each is filled once
      for (std::size_t i = 0; i < own_.size() && mine == nullptr; ++i)
        if (!used[i] && own_[i].dataset == name && own_[i].rows == e.rows && own_[i].columns == e.columns) {
          used[i] = true;
          mine = &own_[i];
        }
    for (std::int64_t r = 0; r < e.rows.count; r += rows.step) {
      const std::int64_t count = std::min(rows.step, e.rows.count - r);
      std::byte* place = mine ? static_cast<std::byte*>(mine->local.data()) + r * rows.row_bytes : nullptr;
      std::byte* to = place;
      if (!mine || !on_host(*mine)) {
        buffer_.reshape({count * rows.row_bytes}, DType::u8);
        to = static_cast<std::byte*>(buffer_.view().data());
      }
      for (std::int64_t i = 0; i < count; ++i)
        std::memcpy(to + i * rows.row_bytes, static_cast<const std::byte*>(whole.data()) + rows.at(e, r + i, dtype_), static_cast<std::size_t>(rows.row_bytes));
      if (e.rank != 0)
        world_.send(to, count * rows.row_bytes, e.rank, piece_tag)->wait();
      else if (to != place)
        copy_part(*mine, place, to, count * rows.row_bytes);
    }
  }
}

void send_pieces(Communicator& world, const std::vector<Piece>& own) {
  Tensor block;
  for (const Piece& p : own)
    for_blocks(p, [&](std::byte* data, std::int64_t bytes) {
      const void* from = data;
      if (!on_host(p)) {
        block.reshape({bytes}, DType::u8);
        copy_part(p, block.view().data(), data, bytes);
        from = block.view().data();
      }
      world.send(from, bytes, 0, piece_tag)->wait();
    });
}

void receive_pieces(Communicator& world, std::vector<Piece>& own) {
  Tensor block;
  for (const Piece& p : own)
    for_blocks(p, [&](std::byte* data, std::int64_t bytes) {
      if (on_host(p)) {
        world.receive(data, bytes, 0, piece_tag)->wait();
        return;
      }
      block.reshape({bytes}, DType::u8);
      world.receive(block.view().data(), bytes, 0, piece_tag)->wait();
      copy_part(p, data, block.view().data(), bytes);
    });
}

}  // namespace thinwire
