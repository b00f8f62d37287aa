// F1 of the positive class (1), as GLUE publishes it for MRPC and QQP:
//   F1 = 2 TP / (2 TP + FP + FN),   0 when the class is neither predicted nor there
#include "models/metrics/metric.h"

namespace thinwire {
namespace {

double f1(Judged predicted, Judged wanted) {
  const Confusion c = confusion(predicted, wanted);
  const double scale = 2 * c.true_positive + c.false_positive + c.false_negative;
  return scale == 0 ? 0 : 2 * c.true_positive / scale;
}

const RegisterMetric registered({"f1", "F1 of class 1, as published", f1});

}  // namespace
}  // namespace thinwire
