// HDF5 by way of results/hdf5: everything that a file of somebody else's may hold, asked for in every way that the reader knows.
#include <set>

#include "core/error.h"
#include "models/data/tensor_file.h"
#include "results/hdf5/hdf5.h"
#include "tests/fuzz/target.h"
#include "tests/fuzz/targets/hdf5_maker.h"

namespace thinwire::fuzz {
namespace {

/// Runs one way of reading. That it is refused is fine, and no reason to leave out the others.
template <typename Way>
void way(const Way& read) {
  try {
    read();
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with("internal error")) throw;
  }
}

void visit(const h5::Group& group, int depth, int& left) {
  std::vector<std::string> names;
  way([&] { names = group.names(); });
  names.push_back("no such name");
  for (const std::string& name : names) {
    if (left-- <= 0) return;
    way([&] { group.has(name); });
    way([&] { group.read(name); });
    way([&] { group.read_vector<std::int64_t>(name); });
    way([&] { group.read_vector<float>(name); });
    way([&] { group.read_strings(name); });
    way([&] { group.read_table(name); });
    way([&] {
      Tensor some(Shape{2, 3});
      group.read_rows(name, 0, 2, some.view());
    });
    for (const char* attribute : {"a", "b", "channel"}) {
      way([&] { group.text_attribute(name, attribute); });
      way([&] { group.int_attribute(name, attribute); });
      way([&] { group.float_attribute(name, attribute); });
    }
    if (depth < 3 && group.is_group(name)) way([&] { visit(group.group(name), depth + 1, left); });
  }
}

void read_made(std::string_view input, bool may_poke) {
  static const std::string path = as_file("hdf5/x.h5", "");
  make_hdf5(path, input, 0, may_poke);
  std::vector<std::string> names;
  way([&] { names = list_tensor_file(path); });
  if (names.size() > 8) names.resize(8);
  for (const std::string& name : names) way([&] { load_tensor_file(path + ":" + name); });
  int left = 60;
  visit(h5::File::open_read(path), 0, left);
}

std::vector<std::string> seeds() {
  return {"group a/b\ndata a/b/x f32 2x3\ndata y f64 4 chunked\ndata z bf16 2x2x2\ndata w f16 scalar\ndata i i64 3\n",
          "strings s 3\nstrings t 2 fixed=7\ntable u 3 n:i64 x:f64 name:s8 small:i8 half:f32\ntable v 0 n:i64 text:long\n",
          "text . a hello\nint . b 7\nreal . channel 0.5\ngroup g\ntext g a inner\nmany g b 3\n", "group g\nhard g/self g\nsoft g/up /\nhard h g\ndata g/x f32 2x3\nsoft gone nowhere\n",
          "data big f32 99999x99999 chunked unwritten\ndata big32 big32 2x3\ndata e enum 3\ntable w 2 list:array\ndata n f32 null\ndata many f32 1x2x1x2x1x2\n"};
}
const bool files = register_target({"hdf5", "HDF5 files of benches' --input, and all that results/hdf5 reads", 1'300, [](std::string_view input) { read_made(input, false); }, seeds});

}  // namespace
}  // namespace thinwire::fuzz
