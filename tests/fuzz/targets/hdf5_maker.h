// HDF5 files from lines of text, so that mutations give files that HDF5 can read and this project may not expect: other types, sizes, links in a circle.
//   group PATH                              hard PATH TARGET        soft PATH TARGET
//   data PATH TYPE EXTENTS [chunked] [unwritten]                    TYPE f16 bf16 f32 f64 i8 u8 u16 u32 i32 i64 big32 enum; EXTENTS 2x3, or "scalar"
//   strings PATH N [fixed=SIZE]
//   table PATH N NAME:TYPE[=VALUE]...       TYPE i64 i8 u64 f32 f64 long (text of any length) sSIZE array; all rows have the value
//   text OBJECT NAME VALUE...               int OBJECT NAME VALUE       real OBJECT NAME VALUE       many OBJECT NAME N      OBJECT "." is the root
//   poke OFFSET BYTE                        changes a byte of the finished file
// Lines that cannot be carried out are passed over.
#pragma once

#include <string>
#include <string_view>

namespace thinwire::fuzz {

/// Makes the file at `path`, with so many bytes left in front of HDF5's own. `may_poke`: whether `poke` counts.
void make_hdf5(const std::string& path, std::string_view lines, std::size_t head = 0, bool may_poke = false);

}  // namespace thinwire::fuzz
