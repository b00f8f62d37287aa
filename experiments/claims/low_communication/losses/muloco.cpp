// low_communication.C15, C17 and C18: Muon inside of DiLoCo's loop, one orthogonaliser in all arms
// (docs/papers/low_communication.md, "Defects of the released code" 15).
#include "experiments/claims/low_communication/cells/small_model.h"

namespace thinwire::claims {
namespace {

using namespace low_communication;

const Trained adamw = arm("dense", "adamw"), muon = arm("dense Muon", "muon"),
              plain = arm("DiLoCo", diloco(), 4),
              muloco = arm("MuLoCo", diloco(inner_steps, "muon", "0.9", "0.8"), 4);

const bool inside = registered(
    {.id = "low_communication.C15",
     .statement = "Muon is the better inner optimizer: MuLoCo loses less against dense Muon than DiLoCo "
                  "against dense AdamW.",
     .provenance = "read: abstract of 2505.23725",
     .from = Profile::standard,
     .rule = better("gain"),
     .seeds = {3, 5}},
    small_model("4 replicas, 30 steps apart", 4), {adamw, muon, plain, muloco},
    {{"gain", {{muloco.arm.name, 1}, {muon.arm.name, -1}, {plain.arm.name, -1}, {adamw.arm.name, 1}}},
     loss_difference("absolute", muloco.arm.name, plain.arm.name),
     loss_difference("of_muon", muon.arm.name, adamw.arm.name)});

Trained two_bits(const std::string& name, const std::string& codec) {
  return arm(name, diloco(inner_steps, "muon", "0.8", "0.9"), 4, {{"compress.outer_gradient", codec}});
}
const Trained whole = arm("MuLoCo, 0.8 and 0.9", diloco(inner_steps, "muon", "0.8", "0.9"), 4),
              book = two_bits("code book of 4 bins by row", "codebook:bins=4,scope=row+ef:beta=0.9"),
              linear = two_bits("linear 2 bits by row", "group:bits=2,group=8192,range=minmax+ef:beta=0.9");

const bool costs = registered({.id = "low_communication.C17",
                               .statement = "2 bits with error feedback cost MuLoCo next to nothing.",
                               .provenance = "read: abstract of 2505.23725, authors' code",
                               .from = Profile::full,
                               .rule = as_good("lost"),
                               .seeds = {5, 10}},
                              small_model("4 replicas, MuLoCo with 2 bits", 4), {muon, whole, book},
                              {loss_difference("lost", book.arm.name, whole.arm.name)});

const bool worse = registered({.id = "low_communication.C17b",
                               .statement = "Linear 2 bits cost MuLoCo more than a code book of bin means.",
                               .provenance = "read: authors' code of 2505.23725",
                               .from = Profile::full,
                               .rule = better("gain"),
                               .seeds = {5, 10}},
                              small_model("4 replicas, MuLoCo with 2 bits", 4), {muon, book, linear},
                              {loss_difference("gain", book.arm.name, linear.arm.name)});

const Trained alone = arm("Muon, an outer step every 30", diloco(inner_steps, "muon", "0.7", "0.6"));

const bool one_replica = registered({.id = "low_communication.C18",
                                     .statement = "MuLoCo with one replica beats data-parallel Muon.",
                                     .provenance = "read: abstract of 2505.23725v2, authors' table",
                                     .from = Profile::full,
                                     .rule = better("gain", 0.002),
                                     .seeds = {10}},
                                    small_model("one replica of 4 ranks", 4), {muon, alone},
                                    {loss_difference("gain", alone.arm.name, muon.arm.name)});

}  // namespace
}  // namespace thinwire::claims
