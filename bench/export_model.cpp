// export_model: the weights of a checkpoint as a folder that other programs read (of a BERT: transformers', and --from).
//   export_model --checkpoint FILE.h5                     what it holds
//   export_model --checkpoint FILE.h5 --out FOLDER        writes FOLDER, complete or not at all
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "core/error.h"
#include "core/process/command_line.h"
#include "core/process/main_guard.h"
#include "models/data/text/vocabulary.h"
#include "models/stage/model_kind.h"
#include "models/training/checkpoint/saved_model.h"

namespace {

using namespace thinwire;
namespace fs = std::filesystem;

struct Options {
  std::string checkpoint, out, vocabulary;
};

template <typename T>
void write_weights(const std::string& folder, const Options& options, const TrainConfig& config) {
  TensorParallel<T> alone;
  ComputeClock clock;
  const auto model = make_stage<T>(config.model_kind, config.model, {}, {&alone, nullptr, &clock, false});
  load_weights(options.checkpoint, *model);
  save_pretrained(config.model_kind, folder, config.model, *model);
}

/// The file of the command line, else the run's own; empty: a model of bytes.
void write_vocabulary(const std::string& folder, const Options& options, const TrainConfig& config) {
  const std::string path = options.vocabulary.empty() ? config.vocabulary : options.vocabulary;
  if (path.empty()) return;
  const text::Vocabulary vocabulary = text::Vocabulary::read(path);
  if (vocabulary.size() > config.model.vocab)
    throw UsageError("'" + path + "' has " + std::to_string(vocabulary.size()) + " pieces, the model's table " + std::to_string(config.model.vocab) + " rows; give the one that it was trained with by --vocabulary");
  vocabulary.write(folder + "/vocab.txt");
}

void write_folder(const Options& options, const SavedModel& saved) {
  if (fs::exists(options.out)) throw UsageError("'" + options.out + "' exists already; name a new folder by --out");
  const std::string partial = options.out + ".partial";
  std::error_code error;
  fs::remove_all(partial, error);  // what a killed run left
  fs::create_directories(partial, error);
  if (error) throw EnvironmentError("'" + partial + "' cannot be made: " + error.message());
  try {
    if (saved.config.dtype == DType::f64)
      write_weights<double>(partial, options, saved.config);
    else
      write_weights<float>(partial, options, saved.config);
    write_vocabulary(partial, options, saved.config);
  } catch (...) {
    fs::remove_all(partial, error);
    throw;
  }
  fs::rename(partial, options.out, error);
  if (error) throw EnvironmentError("'" + options.out + "' cannot be made: " + error.message());
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Weights of a checkpoint of train_gpt as a folder of Hugging Face's transformers, which train_gpt --from reads. docs/text.md", "export_model");
  app.add_option("--checkpoint", options.checkpoint, "file that train_gpt --checkpoint wrote, on any ranks")->required();
  app.add_option("--out", options.out, "folder to be made; without it the program says what the checkpoint holds");
  app.add_option("--vocabulary", options.vocabulary, "vocab.txt that goes with it (default: the one that the run read)")->needs("--out");
  if (const auto helped = parse_command_line(app, argc, argv)) return *helped;
  const SavedModel saved = saved_model(options.checkpoint);
  const ModelConfig& sizes = saved.config.model;
  std::printf("%s after %lld steps: hidden size %lld, %lld layers, %lld heads, %lld tokens, %lld positions\n", saved.config.model_kind.c_str(), static_cast<long long>(saved.steps),
              static_cast<long long>(sizes.hidden), static_cast<long long>(sizes.layers), static_cast<long long>(sizes.heads), static_cast<long long>(sizes.vocab),
              static_cast<long long>(sizes.max_seq));
  if (options.out.empty()) return 0;
  write_folder(options, saved);
  std::printf("wrote %s\n", options.out.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return guarded_main(argc, argv, run); }
