#include "models/training/checkpoint/checkpoint.h"

#include <charconv>
#include <cstring>
#include <map>

#include <nlohmann/json.hpp>

#include "core/joined.h"
#include "core/process/log.h"
#include "core/sha256.h"
#include "models/training/agreement.h"
#include "models/training/checkpoint/checkpoint_pieces.h"
#include "models/training/checkpoint/checkpoint_settings.h"
#include "results/sealed_file.h"

namespace thinwire {
namespace {

constexpr const char* kind = checkpoint_kind;
constexpr const char* remedy = "resume from another checkpoint, or start anew without --resume";
constexpr int state_tag = 73;

using CodecStates = std::map<std::string, std::vector<std::byte>>;

// What the codecs of one rank remember, as one message: (length, bytes) of name and state in turn.

void put(std::vector<std::byte>& to, const void* data, std::size_t size) {
  const std::uint64_t length = size;
  const auto* head = reinterpret_cast<const std::byte*>(&length);
  to.insert(to.end(), head, head + sizeof length);
  const auto* bytes = static_cast<const std::byte*>(data);
  if (size > 0) to.insert(to.end(), bytes, bytes + size);
}

std::vector<std::byte> pack(const CodecStates& states) {
  std::vector<std::byte> packed;
  for (const auto& [name, state] : states) {
    put(packed, name.data(), name.size());
    put(packed, state.data(), state.size());
  }
  return packed;
}

CodecStates unpack(std::span<const std::byte> packed) {
  CodecStates states;
  const auto take = [&] {
    std::uint64_t length = 0;
    TW_ASSERT(packed.size() >= sizeof length);
    std::memcpy(&length, packed.data(), sizeof length);
    packed = packed.subspan(sizeof length);
    TW_ASSERT(packed.size() >= length);
    std::vector<std::byte> bytes(packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(length));
    packed = packed.subspan(length);
    return bytes;
  };
  while (!packed.empty()) {
    const std::vector<std::byte> name = take();
    states[std::string(reinterpret_cast<const char*>(name.data()), name.size())] = take();
  }
  return states;
}

std::string group_of_rank(int rank) {
  return "codec_state/rank" + std::to_string(rank);
}

void write_states(const h5::Group& file, int rank, const CodecStates& states) {
  if (states.empty()) return;
  const h5::Group group = file.create_group(group_of_rank(rank));
  int i = 0;
  for (const auto& [name, state] : states) {
    const std::string dataset = std::to_string(i++);
    // A byte in front: HDF5 has no empty datasets that all readers like.
    std::vector<std::uint8_t> bytes(1 + state.size());
    if (!state.empty()) std::memcpy(bytes.data() + 1, state.data(), state.size());
    group.write_vector<std::uint8_t>(dataset, bytes);
    group.set_attribute(dataset, "channel", name);
  }
}

/// Of a group's name.
int rank_of_group(const std::string& name, const std::string& path) {
  int rank = -1;
  const auto [end, error] = std::from_chars(name.data() + std::min(name.size(), std::strlen("rank")), name.data() + name.size(), rank);
  if (!name.starts_with("rank") || error != std::errc() || end != name.data() + name.size())
    throw CorruptData(path + ": codec_state/" + name + " is no rank's; " + remedy);
  return rank;
}

CodecStates read_states(const h5::Group& file, int rank) {
  CodecStates states;
  if (!file.has(group_of_rank(rank))) return states;
  const h5::Group group = file.group(group_of_rank(rank));
  for (const std::string& dataset : group.names()) {
    const std::vector<std::uint8_t> bytes = group.read_vector<std::uint8_t>(dataset);
    std::vector<std::byte>& state = states[group.text_attribute(dataset, "channel")];
    const std::span<const std::byte> whole = std::as_bytes(std::span(bytes));
    state.assign(whole.begin() + std::min<std::ptrdiff_t>(1, std::ssize(whole)), whole.end());
  }
  return states;
}

/// Every dataset of parameters and their state: groups below the top, however deep, but those of settings and codecs.
CheckpointContents contents_of(const h5::Group& file) {
  CheckpointContents contents;
  const auto walk = [&](const auto& self, const std::string& path, int depth) -> void {
    for (const std::string& name : file.group(path).names()) {
      if (depth == 0)
        contents.datasets.insert(path + "/" + name);
      else
        self(self, path + "/" + name, depth - 1);
    }
  };
  for (const std::string& top : file.names())
    if (top != "config" && top != "codec_state") walk(walk, top, top == "per_replica" ? 2 : 0);
  return contents;
}

/// To or from rank 0, whose side handles one rank after the other.
std::vector<std::byte> receive_bytes(Communicator& world, int from) {
  std::int64_t size = 0;
  world.receive(&size, sizeof size, from, state_tag)->wait();
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  if (size > 0) world.receive(bytes.data(), size, from, state_tag)->wait();
  return bytes;
}
void send_bytes(Communicator& world, const std::vector<std::byte>& bytes, int to) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  world.send(&size, sizeof size, to, state_tag)->wait();
  if (size > 0) world.send(bytes.data(), size, to, state_tag)->wait();
}

constexpr const char* update_numbers = "update_numbers";

/// As text; empty where the file keeps none.
std::string update_numbers_of(const h5::File& file) { return file.has_attribute("", update_numbers) ? file.text_attribute("", update_numbers) : ""; }

/// Rank 0's text.
std::string told_to_all(Communicator& world, std::string text) {
  std::int64_t length = static_cast<std::int64_t>(text.size());
  world.broadcast(&length, sizeof length, 0)->wait();
  text.resize(static_cast<std::size_t>(length));
  if (length > 0) world.broadcast(text.data(), length, 0)->wait();
  return text;
}

/// Rank 0: whether the file fits this run, and what becomes of its codec state. Throws what load_checkpoint promises.
ResumeReport judge(const h5::Group& file, const TrainConfig& config, const std::string& corpus_hash, const std::string& path) {
  const SettingDifferences d = compare_settings(file, config, corpus_hash);
  if (!d.model.empty())
    throw UsageError(path + ": this checkpoint is of another run: " + joined(d.model, "; ") + ". " +
                     (d.other_text ? "Give the same text (--text), for the position in it is part of the checkpoint" : "Give the same values") +
                     ", or start anew without --resume.");
  ResumeReport report;
  report.steps = file.int_attribute("", "steps_taken");
  report.remarks = d.rest;
  bool compresses = d.compresses_there;
  for (const auto& [traffic, rule] : config.compress) compresses = compresses || rule.active();
  if (!compresses) return report;
  report.codec_state = d.layout.empty() && !config.reset_codec_state ? CodecStateUse::continued : CodecStateUse::reset;
  if (!d.layout.empty() && !config.reset_codec_state)
    throw UsageError(path + ": what its codecs remember belongs to another layout or other rules: " + joined(d.layout, "; ") +
                     ". Give the same values, or --codec-state reset to start the codecs anew.");
  return report;
}

/// Rank 0: every dataset that is asked for is there, in the right type and size. (The seal held: a miss is no damage but another
/// model, which the settings should have told.)
void require_datasets(const h5::Group& file, const PieceCatalogue& wanted, DType dtype, const std::string& path) {
  for (const auto& [name, dataset] : wanted.datasets()) {
    if (!file.has(name)) throw CorruptData(path + ": it has no " + name + "; " + remedy);
    const h5::DatasetInfo info = file.info(name);
    if (!has_shape(info.extents, dataset.global) || info.dtype != dtype)
      throw CorruptData(path + ": " + name + " has " + std::to_string(info.elements()) + " elements of " +
                        (info.dtype ? std::string(name_of(*info.dtype)) : "an unknown type") + " where this model has " + dataset.global.to_string() + " of " +
                        std::string(name_of(dtype)) + "; " + remedy);
  }
}

}  // namespace

void save_checkpoint(Communicator& world, ParallelTrainer& trainer, const TrainConfig& config, const std::string& path) {
  std::vector<Piece> own = pieces_to_save(trainer);
  const PieceCatalogue catalogue = PieceCatalogue::gather(world, own);
  run_in_agreement(world, [&] {
    const CodecStates states = trainer.codec_state();
    if (world.rank() != 0) {
      send_bytes(world, pack(states), 0);
      send_pieces(world, own);
      return;
    }
    std::vector<CodecStates> of_rank = {states};
    for (int r = 1; r < world.size(); ++r) of_rank.push_back(unpack(receive_bytes(world, r)));
    PieceExchange exchange(world, own, config.dtype);
    Tensor whole;
    auto next = catalogue.datasets().begin();
    const auto collect_next = [&] {
      const auto& [name, dataset] = *next++;
      whole.reshape(dataset.global, config.dtype);
      exchange.collect(name, dataset, whole.view());
      return name;
    };
    try {
      results::write_sealed_h5(path, kind, checkpoint_version, [&](h5::File& file) {
        file.set_attribute("", "kind", kind);
        file.set_attribute("", "checkpoint_version", checkpoint_version);
        file.set_attribute("", "steps_taken", trainer.steps_taken());
        if (const auto numbers = trainer.update_numbers(); !numbers.empty()) file.set_attribute("", update_numbers, nlohmann::json(numbers).dump());
        write_settings(file, config, trainer.corpus_hash());
        for (int r = 0; r < world.size(); ++r) write_states(file, r, of_rank[static_cast<std::size_t>(r)]);
        while (next != catalogue.datasets().end()) {
          const std::string name = collect_next();
          file.write(name, whole.view());
        }
      });
    } catch (...) {
      while (next != catalogue.datasets().end()) collect_next();  // the others are still sending
      throw;
    }
  });
}

std::string checkpoint_content(const std::string& path) {
  results::check_seal(path, kind, checkpoint_version, remedy);
  const h5::File file = h5::File::open_read(path);
  Sha256 hash;
  const auto add = [&](const std::string& name, std::span<const std::byte> bytes) {
    hash.update(name + " " + std::to_string(bytes.size()) + "\n");  // no two states run together alike
    hash.update(bytes);
  };
  hash.update("steps " + std::to_string(file.int_attribute("", "steps_taken")) + ", text " + file.text_attribute("", "corpus_sha256") + "\n");
  if (const std::string numbers = update_numbers_of(file); !numbers.empty()) hash.update("update " + numbers + "\n");
  for (const std::string& name : contents_of(file).datasets) {
    const Tensor values = file.read(name);
    add(name + " " + std::string(name_of(values.dtype())) + " " + values.shape().to_string(), {static_cast<const std::byte*>(values.view().data()), values.bytes()});
  }
  const std::vector<std::string> ranks = file.has("codec_state") ? file.group("codec_state").names() : std::vector<std::string>();
  for (const std::string& rank : ranks)
    for (const auto& [channel, state] : read_states(file, rank_of_group(rank, path))) add("codec state of " + rank + " " + channel, state);
  return hash.hex();
}

ResumeReport load_checkpoint(Communicator& world, ParallelTrainer& trainer, const TrainConfig& config, const std::string& path) {
  std::unique_ptr<h5::File> file;
  ResumeReport report;
  run_in_agreement(world, [&] {
    if (world.rank() != 0) return;
    results::check_seal(path, kind, checkpoint_version, remedy);
    file = std::make_unique<h5::File>(h5::File::open_read(path));
    report = judge(*file, config, trainer.corpus_hash(), path);
  });
  std::int64_t facts[2] = {report.steps, static_cast<std::int64_t>(report.codec_state)};
  world.broadcast(facts, sizeof facts, 0)->wait();
  report.steps = facts[0];
  report.codec_state = static_cast<CodecStateUse>(facts[1]);

  // What the file holds, told to all: it decides what each asks for.
  const std::string names = told_to_all(world, file ? contents_of(*file).text() : "");
  const std::string numbers = told_to_all(world, file ? update_numbers_of(*file) : "");

  std::vector<Piece> own;
  run_in_agreement(world, [&] { own = pieces_to_load(trainer, CheckpointContents::parse(names), config.reset_replica_state); });
  const PieceCatalogue wanted = PieceCatalogue::gather(world, own);
  std::vector<std::byte> packed;
  run_in_agreement(world, [&] {
    if (world.rank() == 0) require_datasets(*file, wanted, config.dtype, path);
  });
  if (report.codec_state == CodecStateUse::continued) {
    run_in_agreement(world, [&] {
      if (world.rank() != 0) {
        packed = receive_bytes(world, 0);
      } else {
        for (int r = 0; r < world.size(); ++r) {
          std::vector<std::byte> bytes = pack(read_states(*file, r));
          if (r == 0)
            packed = std::move(bytes);
          else
            send_bytes(world, bytes, r);
        }
      }
      trainer.load_codec_state(unpack(packed));
    });
  }
  if (world.rank() != 0) {
    receive_pieces(world, own);
  } else {
    PieceExchange exchange(world, own, config.dtype);
    Tensor whole;
    for (const auto& [name, dataset] : wanted.datasets()) {
      whole.reshape(dataset.global, config.dtype);
      file->read_into(name, whole.view());
      exchange.distribute(name, dataset, whole.view());
    }
    if (report.codec_state == CodecStateUse::reset) log_warning(path + ": its codec state is not used; all codecs start anew at step " + std::to_string(report.steps));
    if (!report.remarks.empty()) log_warning(path + ": the run goes on with other settings than it was saved with: " + joined(report.remarks, "; "));
  }
  world.barrier();
  trainer.set_update_numbers(numbers.empty() ? std::map<std::string, double>() : nlohmann::json::parse(numbers).get<std::map<std::string, double>>());
  trainer.state_loaded(report.steps, config.reset_replica_state);
  return report;
}

}  // namespace thinwire
