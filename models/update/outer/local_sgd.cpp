// Local SGD (Stich, "Local SGD Converges Fast and Communicates Little", ICLR 2019, arXiv 1805.09767; FedAvg): every H steps replicas go on from the mean of their weights. An outer step without momentum at
// rate 1; under another rate it is DiLoCo's with momentum 0, and with --compress.outer_gradient chunk_topk:k=64,values=codebook2+ef:beta=0.95 SparseLoCo (arXiv 2508.15706).
#include "models/update/outer/outer_loop.h"

namespace thinwire {
namespace {

template <typename T>
class LocalSgd final : public OuterLoop<T> {
 public:
  explicit LocalSgd(const UpdateContext<T>& c) : OuterLoop<T>(c, {.step = {.rate = c.options.real("rate")}, .schedule = FragmentSchedule(c.options.integer("inner_steps"), 1, 0)}) {}
};

const bool registered = register_update<LocalSgd>({.name = "local_sgd",
                                                   .summary = "replicas train apart and go on from the mean of their weights (rule outer_gradient)",
                                                   .source = "Stich, ICLR 2019 (arXiv 1805.09767)",
                                                   .parameters = outer_parameters("1"),
                                                   .factors = {"replica"},
                                                   .drives_another = true,
                                                   .state_per_element = 1,
                                                   .classes = outer_classes,
                                                   .channels = outer_channels,
                                                   .check = check_outer_loop});

}  // namespace
}  // namespace thinwire
