// Over which ranks a gradient's norm is taken.
#pragma once

namespace thinwire {

/// Over which ranks the norm is taken that clipping goes by.
enum class NormScope {
  all,      ///< one norm of the mean gradient; all replicas hold it
  replica,  ///< each replica of the data axis that of its own gradient
  none,     ///< nothing is clipped; the norm is recorded
};

}  // namespace thinwire
