// Matthews' correlation of two classes (Matthews 1975), CoLA's metric:
//   MCC = (TP TN - FP FN) / sqrt((TP + FP)(TP + FN)(TN + FP)(TN + FN)),   0 when a class is never predicted or never there
#include <cmath>

#include "models/metrics/metric.h"

namespace thinwire {
namespace {

double matthews(Judged predicted, Judged wanted) {
  const Confusion c = confusion(predicted, wanted);
  const double scale = std::sqrt((c.true_positive + c.false_positive) * (c.true_positive + c.false_negative)) *
                       std::sqrt((c.true_negative + c.false_positive) * (c.true_negative + c.false_negative));
  return scale == 0 ? 0 : (c.true_positive * c.true_negative - c.false_positive * c.false_negative) / scale;
}

const RegisterMetric registered({"matthews", "Matthews' correlation of two classes", matthews});

}  // namespace
}  // namespace thinwire
