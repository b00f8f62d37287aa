#include "experiments/race/entrant_settings.h"

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "models/data/dataset.h"
#include "models/training/config/train_options.h"
#include "models/update/update_policy.h"

namespace thinwire::race {
namespace {

constexpr int least_window = 10;

/// Of the settings in which they differ, the first that a checkpoint cannot go over with; null: none.
const TrainOption* refused_difference(const TrainConfig& loss, const TrainConfig& time) {
  for (const TrainOption& option : train_options())
    if (option.on_resume == OnResume::refused && option.get(loss) != option.get(time)) return &option;
  return nullptr;
}

void check_shape(const std::string& where, const RunShape& shape, const TrainConfig& config) {
  config.check();
  if (config.mesh.ranks() != shape.ranks)
    throw UsageError("tp x pp x dp is " + std::to_string(config.mesh.ranks()) + ", but " + where + " has ranks = " + std::to_string(shape.ranks));
}

}  // namespace

TrainConfig config_of(const results::Parameters& parameters) {
  TrainValues values;
  for (const auto& [name, value] : parameters.values()) values[name] = results::to_text(value);
  return make_train_config(values);
}

int round_of(const Course& course, const Entrant& entrant) {
  const UpdateExpression update = parse_update(config_of(course.loss.with(entrant)).optimizer);
  const bool has_rounds = std::ranges::count(update.info->parameters, "inner_steps", &ParameterSpec::name) > 0;  // of every outer loop (outer_parameters)
  return has_rounds ? static_cast<int>(update.options.integer("inner_steps")) : 1;
}

int window_steps(const Course& course, const Entrant& entrant) {
  const results::Parameters time = course.time.with(entrant);
  const int round = round_of(course, entrant), least = std::max(least_window, time.values().contains("steps") ? static_cast<int>(time.integer("steps")) : 0);
  return (least + round - 1) / round * round;
}

bool layouts_differ(const Course& course, const Entrant& entrant) {
  const TrainConfig loss = config_of(course.loss.with(entrant)), time = config_of(course.time.with(entrant));
  return std::ranges::any_of(train_options(), [&](const TrainOption& option) {
    return (option.on_resume == OnResume::codec_state || option.on_resume == OnResume::codec_state_and_data) && option.get(loss) != option.get(time);
  });
}

void check_settings(const Course& course) {
  for (const Entrant& entrant : course.entrants) {
    try {
      const TrainConfig loss = config_of(course.loss.with(entrant)), time = config_of(course.time.with(entrant));
      check_shape("[loss]", course.loss, loss);
      check_shape("[time]", course.time, time);
      if (const int round = round_of(course, entrant); course.validate_every % round != 0)
        throw UsageError("its replicas meet every " + std::to_string(round) + " steps, and validate_every = " + std::to_string(course.validate_every) +
                         " is no multiple of that: validations between see the weights of the round before");
      const TrainOption* other = refused_difference(loss, time);
      if (course.midway && other != nullptr)
        throw UsageError("timed runs begin with the state of a loss run, but `" + other->flag + "` is " + other->get(time) + " in [time] and " + other->get(loss) +
                         " in [loss]; say midway = false in [race], and they begin with the initial weights");
    } catch (const UsageError& error) {
      throw UsageError((entrant.where.empty() ? course.name : entrant.where) + ": entrant " + entrant.name + ": " + error.what());
    }
  }
}

void race_on_text(Course& course, const std::string& path) {
  const std::string text = std::filesystem::absolute(path).lexically_normal().string();
  for (RunShape* shape : {&course.loss, &course.time}) {
    const TrainConfig config = config_of(shape->parameters);
    shape->parameters.set("text", text);
    shape->parameters.set("data-sha256", open_data(config.data, text, config.model.seed, config.global_batch, config.vocabulary).hash);
  }
  course.target = 0;
  course.description += std::string(course.description.empty() ? "" : "; ") + "not on that text, but on " + text;
}

}  // namespace thinwire::race
