// labels: unit
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <type_traits>

#include "core/error.h"
#include "models/training/config/train_options.h"
#include "support/temporary_folder.h"

namespace thinwire {
namespace {

using testing::message_of;
using testing::TemporaryFolder;

std::string everything(const TrainConfig& config) {
  std::string text;
  for (const TrainOption& option : train_options()) text += option.key + "=" + option.get(config) + "\n";
  return text;
}

TrainConfig from_file(const std::string& toml) {
  const TemporaryFolder folder;
  return make_train_config(read_train_file(folder.write("run.toml", toml)));
}

std::string file_error(const std::string& toml) {
  return message_of<UsageError>([&] { (void)from_file(toml); });
}

// An option that does not say what a resumed run makes of another value does not compile.
static_assert(!std::is_default_constructible_v<TrainOption>);
static_assert(std::is_constructible_v<TrainOption, const char*, const char*, OnResume, const char*, const char*, TrainOption::Kind>);
static_assert(!std::is_constructible_v<TrainOption, const char*, const char*, const char*, const char*, TrainOption::Kind>);

TEST(TrainOptions, OldNamesAreRefusedWithTheNamesOfToday) {
  const auto flag_error = [](const char* flag, const char* value) { return message_of<UsageError>([&] { (void)make_train_config({{flag, value}}); }); };
  EXPECT_NE(flag_error("shard-optimizer", "true").find("`zero-stage`"), std::string::npos);
  EXPECT_NE(flag_error("compress.weight_gather", "cast").find("`compress.param_all_gather`"), std::string::npos);
  EXPECT_NE(flag_error("compress.gradient_scatter", "cast").find("`compress.grad_reduce_scatter`"), std::string::npos);
  EXPECT_NE(file_error("[parallel]\nshard_optimizer = true\n").find("parallel.zero_stage"), std::string::npos);
}

TEST(TrainOptions, EveryKeyAndEveryFlagIsThereOnceWithHelpAndADefaultThatSets) {
  std::set<std::string> keys, flags;
  const TrainConfig defaults = train_defaults();
  for (const TrainOption& option : train_options()) {
    EXPECT_TRUE(keys.insert(option.key).second) << option.key;
    EXPECT_TRUE(flags.insert(option.flag).second) << option.flag;
    EXPECT_FALSE(option.help.empty()) << option.key;
    TrainConfig copy = defaults;
    option.set(copy, option.get(defaults));
    EXPECT_EQ(everything(copy), everything(defaults)) << option.key;
  }
}

/// A value that differs from the default, by kind; from a fixed list where words or codecs are needed.
std::string random_value(const TrainOption& option, std::mt19937_64& random) {
  if (!option.choices.empty()) return option.choices[random() % option.choices.size()];
  if (option.key.starts_with("compress.") && option.key.ends_with("layers"))
    return random() % 2 ? "0-1" : "all";
  if (option.key.starts_with("compress.") && option.key.ends_with("stages"))
    return random() % 2 ? "0" : "all";
  switch (option.kind) {
    case TrainOption::Kind::integer:
      return std::to_string(1 + random() % 1000);
    case TrainOption::Kind::real:
      return std::to_string(std::ldexp(static_cast<double>(random() % 100000), -40)).substr(0, 12);
    case TrainOption::Kind::truth:
      return random() % 2 ? "true" : "false";
    case TrainOption::Kind::text:
      break;
  }
  const char* const codecs[] = {"none", "topk:fraction=0.01+ef", "quantize:bits=4", "powersgd:rank=4"};
  if (option.key.starts_with("compress.")) return codecs[random() % 4];
  const char* const texts[] = {"", "a b.h5", "quote \" back \\ slash", "größer\nline\t#"};
  return texts[random() % 4];
}

TEST(TrainOptions, APrintedConfigurationReadsBackTheSame) {
  const char* const given = std::getenv("THINWIRE_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::stoull(given) : 20260101;
  SCOPED_TRACE("THINWIRE_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    TrainValues values;
    for (const TrainOption& option : train_options())
      if (random() % 2 && option.flag != "from") values[option.flag] = random_value(option, random);  // a folder that is given is read
    const TrainConfig config = make_train_config(values);
    const std::string printed = print_config(config);
    EXPECT_EQ(everything(from_file(printed)), everything(config)) << printed;
    EXPECT_EQ(print_config(from_file(printed)), printed);
  }
}

TEST(TrainOptions, NumbersKeepEveryBit) {
  for (const double rate : {1e-3, 1.0 / 3, 6.02e-23, 1e22, 0.1 + 0.2}) {
    TrainConfig config = make_train_config({});
    config.trainer.schedule.peak = rate;
    EXPECT_EQ(from_file(print_config(config)).trainer.schedule.peak, rate);
  }
}

TEST(TrainOptions, AVocabularyThatIsNotTheCheckpointsIsRefused) {
  const TemporaryFolder bert, elsewhere;
  bert.write("config.json", R"({"model_type": "bert", "hidden_act": "gelu", "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48, "vocab_size": 7,
    "type_vocab_size": 2, "max_position_embeddings": 10, "layer_norm_eps": 1e-12})");
  const std::string pieces = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", own = bert.write("vocab.txt", pieces + "cat\ndog\n");
  const auto with = [&](const std::string& vocabulary) { return make_train_config({{"model", "bert:task=classification"}, {"from", bert.path()}, {"vocabulary", vocabulary}}).vocabulary; };
  EXPECT_EQ(make_train_config({{"model", "bert:task=classification"}, {"from", bert.path()}}).vocabulary, own);
  EXPECT_EQ(with(own), own);
  const std::string copy = elsewhere.write("copy.txt", pieces + "cat\ndog\n"), other = elsewhere.write("other.txt", pieces + "dog\ncat\n");
  EXPECT_EQ(with(copy), copy);
  const std::string message = message_of<UsageError>([&] { (void)with(other); });
  EXPECT_NE(message.find(other), std::string::npos) << message;
  EXPECT_NE(message.find(own), std::string::npos) << message;
  EXPECT_EQ(with(elsewhere / "none.txt"), elsewhere / "none.txt") << "whoever reads it says that it is not there";
  std::filesystem::remove(own);
  EXPECT_EQ(with(other), other) << "a checkpoint need not have one";
}

TEST(TrainOptions, FlagsOverrideTheFile) {
  const TemporaryFolder folder;
  TrainValues values =
      read_train_file(folder.write("run.toml", "[model]\nhidden = 96\nlayers = 6\n[mesh]\ntp = 2\n"));
  values["hidden"] = "192";
  const TrainConfig config = make_train_config(values);
  EXPECT_EQ(config.model.hidden, 192);
  EXPECT_EQ(config.model.layers, 6);
  EXPECT_EQ(config.mesh.tp, 2);
}

TEST(TrainOptions, ACodecIsWrittenShortOrAsATable) {
  const TrainConfig text = from_file("[compress]\ntp_forward = \"topk:fraction=0.1\"\n");
  EXPECT_EQ(text.compress.at(TrafficClass::tp_forward).codec, "topk:fraction=0.1");
  const TrainConfig table = from_file(
      "[compress]\nform = \"released\"\n[compress.tp_forward]\ncodec = \"topk:fraction=0.1\"\nlayers = "
      "\"2-3\"\nwarmup_steps = 7\nprotocol = \"gather\"\nat_evaluation = false\n");
  const CompressRule& rule = table.compress.at(TrafficClass::tp_forward);
  EXPECT_EQ(rule.codec, "topk:fraction=0.1");
  EXPECT_EQ(rule.layers, "2-3");
  EXPECT_EQ(rule.warmup_steps, 7);
  EXPECT_EQ(rule.protocol, Protocol::gather);
  EXPECT_FALSE(rule.at_evaluation);
  EXPECT_EQ(table.form, Form::released);
  const TrainConfig flags = make_train_config({{"compress.tp_forward", "topk:fraction=0.1"},
                                               {"compress.tp_forward.layers", "2-3"},
                                               {"compress.tp_forward.warmup_steps", "7"},
                                               {"compress.tp_forward.protocol", "gather"},
                                               {"compress.tp_forward.at_evaluation", "false"},
                                               {"form", "released"}});
  EXPECT_EQ(everything(flags), everything(table));
  EXPECT_TRUE(make_train_config({{"compress.tp_forward", "none"}, {"compress.tp_forward.layers", "1"}})
                  .compress.empty());
  const TrainConfig inside = make_train_config({{"compress.grad_reduce_scatter.inside", "group"}});
  EXPECT_EQ(inside.compress.at(TrafficClass::grad_reduce_scatter).inside, "group");
  EXPECT_EQ(everything(from_file(print_config(inside))), everything(inside));
}

TEST(TrainOptions, SizesThatFollowOthersAreFilledIn) {
  const TrainConfig config = make_train_config({{"seq", "96"}, {"steps", "33"}});
  EXPECT_EQ(config.model.max_seq, 96);
  EXPECT_EQ(config.trainer.schedule.total, 33);
  const TrainConfig given =
      make_train_config({{"seq", "96"}, {"steps", "33"}, {"max-seq", "128"}, {"schedule-steps", "400"}});
  EXPECT_EQ(given.model.max_seq, 128);
  EXPECT_EQ(given.trainer.schedule.total, 400);
}

TEST(TrainOptions, MistakesNamePlaceAndNearestName) {
  struct Case {
    std::string toml, says;
  };
  const Case cases[] = {
      {"[model]\nhiden = 3\n", "did you mean `model.hidden`"},
      {"[model]\nhiden = 3\n", "run.toml:2"},
      {"[modell]\nhidden = 3\n", "run.toml"},
      {"[modell]\nhidden = 3\n", "did you mean"},
      {"hidden = 3\n", "did you mean"},
      {"[model]\nhidden = \"3\"\n", "`model.hidden` must be a whole number"},
      {"[model]\nhidden = 3.5\n", "must be a whole number"},
      {"[model]\nhidden = [3]\n", "must be a whole number"},
      {"[train]\nlearning_rate = \"fast\"\n", "must be a number"},
      {"[parallel]\noverlap = 1\n", "must be true or false"},
      {"[parallel]\nschedule = \"1f2b\"\n", "did you mean `1f1b`"},
      {"[parallel]\nrecompute = true\n", "must be text in quotes"},
      {"[timing]\ncompute = \"replay\"\n", "real, timed"},
      {"[compress]\ntp_foward = \"topk\"\n", "did you mean `compress.tp_forward`"},
      {"[compress]\ncontrol = \"topk\"\n", "never compressed"},
      {"[compress.tp_forward]\nlayer = \"1\"\n", "did you mean `compress.tp_forward.layers`"},
      {"[compress.tp_forward]\nprotocol = \"round\"\n", "did you mean 'rounds'"},
      {"[model\n", "run.toml:1"},
      {"[mesh]\ntp = 99999999999\n", "beyond what this number can hold"},
  };
  for (const Case& c : cases)
    EXPECT_NE(file_error(c.toml).find(c.says), std::string::npos) << c.toml << " -> " << file_error(c.toml);
  const auto flag_error = [](const TrainValues& values) {
    return message_of<UsageError>([&] { (void)make_train_config(values); });
  };
  EXPECT_NE(flag_error({{"hiden", "3"}}).find("did you mean `hidden`"), std::string::npos);
  EXPECT_NE(flag_error({{"steps", "ten"}}).find("--steps: `ten` is not a whole number"), std::string::npos);
  EXPECT_NE(flag_error({{"seed", "-1"}}).find("--seed"), std::string::npos);
  for (const std::string codec : {"none", "topk"})
    for (const std::string part : {"layers", "stages"})
      EXPECT_NE(flag_error({{"compress.tp_forward", codec}, {"compress.tp_forward." + part, "first"}}).find("compress.tp_forward." + part), std::string::npos) << codec << ", " << part;
  EXPECT_NE(flag_error({{"learning-rate", "nan"}}).find("--learning-rate: `nan` is not a number"),
            std::string::npos);
  EXPECT_THROW((void)read_train_file("/nowhere/run.toml"), EnvironmentError);
}

TEST(TrainCheck, TheDefaultsAreSound) {
  EXPECT_NO_THROW(make_train_config({}).check());
  EXPECT_NO_THROW(make_train_config({{"tp", "2"},
                                     {"pp", "2"},
                                     {"dp", "2"},
                                     {"compress.tp_forward", "topk:fraction=0.1"},
                                     {"compress.dp_gradient", "powersgd:rank=4+ef"}})
                      .check());
}

// What goes back through a mask or a map of the forward message is no matrix of tokens: only a codec that takes any list of numbers alike may code it.
TEST(TrainCheck, AGradientBehindAMaskOrAMapTakesNoCodecThatWouldSeeAMatrixInIt) {
  const auto refusal = [](TrainValues values) {
    values.insert({{"pp", "4"}, {"layers", "8"}, {"hidden", "64"}, {"heads", "4"}});
    try {
      make_train_config(values).check();
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string forward = "compress.pp_forward", backward = "compress.pp_backward";
  const std::vector<std::string> masks = {"topk:fraction=0.05", "randomk:fraction=0.1", "topk:fraction=0.05+hadamard", "topk:fraction=0.05+ef"}, maps = {"autoencoder:fraction=0.25,init=xavier", "cast:to=bf16+subspace:k=8"};
  for (const std::string codec : {"topk:fraction=0.05", "quantize:bits=8", "powersgd:rank=2", "sign", "tah", "group+ef", "group+ef21", "group+delta", "group+hadamard", "cast+lep", "fp8:scale=row"}) {
    for (const std::string& mask : masks) {
      const std::string message = refusal({{forward, mask}, {backward, codec}});
      for (const char* says : {"drop compress.pp_backward: the gradient goes back through the forward message's mask", "add +straight_through to compress.pp_forward"})
        EXPECT_NE(message.find(says), std::string::npos) << codec << " behind " << mask << ": " << message;
    }
    for (const std::string& map : maps) {
      const std::string message = refusal({{forward, map}, {backward, codec}});
      EXPECT_NE(message.find("drop compress.pp_backward"), std::string::npos) << codec << " behind " << map << ": " << message;
      EXPECT_EQ(message.find("straight_through"), std::string::npos) << "weights of a map learn from the gradient of its code";
    }
  }
  for (const std::string codec : {"cast", "cast:to=bf16", "group:bits=8", "mx", "nvfp4", "blockwise8", "lossless", "qsgd"})
    for (const auto& list : {masks, maps})
      for (const std::string& ahead : list) EXPECT_EQ(refusal({{forward, ahead}, {backward, codec}}), "") << codec << " behind " << ahead;
  for (const std::string ahead : {"topk:fraction=0.05+straight_through", "quantize:bits=8", "group+delta"})
    for (const std::string codec : {"topk:fraction=0.05", "topk:fraction=0.1+ef", "quantize:bits=8", "powersgd:rank=2+lep"})
      EXPECT_EQ(refusal({{forward, ahead}, {backward, codec}}), "") << codec << " behind " << ahead;
  // Where the rules meet at no boundary: layers 2, 4 and 6 lie behind them; the stage of a rule is the sender's, which is the next one on the way back.
  const auto at = [&](TrainValues rules) {
    rules.insert({{forward, "topk"}, {backward, "topk"}});
    return refusal(rules);
  };
  EXPECT_EQ(at({{forward + ".layers", "0-3"}, {backward + ".layers", "4-7"}}), "");
  EXPECT_NE(at({{forward + ".layers", "0-4"}, {backward + ".layers", "4-7"}}), "");
  EXPECT_EQ(at({{forward + ".layers", "3"}, {backward + ".layers", "3"}}), "") << "no boundary is in front of layer 3";
  EXPECT_EQ(at({{forward + ".stages", "1"}, {backward + ".stages", "1"}}), "");
  EXPECT_NE(at({{forward + ".stages", "1"}, {backward + ".stages", "2"}}), "");
}

TEST(TrainCheck, ASumInTwoShotsTakesOnlyACodecWhoseGradientIsThatOfWhatArrives) {
  const auto refusal = [](const std::string& codec, TrainValues more = {}) {
    more.insert({{"tp", "2"}, {"sequence-parallel", "false"}, {"compress.tp_forward", codec}, {"compress.tp_forward.protocol", "two_shot"}});
    return message_of<UsageError>([&] { make_train_config(more).check(); });
  };
  for (const char* codec : {"topk:fraction=0.1", "randomk:fraction=0.1", "autoencoder:fraction=0.25,init=xavier"})
    EXPECT_NE(refusal(codec).find("protocol two_shot codes a message twice"), std::string::npos) << codec << ": " << refusal(codec);
  for (const char* codec : {"quantize:bits=8", "group:bits=4", "topk:fraction=0.1+straight_through"}) EXPECT_NO_THROW(make_train_config({{"tp", "2"}, {"sequence-parallel", "false"}, {"compress.tp_forward", codec}, {"compress.tp_forward.protocol", "two_shot"}}).check()) << codec;
  EXPECT_NO_THROW(make_train_config({{"tp", "2"}, {"sequence-parallel", "false"}, {"form", "released"}, {"compress.tp_forward", "topk:fraction=0.1"}, {"compress.tp_forward.protocol", "two_shot"}}).check()) << "whose gradient is copied";
}

TEST(TrainCheck, WhatIsGatheredTakesACodecWithAPayloadOfItsOwn) {
  const auto refusal = [](TrainValues values) { return message_of<UsageError>([&] { make_train_config(values).check(); }); };
  const TrainValues weights = {{"dp", "2"}, {"zero-stage", "1"}, {"compress.param_all_gather", "sign:vote=majority"}};
  EXPECT_NE(refusal(weights).find("weights are gathered, not summed"), std::string::npos) << refusal(weights);
  EXPECT_NE(refusal({{"dp", "2"}, {"zero-stage", "1"}, {"compress.param_all_gather", "group"}, {"compress.param_all_gather.protocol", "two_shot"}}).find("but weights are gathered"), std::string::npos);
  EXPECT_NE(refusal({{"dp", "2"}, {"zero-stage", "1"}, {"optimizer", "muon"}, {"compress.optimizer", "sign:vote=majority"}}).find("matrices are gathered, not summed"), std::string::npos);
  EXPECT_NO_THROW(make_train_config({{"dp", "2"}, {"zero-stage", "1"}, {"compress.param_all_gather", "group"}, {"compress.param_all_gather.protocol", "gather"}}).check());
}

TEST(TrainCheck, ACodecThatLearnsIsRefusedWhereReplicasMeetSeldom) {
  const auto values = [](const char* replicas) {
    return TrainValues{{"pp", "2"}, {"dp", "2"}, {"dp-replicas", replicas}, {"optimizer", "adamw+diloco"}, {"compress.pp_forward", "autoencoder:fraction=0.25,init=xavier"}};
  };
  EXPECT_NE(message_of<UsageError>([&] { make_train_config(values("2")).check(); }).find("would be others in each replica"), std::string::npos);
  EXPECT_NO_THROW(make_train_config(values("1")).check()) << "one replica on two ranks, which average at every step";
}

TEST(TrainCheck, AWrapperThatLooksAtItsOwnMessageIsRefusedWhereTheDecoderTrainsElsewhere) {
  const auto refusal = [](const std::string& traffic, const std::string& codec) {
    return message_of<UsageError>([&] { make_train_config({{"pp", "2"}, {"tp", "2"}, {traffic, codec}}).check(); });
  };
  for (const std::string wrapper : {"+ef", "+ef21", "+lep", "+loco"}) {
    const std::string codec = "autoencoder:fraction=0.25,init=xavier" + wrapper;
    EXPECT_NE(refusal("compress.pp_forward", codec).find("the one that trains is the receiver's"), std::string::npos) << wrapper;
    EXPECT_NE(refusal("compress.pp_backward", codec).find("the one that trains is the receiver's"), std::string::npos) << wrapper;
  }
  EXPECT_NO_THROW(make_train_config({{"dp", "2"}, {"optimizer", "dion:reduction=gradients+subspace:k=8"}, {"compress.dp_gradient", "topk+ef"}}).check());
  EXPECT_NO_THROW(make_train_config({{"pp", "2"}, {"tp", "2"}, {"compress.pp_forward", "autoencoder:fraction=0.25,init=xavier"}, {"compress.tp_forward", "autoencoder:fraction=0.25,init=xavier+ef"}}).check());
}

TEST(TrainCheck, SizesThatDoNotDivideAreOneErrorWithBothNumbersAndTheRemedy) {
  struct Case {
    TrainValues values;
    std::vector<std::string> says;
  };
  const Case cases[] = {
      {{{"hidden", "100"}, {"heads", "7"}}, {"100", "7", "--hidden"}},
      {{{"heads", "6"}, {"hidden", "96"}, {"tp", "4"}}, {"6", "4 tensor", "--heads 8"}},
      {{{"layers", "6"}, {"pp", "4"}}, {"6 layers", "4 model chunks", "--layers 8"}},
      {{{"layers", "6"}, {"pp", "2"}, {"virtual-stages", "2"}, {"schedule", "interleaved"}},
       {"6 layers", "4 model chunks"}},
      {{{"global-batch", "7"}, {"dp", "2"}, {"micro-batch", "2"}},
       {"7", "4 (dp 2 x micro-batch 2)", "--global-batch 8"}},
      {{{"seq", "7"}, {"tp", "2"}, {"sequence-parallel", "true"}}, {"7 rows", "2 tensor", "--seq"}},
      {{{"seq", "7"}, {"tp", "2"}, {"scatter-gather", "true"}}, {"scatter/gather", "7 rows"}},
      {{{"seq", "200"}, {"max-seq", "128"}}, {"200", "128", "--max-seq 200"}},
      {{{"virtual-stages", "2"}}, {"1f1b", "not 2", "--virtual-stages 2"}},
      {{{"schedule", "interleaved"}, {"virtual-stages", "2"}}, {"at least 2 stages", "--pp 1"}},
      {{{"schedule", "interleaved"}, {"virtual-stages", "2"}, {"pp", "2"}, {"global-batch", "3"}},
       {"micro-batches (3)", "stages (2)", "global batch 3"}},
      {{{"tp", "2"}, {"sequence-parallel", "true"}, {"compress.tp_forward", "topk"}},
       {"straight-through", "--sequence-parallel false"}},
      {{{"dtype", "f64"}, {"compress.tp_forward", "topk"}}, {"f64", "topk"}},
      {{{"compress.tp_forward", "topq"}}, {"compress.tp_forward", "topk"}},
      {{{"compress.tp_forward", "topk"}, {"compress.tp_forward.protocol", "rounds"}}, {"rounds", "gather"}},
      {{{"compress.pp_forward", "topk"}, {"compress.pp_forward.protocol", "gather"}}, {"stage to stage"}},
      {{{"compress.dp_gradient", "topk"}, {"compress.dp_gradient.protocol", "point_to_point"}},
       {"summed over ranks"}},
      {{{"compress.tp_forward", "topk"}, {"compress.tp_forward.layers", "9-12"}},
       {"9-12", "none of the 4 layers"}},
      {{{"compress.tp_forward", "topk"}, {"compress.tp_forward.layers", "x"}}, {"x", "layers"}},
      {{{"compress.grad_reduce_scatter", "topk"}}, {"--zero-stage 1"}},
      {{{"compress.dp_gradient", "topk"}, {"zero-stage", "1"}}, {"grad_reduce_scatter"}},
      {{{"compress.optimizer", "topk"}}, {"compress.optimizer", "adamw", "dp_gradient"}},
      {{{"compress.tp_weight", "quantize:bits=8"}}, {"--tensor-parallel"}},
      {{{"zero-stage", "7"}}, {"7", "0 (", "1 ("}},
      {{{"optimizer", "adam"}}, {"adam", "did you mean 'adamw'"}},
      {{{"optimizer", "adamw:beta=0.5"}}, {"beta", "it takes none"}},
      {{{"dp", "4"}, {"global-batch", "8"}, {"dp-replicas", "2"}}, {"--dp-replicas 2", "adamw"}},
      {{{"dp", "4"}, {"global-batch", "8"}, {"dp-nodes", "3"}}, {"--dp-nodes", "3"}},
      {{{"compute", "timed"}, {"checkpoint", "x.h5"}}, {"timed", "--checkpoint"}},
      {{{"pp", "1"}, {"compress.pp_backward", "powersgd"}, {"compress.pp_backward.epilogue_only", "true"}}, {"epilogue_only", "--pp is 1"}},
      {{{"pp", "2"}, {"schedule", "gpipe"}, {"compress.pp_backward", "powersgd"}, {"compress.pp_backward.epilogue_only", "true"}},
       {"epilogue_only", "gpipe"}},
      {{{"compress.dp_gradient", "powersgd+lep"}}, {"lep", "+ef"}},
      {{{"dp", "2"}, {"optimizer", "dion+subspace:k=8"}, {"compress.dp_gradient", "topk"}}, {"compress.dp_gradient", "two factors already"}},
      {{{"layers", "4294967298"}}, {"layers", "at most 1048576"}},
      {{{"hidden", "4611686018427387904"}}, {"hidden", "at most 1048576"}},
      {{{"micro-batch", "9223372036854775807"}, {"global-batch", "9223372036854775807"}}, {"-batch", "at most 2147483647"}},
      {{{"seq", "4294967296"}}, {"seq", "at most 2147483647"}},
      {{{"compress.pp_backward", "none+lep"}}, {"lep", "lossy"}},
      {{{"compress.pp_backward", "powersgd:rank=100000"}}, {"rank"}},
      {{{"compress.dp_gradient", "powersgd"}, {"compress.dp_gradient.stages", "0-7"}}, {"stages", "7"}},
      {{{"pp", "2"}, {"schedule", "interleaved"}, {"virtual-stages", "2"}, {"compress.pp_forward", "topk"}, {"compress.pp_forward.stages", "2-3"}}, {"2-3", "none of the 2 stages"}},
      {{{"form", "released"}, {"pp", "2"}, {"micro-batch", "4"}, {"compress.pp_backward", "powersgd"}}, {"compress.pp_backward", "multiple of 8", "4"}},
      {{{"pp", "2"}, {"compress.pp_backward", "powersgd:rows=7"}}, {"rows 7", "do not divide"}},
      {{{"pp", "2"}, {"compress.pp_backward", "powersgd:rows=2,rank=4"}}, {"rank 4", "2 rows"}},
      {{{"dp", "2"}, {"compress.dp_gradient", "topk"}, {"compress.dp_gradient.stacked", "true"}}, {"stacked", "topk", "powersgd"}},
      {{{"dp", "2"}, {"compress.dp_gradient", "powersgd"}, {"compress.dp_gradient.stacked", "true"}, {"error-interval", "5"}}, {"--error-interval", "stacked"}},
      {{{"compute-scale", "2"}}, {"compute-scale", "timed"}},
      {{{"omit", "dp_gradient"}}, {"omit = dp_gradient", "timed"}},
      {{{"compute", "timed"}, {"omit", "control"}}, {"control"}},
      {{{"stage-forward-us", "5"}, {"stage-backward-us", "5"}}, {"stage-forward-us", "timed"}},
      {{{"compute", "timed"}, {"stage-forward-us", "5"}}, {"stage-backward-us", "together"}},
      {{{"compute", "timed"}, {"compute-scale", "0"}}, {"compute-scale", "above 0"}},
      {{{"checkpoint-interval", "3"}}, {"--checkpoint-interval 3"}},
      {{{"steps", "0"}}, {"--steps is 0"}},
      {{{"learning-rate", "0"}}, {"--learning-rate"}},
      {{{"order", "tp-tp-dp"}}, {"tp-tp-dp"}},
      {{{"tp", "0"}}, {"0"}},
  };
  for (const Case& c : cases) {
    const std::string message = message_of<UsageError>([&] { make_train_config(c.values).check(); });
    for (const std::string& says : c.says)
      EXPECT_NE(message.find(says), std::string::npos) << says << " not in: " << message;
  }
  // `way` of the released code beyond the last stage means all stages (docs/papers/optimus_cc.md, "Defects of the released code" 10).
  EXPECT_NO_THROW(make_train_config({{"form", "released"}, {"compress.dp_gradient", "powersgd"}, {"compress.dp_gradient.stages", "0-7"}}).check());
  TrainConfig config = make_train_config({});
  config.compress[TrafficClass::control].codec = "topk";
  EXPECT_NE(message_of<UsageError>([&] { config.check(); }).find("never compressed"), std::string::npos);
}

TEST(TrainOptions, BucketsFollowTheModelUnlessTheRunSaysTheirSize) {
  const TrainConfig follows = make_train_config({}), stated = make_train_config({{"bucket-cap-mb", "0.5"}});
  EXPECT_EQ(follows.bucket_bytes(3369984), 3369984 / 16);
  EXPECT_EQ(follows.bucket_bytes(1000), 64 << 10) << "no bucket for every vector of a tiny model";
  EXPECT_EQ(follows.bucket_bytes(std::int64_t{1} << 40), 4 << 20);
  for (const std::int64_t gradient : {std::int64_t{1000}, std::int64_t{1} << 40}) EXPECT_EQ(stated.bucket_bytes(gradient), 1 << 19);
}

}  // namespace
}  // namespace thinwire
