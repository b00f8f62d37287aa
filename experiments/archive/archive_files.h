// What writing and reading of archives share.
#pragma once

#include <string>
#include <vector>

namespace thinwire::sweep {

/// Plain files below `folder`, relative and sorted. Links are followed nowhere: what they point to is not
/// part of the folder.
std::vector<std::string> files_below(const std::string& folder);

}  // namespace thinwire::sweep
