// A user's own tensors for the benches: --input FILE.npy, FILE.safetensors[:NAME], FILE.h5:/PATH.
#pragma once

#include <string>
#include <vector>

#include "core/device/tensor.h"

namespace thinwire {

/// A tensor read from a file, widened or narrowed to f32. More than four axes: the leading ones are merged.
struct FileTensor {
  std::string name;       ///< file name, and the tensor's name inside the file
  std::string stored_as;  ///< element type in the file, e.g. "F16"
  Tensor values;
};

/// Names of the floating-point tensors inside (npy: one, named ""; h5: dataset paths).
std::vector<std::string> list_tensor_file(const std::string& path);

/// Reads one tensor. `spec` is a path, with ":NAME" behind it for a tensor inside; without NAME the file must
/// hold exactly one. Understands npy 1.0/2.0 (little-endian f2, f4, f8, bf16 as ml_dtypes stores it or, with ":bf16" behind the path, as uint16; C or
/// Fortran order up to 2 axes),
/// safetensors (F16, BF16, F32, F64), HDF5 floating-point datasets.
/// Throws UsageError (unknown ending, no such name: lists those that exist), EnvironmentError (cannot read),
/// CorruptData (malformed: names file, place and what was expected). Never reads out of bounds.
FileTensor load_tensor_file(const std::string& spec);

}  // namespace thinwire
