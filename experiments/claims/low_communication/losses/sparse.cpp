// low_communication.C10, C11 and C14: SparseLoCo, a 64th of the outer gradient with 2 bits a value and error
// feedback in place of momentum. Sums are divided by the replicas, and the outer rate acts once
// (docs/papers/low_communication.md, "Defects of the released code" 1 and 4). With a momentum on top, a loop
// is tried at DiLoCo's rates: 1 / (1 - 0.9) times 1 would be ten times the weights' mean movement.
#include "experiments/claims/low_communication/cells/small_model.h"

namespace thinwire::claims {
namespace {

using namespace low_communication;

const char* const abstract = "read: abstract of 2508.15706";

const Trained dense = arm("dense", "adamw"), whole = arm("DiLoCo", diloco(), 4),
              two_bits = sparse_loop("SparseLoCo", "chunk_topk:k=64,values=codebook2+ef:beta=0.95"),
              forgets = sparse_loop("SparseLoCo without feedback", "chunk_topk:k=64,values=codebook2"),
              exact = sparse_loop("SparseLoCo, f32 values", "chunk_topk:k=64,values=f32+ef:beta=0.95"),
              with_momentum =
                  arm("SparseLoCo and outer momentum", diloco(), 4,
                      {{"compress.outer_gradient", "chunk_topk:k=64,values=codebook2+ef:beta=0.95"}}),
              signs = sparse_loop("sign and scale of a chunk",
                                  "chunk_topk:k=64,values=sign,index=rice+ef:beta=0.95");

const bool beats =
    registered({.id = "low_communication.C10",
                .statement = "SparseLoCo at 1 to 3 % density and 2 bits beats full-precision DiLoCo.",
                .provenance = abstract,
                .from = Profile::standard,
                .rule = better("gain"),
                .seeds = {3, 5}},
               small_model("4 replicas, 30 steps apart", 4), {dense, whole, two_bits},
               {loss_difference("gain", two_bits.arm.name, whole.arm.name),
                loss_difference("of_dense", two_bits.arm.name, dense.arm.name)});

const bool controls =
    registered({.id = "low_communication.C10b",
                .statement = "SparseLoCo without its error feedback loses more.",
                .provenance = "read: abstract of 2508.15706 (feedback); derived (margin)",
                .from = Profile::full,
                .rule = better("gain"),
                .seeds = {5, 10}},
               small_model("4 replicas, what SparseLoCo is made of", 4), {dense, two_bits, forgets, exact},
               {loss_difference("gain", two_bits.arm.name, forgets.arm.name),
                loss_difference("values", two_bits.arm.name, exact.arm.name)});

const bool replaces = registered({.id = "low_communication.C11",
                                  .statement = "Error feedback replaces outer momentum.",
                                  .provenance = abstract,
                                  .from = Profile::full,
                                  .rule = as_good("lost"),
                                  .seeds = {5, 10}},
                                 small_model("4 replicas, SparseLoCo with momentum on top", 4),
                                 {dense, two_bits, with_momentum},
                                 {loss_difference("lost", two_bits.arm.name, with_momentum.arm.name)});

const bool one_bit =
    registered({.id = "low_communication.C14",
                .statement = "One sign per value and a scale per chunk is as good as a 2-bit codebook.",
                .provenance = "derived: a claim of ours",
                .from = Profile::full,
                .rule = as_good("lost"),
                .seeds = {5, 10}},
               small_model("4 replicas, values of a 64th", 4), {dense, two_bits, signs},
               {loss_difference("lost", signs.arm.name, two_bits.arm.name)});

}  // namespace
}  // namespace thinwire::claims
