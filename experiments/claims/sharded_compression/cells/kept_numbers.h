// Numbers that the claims program computes itself, kept in the result folder: a training in this process need not give the same last bit elsewhere, and takes its time.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "experiments/claims/context.h"

namespace thinwire::claims::sharded_compression {

using Numbers = std::map<std::string, std::vector<double>>;

/// Those kept under this name, of this format (raise it when what is computed changes), else computed and kept; `what` in words, for plans.
Numbers kept_numbers(const JudgeContext& context, const std::string& name, int format, const std::string& what, const std::function<Numbers()>& compute);

}  // namespace thinwire::claims::sharded_compression
