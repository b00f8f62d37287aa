// How fast the matrix products of a piece of work run, beside bare ones of the same shapes.
#pragma once

#include <functional>

namespace thinwire::bench {

/// Microseconds of all products of one run of `body`, and of sgemm called by itself with the same shapes, one after the other, each product
/// alone on the machine. The fastest run of `body` beside the fastest of each bare product: what else the machine does only ever adds.
struct ProductTimes {
  double us = 0, bare_us = 0;
};
/// `body` must run its products under the machine's lock (ComputeMode::serial), and may communicate.
ProductTimes product_times(int repetitions, const std::function<void()>& body);

}  // namespace thinwire::bench
