// "F1" as the released code of Bian et al. takes it: micro-averaged, counts pooled over all classes. A row predicted wrongly is a false positive of one
// class and a false negative of another, so FP = FN = rows - TP and it equals accuracy (docs/papers/activation_compression.md, "Defects of the released code"):
//   F1_micro = 2 TP / (2 TP + FP + FN)
#include "models/metrics/metric.h"

namespace thinwire {
namespace {

double f1_micro(Judged predicted, Judged wanted) {
  double right = 0, wrong = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) ++(predicted[i] == wanted[i] ? right : wrong);
  return 2 * right / (2 * right + wrong + wrong);
}

const RegisterMetric registered({"f1_micro", "F1 pooled over classes, as released: equal to accuracy", f1_micro});

}  // namespace
}  // namespace thinwire
