// sharded_compression.C9, C10, C11, C20 and C20b: what coded weights and gradients of sharded training cost in loss. Four replicas as two nodes of two, ZeRO-1 as SDP4Bit runs on it: updated weights are
// gathered (qW: in 4 bits, qWD: their differences in 4 bits), gradients are summed inside a node and across in two codecs (TLq: 8 and 4 bits; TLq-HS: after a Hadamard transform). Fourteen arms of
// one comparison: a cell that several claims ask for is measured once. Groups end with a row.
#include "experiments/claims/trained.h"

namespace thinwire::claims {
namespace {

Comparison two_by_two() {
  Comparison c = on_replicas("2 nodes of 2 replicas, ZeRO-1", 4, 1000);
  c.cell.parameters.set("dp-nodes", 2);
  c.cell.parameters.set("zero-stage", 1);
  c.cell.tags = {"sharded_compression", "losses"};
  return c;
}

using Settings = std::map<std::string, std::string>;

const std::string by_draws = ",round=stochastic", to_nearest;  // the codec's default
std::string group(int bits, int size, const std::string& wrappers = "", const std::string& rounding = by_draws) {
  return "group:bits=" + std::to_string(bits) + ",group=" + std::to_string(size) + rounding + wrappers;
}
Settings weights(const std::string& codec) { return {{"compress.param_all_gather", codec}}; }
/// Inside of a node in `inside` bits, across in `across`.
Settings gradients(int inside, int across, const std::string& wrappers = "", const std::string& rounding = by_draws) {
  return {{"compress.grad_reduce_scatter.inside", group(inside, 128, wrappers, rounding)}, {"compress.grad_reduce_scatter", group(across, 128, wrappers, rounding)}};
}
Settings both(Settings a, const Settings& b) {
  a.insert(b.begin(), b.end());
  return a;
}

const std::string transformed = "+hadamard:block=32";
const Settings differences = weights(group(4, 2048, "+ef21"));

const RuleArm base{"base", {}};
const RuleArm qw{"qW", weights(group(4, 2048))}, qw8{"qW in 8 bits", weights(group(8, 2048))}, qwd{"qWD", differences};
const RuleArm tlq{"TLq", gradients(8, 4)}, tlq_hs{"TLq-HS", gradients(8, 4, transformed)}, eight{"8 and 8 bits", gradients(8, 8)};
const RuleArm sdp4bit{"SDP4Bit", both(differences, gradients(8, 4, transformed))};
struct FourBits {
  RuleArm plain, loco, fed_back;
};
FourBits four_bits(const std::string& name, const std::string& rounding) {
  return {{name, gradients(4, 4, "", rounding)}, {name + ", LoCo", gradients(4, 4, "+loco", rounding)}, {name + ", error feedback", gradients(4, 4, "+ef", rounding)}};
}

const Constant free_of_loss{"free", 0.005, "of the baseline's loss: what counts as no loss, above the scatter of rounding"}, none{"none", 0, "no difference"};
const Constant& smallest = smallest_on_replicas;

bool judged(const std::string& id, const std::string& statement, const std::string& provenance, std::vector<RuleArm> arms, std::vector<LossDifference> differences_of, Rule rule) {
  rule.smallest_effect = smallest.symbol;
  return register_loss_claim({{.id = id, .statement = statement, .provenance = provenance, .from = Profile::standard, .rule = std::move(rule), .seeds = {3, 5, 10}, .figure = "replica_losses"},
                              two_by_two(), std::move(arms), std::move(differences_of)});
}

const std::string table_1 = "read: SDP4Bit's table 1";

const bool weights_directly =
    judged("sharded_compression.C9", "Weights coded directly in int4 hurt, differences do not.", table_1, {base, qw, qwd, qw8}, {loss_difference("direct", qw.name, base.name), loss_difference("difference", qwd.name, base.name), loss_difference("control", qw8.name, base.name)},
           {.constants = {free_of_loss, smallest, {"hurts", 0.01, "of the baseline's loss"}, {"times", 10, "what direct coding loses over what differences lose"}},
            .scatter = {{"difference", "free", "smallest"}},
            .clauses = {{Verdict::invalid, "control.low > free"},
                        {Verdict::confirmed, "direct.low >= hurts && direct >= times * abs(difference) && difference.high <= free + smallest"},
                        {Verdict::not_reproduced, "direct.high < hurts || difference.low > free"},
                        {Verdict::direction_only, "direct.low > difference.high"}}});

const bool transform =
    judged("sharded_compression.C10", "Two-level gradient quantisation is worse without the Hadamard transform than with it.", table_1, {base, tlq, tlq_hs, eight},
           {loss_difference("gain", tlq.name, tlq_hs.name), loss_difference("control", eight.name, base.name), loss_difference("plain", tlq.name, base.name), loss_difference("smooth", tlq_hs.name, base.name)},
           {.constants = {free_of_loss, none, smallest},
            .scatter = {{"gain", "none", "smallest"}},
            .clauses = {{Verdict::invalid, "control.low > free"}, {Verdict::confirmed, "gain.low > none && gain >= smallest"}, {Verdict::not_reproduced, "gain.high < none || (gain.low > -smallest && gain.high < smallest)"}}});

const bool together =
    judged("sharded_compression.C11", "All of SDP4Bit costs no more than its parts together.", table_1 + "; derived (rule)", {base, qwd, tlq_hs, sdp4bit},
           {{"excess", {{sdp4bit.name, 1}, {qwd.name, -1}, {tlq_hs.name, -1}, {base.name, 1}}}, loss_difference("all", sdp4bit.name, base.name)},
           {.constants = {smallest, none}, .scatter = {{"excess", "none", "smallest"}}, .clauses = {{Verdict::confirmed, "excess.high <= smallest"}, {Verdict::not_reproduced, "excess.low > smallest"}}, .otherwise = Verdict::inconclusive});

bool feedback_gains(const std::string& id, const std::string& statement, const std::string& provenance, const FourBits& four) {
  return judged(id, statement, provenance, {base, four.plain, four.loco, four.fed_back},
                {loss_difference("gain", four.plain.name, four.loco.name), loss_difference("plain", four.plain.name, base.name), loss_difference("feedback", four.plain.name, four.fed_back.name)},
                {.constants = {none, smallest}, .scatter = {{"gain", "none", "smallest"}}, .clauses = {{Verdict::confirmed, "gain.low > none && gain >= smallest"}, {Verdict::not_reproduced, "gain.high < none || (gain.low > -smallest && gain.high < smallest)"}}});
}

const std::string abstract = "read: abstract of 2407.04480";
const bool loco_gains = feedback_gains("sharded_compression.C20", "LoCo beats the plain 4-bit gradient collective.", abstract, four_bits("4 and 4 bits", by_draws));
// Registered after C20 had ended with the opposite: draws leave no bias that feedback could repair, rounding to nearest leaves one (as DeepSpeed's kernels do, recollected).
const bool loco_gains_at_nearest =
    feedback_gains("sharded_compression.C20b", "LoCo beats the plain 4-bit gradient collective where both round to nearest.", abstract + "; recollected: DeepSpeed's kernels (rounding)", four_bits("4 and 4 bits to nearest", to_nearest));

}  // namespace
}  // namespace thinwire::claims
