// accuracy = rows whose class is predicted / rows
#include "models/metrics/metric.h"

namespace thinwire {
namespace {

double accuracy(Judged predicted, Judged wanted) {
  double right = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) right += predicted[i] == wanted[i];
  return right / static_cast<double>(wanted.size());
}

const RegisterMetric registered({"accuracy", "share of rows whose class is predicted", accuracy});

}  // namespace
}  // namespace thinwire
