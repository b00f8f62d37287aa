// What a course's settings are to the trainer: whether it takes them, how many steps make a round, and whether timed runs can begin with a loss run's state.
#pragma once

#include "experiments/race/course.h"
#include "models/training/config/train_config.h"

namespace thinwire::race {

/// UsageError for options that train_gpt does not have or values that it cannot read.
TrainConfig config_of(const results::Parameters& parameters);

/// Steps after which an entrant's exchanges repeat: the inner steps of an outer loop, else 1.
int round_of(const Course& course, const Entrant& entrant);

/// Of a timed run: a whole number of rounds, ten steps (or what [time] says) at least.
int window_steps(const Course& course, const Entrant& entrant);

/// Between an entrant's loss runs and its timed ones layouts, rules or batches differ, so that the state of codecs and replicas cannot go along.
bool layouts_differ(const Course& course, const Entrant& entrant);

/// UsageError naming course, entrant and reason: settings that train_gpt refuses, a mesh of another number of ranks, validations between the ends of rounds (they would see the global weights of the
/// round before), and timed runs of another model than the loss runs whose state they are to begin with.
void check_settings(const Course& course);

/// Puts a text (file or folder) in the place of the course's, in all its runs. Its SHA-256 is stated beside the path, so that a race does not go on over a text that changed. A target that the
/// course states belongs to the other text and is dropped: the baseline sets one. UsageError for a path without text, EnvironmentError for one that is not there.
void race_on_text(Course& course, const std::string& path);

}  // namespace thinwire::race
