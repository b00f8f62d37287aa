// Checkpoints and records of cells: files with a seal. Inputs make the HDF5 behind it (hdf5_maker.h) and are sealed, so that mutations get behind the check; without, the seal itself
// is the target.
#include <fstream>

#include "core/error.h"
#include "core/sha256.h"
#include "models/stage/model_kind.h"
#include "models/training/checkpoint/checkpoint.h"
#include "models/training/checkpoint/saved_model.h"
#include "models/training/config/train_options.h"
#include "results/record.h"
#include "results/schema.h"
#include "tests/fuzz/target.h"
#include "tests/fuzz/targets/hdf5_maker.h"
#include "tests/support/temporary_folder.h"

namespace thinwire::fuzz {
namespace {

using thinwire::testing::TemporaryFolder;
constexpr std::size_t seal_bytes = 512;

/// Puts "KIND bytes=N sha256=.. MORE" in front.
void seal(const std::string& path, const std::string& kind, const std::string& more) {
  const std::string content = TemporaryFolder::read(path).substr(seal_bytes);
  std::string line = kind + " bytes=" + std::to_string(content.size()) + " sha256=" + sha256_hex(content) + more + "\n";
  line.resize(seal_bytes, '\0');
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).write(line.data(), static_cast<std::streamsize>(line.size()));
}

struct Model {
  Model() {
    sizes.vocab = 5, sizes.hidden = 4, sizes.layers = 1, sizes.heads = 2, sizes.max_seq = 3;
    stage = make_stage<float>("gpt", sizes, {}, {&alone, nullptr, &clock, false});
  }
  ModelConfig sizes;
  TensorParallel<float> alone;
  ComputeClock clock;
  std::unique_ptr<Stage<float>> stage;
};

std::string extents_of(const Shape& shape) {
  std::string text;
  for (int i = 0; i < shape.rank(); ++i) text += (i == 0 ? "" : "x") + std::to_string(shape[i]);
  return text;
}

void read_checkpoint(std::string_view input) {
  static Model model;
  static const std::string path = as_file("checkpoint.h5", "");
  make_hdf5(path, input, seal_bytes);
  seal(path, std::string(checkpoint_kind) + " version=" + std::to_string(checkpoint_version), "");
  const auto way = [](const auto& read) {
    try {
      read();
    } catch (const Error& error) {
      if (std::string_view(error.what()).starts_with("internal error")) throw;
    }
  };
  way([&] { saved_model(path); });
  way([&] { load_weights(path, *model.stage); });
  checkpoint_content(path);
}

std::vector<std::string> checkpoint_seeds() {
  Model model;
  std::string text = "text . corpus_sha256 ab\nint . steps_taken 3\nint . compresses 1\ngroup config\n";
  const TrainConfig config = make_train_config({});
  for (const TrainOption& option : train_options()) text += "text config " + option.flag + " " + option.get(config) + "\n";
  for (const Parameter<float>* p : model.stage->parameters()) text += "data weights/" + p->name() + " f32 " + extents_of(p->shape()) + "\n";
  const std::string state = "data codec_state/rank0/0 u8 9\ntext codec_state/rank0/0 channel dp_gradient\ndata per_replica/0/momentum/x f32 3\n";
  return {text + state};
}
const bool checkpoints = register_target({"checkpoint", "checkpoints: --resume, --from, content", 1'100, read_checkpoint, checkpoint_seeds});

void read_record(std::string_view input) {
  static const std::string path = as_file("record.h5", "");
  make_hdf5(path, input, seal_bytes);
  seal(path, "thinwire-record schema=" + std::to_string(results::schema_version), " cell=ab status=OK code=c reason=");
  results::read_cell_record(path);
}

template <typename Row>
std::string table_line(const std::string& name, int rows, std::span<const results::ColumnOf<Row>> columns) {
  std::string line = "table " + name + " " + std::to_string(rows);
  for (const results::ColumnOf<Row>& column : columns) line += std::string(" ") + column.name + ":" + (column.member.index() == 0 ? "s8=OK" : std::string(results::type_name(column)) + "=2");
  return line + "\n";
}

std::vector<std::string> record_seeds() {
  const std::string head = "int . schema_version " + std::to_string(results::schema_version) + "\ntext . cell_id ab\ntext . program p\nint . ranks 2\ntext . link shm\ntext . parameters {\"a\":1}\n";
  return {head + table_line("cells", 1, results::cell_columns()) + table_line("samples", 2, results::sample_columns()) + table_line("links", 0, results::link_columns()) +
          table_line("provenance", 1, results::provenance_columns())};
}
const bool records = register_target({"record", "records of cells: OUT/cells/ID.h5", 1'900, read_record, record_seeds});

/// The bytes of a file as they are: no input has the check sum of what follows by chance, so nothing gets to HDF5.
void read_seal(std::string_view input) {
  const std::string path = as_file("sealed.h5", input);
  const results::RecordCheck check = results::check_record(path);
  if (check.state == results::RecordState::finished && !input.starts_with("thinwire-record")) throw Finding("a file without a seal counts as finished");
  saved_model(path);
}
std::vector<std::string> seal_seeds() {
  const TemporaryFolder folder;
  const std::string path = folder / "x.h5";
  make_hdf5(path, checkpoint_seeds().front(), seal_bytes);
  seal(path, std::string(checkpoint_kind) + " version=" + std::to_string(checkpoint_version), "");
  return {TemporaryFolder::read(path)};
}
const bool seals = register_target({"seal", "seals of checkpoints and records", 5'100, read_seal, seal_seeds});

}  // namespace
}  // namespace thinwire::fuzz
