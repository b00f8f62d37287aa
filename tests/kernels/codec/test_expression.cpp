// labels: unit
// The grammar NAME[:key=value,...][+WRAPPER[:key=value,...]]... and the list behind --list.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/codec/registry.h"

namespace thinwire {
namespace {

std::string refusal(const std::string& text) {
  try {
    parse_codec(text);
  } catch (const UsageError& e) {
    return e.what();
  }
  ADD_FAILURE() << "'" << text << "' was accepted";
  return "";
}
void expect_refusal(const std::string& text, const std::vector<std::string>& fragments) {
  const std::string message = refusal(text);
  for (const auto& fragment : fragments)
    EXPECT_NE(message.find(fragment), std::string::npos)
        << "'" << text << "': " << message << "\nlacks: " << fragment;
}

TEST(Expression, CanonicalTextLeavesOutDefaultsSortsKeysAndNormalisesNumbers) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"none", "none"},
      {"cast", "cast"},
      {"cast:to=f16", "cast"},
      {"cast:to=bf16", "cast:to=bf16"},
      {"topk", "topk"},
      {"topk:fraction=0.01", "topk"},
      {"topk:fraction=1e-2", "topk"},
      {"topk:fraction=0.0500", "topk:fraction=0.05"},
      {"topk:values=f32,index=int32,fraction=5e-02", "topk:fraction=0.05,index=int32,values=f32"},
      {"topk:count=0100", "topk:count=100"},
      {"randomk:unbiased", "randomk:unbiased=true"},
      {"randomk:unbiased=1,seed=7", "randomk:seed=7,unbiased=true"},
      {"randomk:unbiased=no", "randomk"},
      {"quantize:bits=8", "quantize"},
      {"quantize:packing=auto,bits=2", "quantize:bits=2"},
      {"topk:fraction=0.01+ef", "topk+ef"},
  };
  for (const auto& [text, canonical] : cases) {
    EXPECT_EQ(parse_codec(text).canonical(), canonical) << text;
    EXPECT_EQ(parse_codec(canonical).canonical(), canonical) << "canonical text parses to itself";
  }
}

TEST(Expression, ValuesAndDefaultsReachTheCodec) {
  const CodecExpression e = parse_codec("topk:fraction=0.25");
  EXPECT_EQ(e.codec.name, "topk");
  EXPECT_EQ(e.codec.parameters.real("fraction"), 0.25);
  EXPECT_EQ(e.codec.parameters.integer("count"), 0);
  EXPECT_EQ(e.codec.parameters.choice("values"), "f16");
  EXPECT_FALSE(parse_codec("randomk").codec.parameters.flag("unbiased"));
  EXPECT_TRUE(parse_codec("none").is_dense());
  EXPECT_FALSE(parse_codec("none+ef").is_dense());
  EXPECT_FALSE(parse_codec("cast").is_dense());
}

TEST(Expression, APlusBeforeADigitBelongsToANumber) {
  EXPECT_EQ(parse_codec("topk:fraction=1e+0").codec.parameters.real("fraction"), 1.0);
  EXPECT_EQ(parse_codec("topk:fraction=1E-1").codec.parameters.real("fraction"), 0.1);
  expect_refusal("topk:fraction=0.0+1", {"a number from 0 to 1"});
}

TEST(Expression, UnknownNamesListWhatExistsAndTheNearest) {
  expect_refusal("topp",
                 {"unknown codec 'topp'", "did you mean 'topk'", "none", "cast", "quantize", "randomk"});
  expect_refusal("", {"unknown codec ''", "topk"});
  expect_refusal("topk+eff", {"unknown wrapper 'eff'", "did you mean 'ef'"});
  expect_refusal("topk+", {"unknown wrapper ''"});
  expect_refusal("topk:fracton=0.1", {"'topk' has no parameter 'fracton'", "did you mean 'fraction'", "count",
                                      "index", "values"});
  expect_refusal("none:x=1", {"'none' has no parameter 'x'", "takes none"});
  expect_refusal("cast:to=fp16", {"cast:to=fp16", "f16, bf16", "did you mean 'f16'"});
}

TEST(Expression, BadValuesSayTypeAndRange) {
  expect_refusal("topk:fraction=1.5", {"fraction", "a number from 0 to 1"});
  expect_refusal("topk:fraction=nan", {"a number from 0 to 1"});
  expect_refusal("topk:fraction=0.1x", {"a number from 0 to 1"});
  expect_refusal("topk:fraction=", {"a number from 0 to 1"});
  expect_refusal("topk:fraction", {"has no value"});
  expect_refusal("quantize:bits=9", {"an integer from 1 to 8"});
  expect_refusal("quantize:bits=4.0", {"an integer from 1 to 8"});
  expect_refusal("quantize:bits=-1", {"an integer from 1 to 8"});
  expect_refusal("quantize:bits=99999999999999999999", {"an integer from 1 to 8"});
  expect_refusal("randomk:unbiased=maybe", {"true or false"});
  expect_refusal("topk:fraction=0.1,fraction=0.2", {"given twice"});
  expect_refusal("topk:", {"has no parameter ''"});
  expect_refusal("topk :fraction=0.1", {"unknown codec 'topk '"});
}

TEST(Expression, ContradictionsAreRefusedWhereTheConfigurationIsRead) {
  expect_refusal("topk:fraction=0.1,count=5", {"contradicts", "give one of them"});
  expect_refusal("randomk:fraction=0.1,count=5", {"contradicts"});
  expect_refusal("quantize:bits=3,packing=chunk", {"packing=neighbour"});
  expect_refusal("sign:block=64", {"needs scope=block"});
  expect_refusal("fp8:block=16,scale=row", {"needs scale=block"});
  expect_refusal("autoencoder:width=3,fraction=0.5", {"drop one of them"});
  expect_refusal("sampled_topk:ramp_stages=7", {"give ramp_steps"});
}

TEST(Registry, EveryEntryIsCompleteAndItsDefaultsAreValid) {
  const auto check = [](const auto& info) {
    SCOPED_TRACE(info.name);
    EXPECT_FALSE(info.summary.empty());
    EXPECT_FALSE(info.source.empty());
    EXPECT_FALSE(info.wire.empty());
    for (const ParameterSpec& p : info.parameters) {
      SCOPED_TRACE(p.name);
      EXPECT_FALSE(p.help.empty());
      EXPECT_FALSE(p.default_value.empty());
      if (p.kind == ParameterSpec::Kind::integer || p.kind == ParameterSpec::Kind::real) {
        EXPECT_LT(p.minimum, p.maximum);
      } else if (p.kind == ParameterSpec::Kind::choice) {
        EXPECT_GE(p.choices.size(), 2u);
      }
    }
  };
  std::vector<std::string> names;
  for (const CodecInfo* info : all_codecs()) {
    check(*info);
    names.push_back(info->name);
    EXPECT_EQ(parse_codec(info->name).canonical(), info->name);
  }
  for (const WrapperInfo* info : all_wrappers()) {
    check(*info);
    const std::string codec = info->decorate ? "cast+" : "none+";  // a codec around the codec may refuse one that loses nothing
    EXPECT_EQ(parse_codec(codec + info->name).canonical(), codec + info->name);
  }
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  for (const char* name : {"autoencoder", "cast", "none", "powersgd", "quantize", "randomk", "topk"})
    EXPECT_TRUE(std::binary_search(names.begin(), names.end(), std::string(name))) << name;
}

/// What a codec makes of some numbers as of its seeds, or "" where a message does not show them.
std::vector<std::byte> first_payload(const std::string& expression, std::optional<std::uint64_t> run_seed = {}) {
  CodecStack stack = make_codec(expression, Form::fair, run_seed);
  const Shape shape{32, 24};
  std::vector<float> x(static_cast<std::size_t>(shape.elements()));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i * i % 97));
  std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
  payload.resize(stack.codec->encode(ConstTensorView(x.data(), shape), {}, payload));
  return payload;
}

TEST(Seeds, ASeedThatIsNotGivenIsTheRunsAndZeroElsewhere) {
  int seeds = 0;
  const auto check = [&](const std::vector<ParameterSpec>& parameters, const std::string& before, const std::string& behind) {
    for (const ParameterSpec& p : parameters) {
      EXPECT_EQ(p.seed_of_run, p.name == "seed") << before;
      if (!p.seed_of_run) continue;
      ++seeds;
      const auto with = [&](const std::string& seed) { return before + (seed.empty() ? "" : before.find(':') == std::string::npos ? ":" : ",") + seed + behind; };
      SCOPED_TRACE(with(""));
      EXPECT_EQ(first_payload(with("")), first_payload(with("seed=0")));
      EXPECT_EQ(first_payload(with(""), 5), first_payload(with("seed=5")));
      EXPECT_NE(first_payload(with(""), 5), first_payload(with("")));
      EXPECT_EQ(first_payload(with("seed=0"), 5), first_payload(with(""))) << "what is given stays";
      EXPECT_EQ(first_payload(with("seed=7"), 5), first_payload(with("seed=7")));
      EXPECT_EQ(first_payload(with(""), 5 + (std::uint64_t{1} << 40)), first_payload(with(""), 5)) << "31 bits of it";
      // Records and checkpoints name what was written; a given 0 is not the run's.
      EXPECT_EQ(make_codec(with(""), Form::fair, 5).expression.canonical(), parse_codec(with("")).canonical());
      EXPECT_NE(parse_codec(with("seed=0")).canonical(), parse_codec(with("")).canonical());
      EXPECT_EQ(parse_codec(parse_codec(with("seed=0")).canonical()).canonical(), parse_codec(with("seed=0")).canonical());
    }
  };
  const std::map<std::string, std::string> seen_in_a_payload = {{"powersgd", "powersgd:min_ratio=0,rank=2"}, {"autoencoder", "autoencoder:width=4,init=xavier"}, {"randomk", "randomk:fraction=0.2,values=f32"}};
  for (const CodecInfo* info : all_codecs()) {
    const auto found = seen_in_a_payload.find(info->name);
    check(info->parameters, found == seen_in_a_payload.end() ? info->name : found->second, "");
  }
  for (const WrapperInfo* info : all_wrappers()) check(info->parameters, "none+" + info->name + (info->name == "subspace" ? ":table=none" : ""), "");
  EXPECT_EQ(seeds, 4);
}

TEST(Registry, TraitsReadAsWhatTheySay) {
  const auto line = [](const char* codec) { return text_of(make_codec(codec).codec->traits()); };
  EXPECT_EQ(line("none").substr(0, 8), "lossless");
  EXPECT_NE(line("topk").find("the gradient at kept elements"), std::string::npos);
  EXPECT_NE(line("powersgd").find("by 2 rounds of dense reductions"), std::string::npos);
  EXPECT_NE(line("powersgd").find("remembers earlier messages"), std::string::npos);
  EXPECT_NE(line("sketch").find("one by OR"), std::string::npos);
  EXPECT_NE(line("sampled_topk").find("size goes by the values"), std::string::npos);
  EXPECT_EQ(line("group").find("rounds"), std::string::npos);
  EXPECT_NE(line("group").find("takes a list as it takes a matrix"), std::string::npos);
  EXPECT_EQ(line("topk").find("takes a list"), std::string::npos);
}

TEST(Registry, PresetsAreSettingsThatACodecTakesAndEachExpressionComesOnce) {
  const std::vector<std::string> all = preset_expressions();
  for (const CodecInfo* info : all_codecs()) {
    EXPECT_EQ(std::ranges::count(all, info->name), 1) << "the defaults of " << info->name;
    for (const std::string& preset : info->presets) {
      const std::string expression = parse_codec(info->name + ":" + preset).canonical();
      EXPECT_NO_THROW(make_codec(expression)) << expression;
      EXPECT_NE(expression, info->name) << "the preset " << preset << " is the default";
      EXPECT_EQ(std::ranges::count(all, expression), 1) << expression;
    }
  }
  EXPECT_NE(std::ranges::find(all, "quantize:bits=4"), all.end());
  for (const std::string& expression : preset_expressions(Form::released)) EXPECT_NO_THROW(make_codec(expression, Form::released)) << expression;
}

TEST(Registry, AReleasedFormThatDoesNotExistIsRefused) {
  EXPECT_THROW(make_codec("cast", Form::released), UsageError);
  EXPECT_NO_THROW(make_codec("topk", Form::released));
  EXPECT_EQ(parse_form("fair"), Form::fair);
  EXPECT_EQ(parse_form(name_of(Form::released)), Form::released);
  EXPECT_THROW(parse_form("best"), UsageError);
}

}  // namespace
}  // namespace thinwire
