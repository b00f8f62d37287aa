// low_bandwidth_pipeline.C11, C12c, C16, C18 and C20: codecs at the boundaries of race-s, a GPT of 4 layers, hidden 64, four stages, of whose boundaries all are coded. C18's are sums of two
// tensor-parallel ranks.
#include "experiments/claims/activation_compression/cells/pipelines.h"

namespace thinwire::claims {
namespace {

using namespace activation_compression;

constexpr int steps = 500;

Comparison race_s(std::string name) {
  Comparison c = four_stages(std::move(name), steps);
  c.cell.parameters.set("hidden", std::int64_t{64});
  c.cell.parameters.set("learning-rate", 0.01);  // not searched, and the same for all arms
  c.cell.tags = {"low_bandwidth_pipeline", "losses"};
  return c;
}
Comparison pipeline() { return race_s("race-s, boundary codecs"); }

/// Codecs of all three boundaries.
RuleArm arm(const std::string& name, const std::string& ahead, const std::string& back) { return {name, forward(ahead, "all") + backward(back, "all")}; }
RuleArm same(const std::string& name, const std::string& codec) { return arm(name, codec, codec); }

const RuleArm dense{"dense", {}};
const std::string six_bits = "group:range=minmax,bits=6,group=32,scale=f16";
const RuleArm tah = arm("TAH, 3.8 bits", "tah", six_bits), tah_random = arm("TAH, low bits for random tokens", "tah:select=random", six_bits), tah_2 = arm("TAH, 2 bits", "tah:low=2,high=2", six_bits);

const bool tah_loses = register_in_nats({.id = "low_bandwidth_pipeline.C11",
                                         .statement = "TAH-Quant at 3.8 bits loses nothing.",
                                         .provenance = "read: abstracts of 2506.01352",
                                         .constants = {no_loss, smallest},
                                         .scatter = {{"lost", "no_loss", "no_loss"}},
                                         .clauses = {{Verdict::not_decidable, "control <= no_loss"}, {Verdict::confirmed, "lost.high < no_loss"}, {Verdict::not_reproduced, "lost.low > no_loss"}},
                                         .may_fail = {tah_2.name}},
                                        pipeline(), {dense, tah, tah_2}, {loss_difference("lost", tah.name, dense.name), loss_difference("control", tah_2.name, dense.name)});

const bool allocation = register_in_nats({.id = "low_bandwidth_pipeline.C12c",
                                          .statement = "Few bits for tokens of low entropy cost less than few bits for random ones.",
                                          .provenance = "derived",
                                          .constants = {none, no_loss, smallest},
                                          .scatter = {{"random", "none", "no_loss"}},
                                          .clauses = {{Verdict::confirmed, "random.low > none && random >= smallest"}, {Verdict::not_reproduced, "random.high < none || (random.low > -smallest && random.high < smallest)"}}},
                                         pipeline(), {dense, tah, tah_random}, {loss_difference("random", tah_random.name, tah.name)});

RuleArm bottleneck(int width, bool skip) {
  return {std::string(skip ? "residual bottleneck" : "bottleneck") + " of " + std::to_string(width), forward("autoencoder:width=" + std::to_string(width) + ",init=" + (skip ? "residual" : "xavier"), "all")};
}

// The page's narrowest width d/128 is below one channel here: it needs race-m (d = 128), which the profile full trains.
bool narrow(const std::string& part, const std::string& statement, const Comparison& comparison, int hidden, Profile from) {
  const RuleArm wide = bottleneck(hidden / 8, true), thin = bottleneck(hidden / 32, true), plain = bottleneck(hidden / 8, false), thinnest = bottleneck(hidden / 128 > 0 ? hidden / 128 : hidden / 64, true);
  return register_in_nats({.id = "low_bandwidth_pipeline.C16" + part,
                           .statement = statement,
                           .provenance = "read: abstract of 2604.11947; derived (its f is not built: a skip and linear maps)",
                           .constants = {no_loss, smallest},
                           .scatter = {{"thinnest", "no_loss", "no_loss"}},
                           .clauses = {{Verdict::confirmed, "thinnest.high < no_loss"},
                                       {Verdict::not_reproduced, "wide.low > no_loss"},
                                       {Verdict::direction_only, "wide.high < no_loss && thinnest.low > no_loss"}},
                           .from = from,
                           .may_fail = {thinnest.name}},
                          comparison, {dense, wide, thin, thinnest, plain},
                          {loss_difference("wide", wide.name, dense.name), loss_difference("thin", thin.name, dense.name), loss_difference("thinnest", thinnest.name, dense.name), loss_difference("skip", plain.name, wide.name)});
}

const bool of_64 = narrow("a", "A residual bottleneck compresses 64x without significant loss, hidden 64.", pipeline(), 64, Profile::standard);
const bool of_128 = narrow("b", "A residual bottleneck compresses 128x without significant loss, hidden 128.", [] {
  Comparison c = race_s("race-m in four stages, bottlenecks");
  c.cell.parameters.set("hidden", std::int64_t{128}), c.cell.parameters.set("layers", std::int64_t{8}), c.cell.parameters.set("learning-rate", 0.004);
  return c;
}(), 128, Profile::full);

const RuleArm mxfp8 = same("MXFP8", "mx:element=e4m3"), mxfp6 = same("MXFP6", "mx:element=e2m3"), mxfp4 = same("MXFP4", "mx:element=e2m1"), nvfp4 = same("NVFP4", "nvfp4");

const bool microscaling = register_in_nats(
    {.id = "low_bandwidth_pipeline.C20",
     .statement = "Microscaling formats serve as boundary codecs with little loss.",
     .provenance = "read: abstract of 2411.09510",
     .constants = {no_loss, smallest},
     .scatter = {{"mxfp8", "no_loss", "no_loss"}, {"mxfp4", "no_loss", "no_loss"}},
     .clauses = {{Verdict::confirmed, "mxfp8.high < no_loss && mxfp4.high < no_loss"},
                 {Verdict::not_reproduced, "mxfp8.low > no_loss"},
                 {Verdict::direction_only, "mxfp8.high < no_loss && mxfp4.low > no_loss"}}},
    pipeline(), {dense, mxfp8, mxfp6, mxfp4, nvfp4},
    {loss_difference("mxfp8", mxfp8.name, dense.name), loss_difference("mxfp6", mxfp6.name, dense.name), loss_difference("mxfp4", mxfp4.name, dense.name), loss_difference("nvfp4", mxfp4.name, nvfp4.name)});

Comparison tensor_parallel() {
  Comparison c = race_s("race-s, sums of two ranks");
  c.cell.ranks = 2;
  c.cell.parameters.set("pp", std::int64_t{1}), c.cell.parameters.set("tp", std::int64_t{2}), c.cell.parameters.set("micro-batch", std::int64_t{16});
  return c;
}
RuleArm sums(const std::string& name, const std::string& codec) { return {name, {{"compress.tp_forward", codec}}}; }
// Steps and offsets in f16, as the spikes' are. 4 bits in groups of 64 take 4.5 bits of an element, as 2 bits do with spikes apart in groups of 32; 2 bits alone take 3.
const RuleArm plain_2 = sums("2 bits", "group:range=minmax,bits=2,group=32,scale=f16"), reserved_2 = sums("2 bits, spikes apart", "spike:bits=2,group=32"),
              plain_4 = sums("4 bits, groups of 64", "group:range=minmax,bits=4,group=64,scale=f16");

const bool spikes = register_in_nats({.id = "low_bandwidth_pipeline.C18",
                                      .statement = "Sending the two extremes of a group apart rescues 2 bits.",
                                      .provenance = "read: abstract of 2508.03760",
                                      .constants = {severe, no_loss, smallest},
                                      .scatter = {{"rescued", "severe", "no_loss"}},
                                      .clauses = {{Verdict::confirmed, "rescued.low > severe"},
                                                  {Verdict::not_reproduced, "rescued.high < smallest"},
                                                  {Verdict::direction_only, "rescued.low > smallest && rescued.high <= severe"}},
                                      .may_fail = {plain_2.name}},
                                     tensor_parallel(), {dense, plain_2, reserved_2, plain_4},
                                     {loss_difference("rescued", plain_2.name, reserved_2.name), loss_difference("equal_bytes", reserved_2.name, plain_4.name), loss_difference("lost", reserved_2.name, dense.name)});

}  // namespace
}  // namespace thinwire::claims
