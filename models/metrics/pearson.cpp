// Pearson's correlation of scores (STS-B): pearson_correlation of metric.h.
#include "models/metrics/metric.h"

namespace thinwire {
namespace {

const RegisterMetric registered({"pearson", "Pearson's correlation", pearson_correlation});

}  // namespace
}  // namespace thinwire
