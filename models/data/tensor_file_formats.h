// The two binary formats that load_tensor_file parses itself. Every length is checked before it is used:
// files come from outside.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/data/tensor_file.h"

namespace thinwire::detail {

/// NumPy's format, versions 1.0 and 2.0 (numpy.lib.format): magic, version, header length, a Python
/// dictionary with descr, fortran_order and shape, then the data. `as_bf16`: uint16 elements are the bits of bf16 numbers.
FileTensor load_npy(const std::string& path, bool as_bf16 = false);

/// Hugging Face's format: 8-byte little-endian header length, JSON {name: {dtype, shape, data_offsets}},
/// data.
std::vector<std::string> list_safetensors(const std::string& path);
FileTensor load_safetensors(const std::string& path, const std::string& name);

/// Extents as a Shape of at most four axes: leading ones are merged; no axis = one element.
Shape merged_shape(const std::vector<std::int64_t>& extents);

/// The whole file. EnvironmentError naming it when it cannot be read.
std::vector<unsigned char> read_bytes(const std::string& path);
/// A part of it, and its size; likewise.
std::vector<unsigned char> read_bytes(const std::string& path, std::uint64_t begin, std::uint64_t count);
std::uint64_t file_bytes(const std::string& path);

/// Little-endian elements at `from` to f32. `kind`: "F16", "BF16", "F32", "F64".
void widen(const std::string& kind, const unsigned char* from, std::int64_t count, float* to);
std::int64_t element_size(const std::string& kind);  ///< 0 for a kind that is not understood

}  // namespace thinwire::detail
