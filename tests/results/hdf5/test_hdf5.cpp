// labels: unit
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>

#include "core/half.h"
#include "results/hdf5/hdf5.h"
#include "support/temporary_folder.h"

namespace thinwire {
namespace {

using results::Table;
using testing::message_of;
using testing::TemporaryFolder;

// What /usr/bin/python3 with h5py says: readability without our code is the point of the format.
std::string h5py(const std::string& file, const std::string& expression) {
  const std::string command = "/usr/bin/python3 -c \"import h5py,numpy; f=h5py.File('" + file + "'); print(" +
                              expression + ")\" 2>&1";
  std::string output;
  FILE* pipe = popen(command.c_str(), "r");
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) output += static_cast<char>(c);
  pclose(pipe);
  return output.substr(0, output.find('\n'));
}

TEST(Hdf5, EveryElementTypeSurvivesARoundTripInEveryShapeAndStorage) {
  const TemporaryFolder folder;
  h5::File file = h5::File::create(folder / "a.h5");
  const Shape shapes[] = {Shape{},     Shape{1},        Shape{0},          Shape{7},
                          Shape{3, 5}, Shape{2, 1, 13}, Shape{2, 3, 5, 7}, Shape{0, 4}};
  const h5::Storage storages[] = {
      {}, {.deflate = 4}, {.appendable = true}, {.deflate = 1, .appendable = true}};
  for (int t = 0; t <= static_cast<int>(DType::i64); ++t)
    for (const Shape& shape : shapes)
      for (const h5::Storage storage : storages) {
        if (storage.appendable && shape.rank() == 0) continue;
        Tensor written(shape, static_cast<DType>(t));
        for (std::size_t i = 0; i < written.bytes(); ++i)
          static_cast<std::uint8_t*>(written.view().data())[i] = static_cast<std::uint8_t>(i * 37 % 50);
        const std::string name = "group/" + std::string(name_of(written.dtype())) + shape.to_string();
        file.write(name, written.view(), storage);
        const Tensor read = file.read(name);
        ASSERT_EQ(read.dtype(), written.dtype()) << name;
        ASSERT_EQ(read.shape(), shape) << name;
        ASSERT_TRUE(written.bytes() == 0 ||
                    std::memcmp(read.view().data(), written.view().data(), written.bytes()) == 0)
            << name;
      }
}

TEST(Hdf5, HalfIsFloat16AndBFloat16ConvertsExactlyInH5py) {
  const TemporaryFolder folder;
  const std::vector<Half> half = {
      {0x3C00}, {0xC000}, {0x3555}, {0x0001}, {0x7C00}};               // 1, -2, ~1/3, smallest, infinity
  const std::vector<BFloat16> brain = {{0x3F80}, {0xC000}, {0x3EAB}};  // 1, -2, 0.333984375
  h5::File file = h5::File::create(folder / "a.h5");
  file.write_vector<Half>("half", half);
  file.write_vector<BFloat16>("brain", brain);
  file.close();
  EXPECT_EQ(h5py(folder / "a.h5", "f['half'].dtype, f['half'][:].astype('f8').tolist()"),
            "float16 [1.0, -2.0, 0.333251953125, 5.960464477539063e-08, inf]");
  EXPECT_EQ(h5py(folder / "a.h5", "f['brain'][:].astype('f8').tolist()"), "[1.0, -2.0, 0.333984375]");
  const auto widened = h5::File::open_read(folder / "a.h5").read_vector<float>("brain");
  EXPECT_EQ(widened, (std::vector<float>{1.0f, -2.0f, 0.333984375f}));
}

TEST(Hdf5, AppendedRowsFollowEachOtherAndRowsAreReadAlone) {
  const TemporaryFolder folder;
  h5::File file = h5::File::create(folder / "a.h5");
  std::vector<float> values(5 * 3);
  std::iota(values.begin(), values.end(), 0.0f);
  file.append("x", ConstTensorView(values.data(), Shape{2, 3}));
  file.append("x", ConstTensorView(values.data() + 6, Shape{3, 3}));
  EXPECT_EQ(file.read("x").shape(), (Shape{5, 3}));
  EXPECT_EQ(file.read_vector<float>("x"), values);
  std::vector<double> middle(6);
  file.read_rows("x", 1, 2, TensorView(middle.data(), Shape{2, 3}));
  EXPECT_EQ(middle, (std::vector<double>{3, 4, 5, 6, 7, 8}));
  EXPECT_THROW(file.read_rows("x", 4, 2, TensorView(middle.data(), Shape{2, 3})), CorruptData);
  EXPECT_THROW(file.append("x", ConstTensorView(values.data(), Shape{2, 4})), UsageError);
}

TEST(Hdf5, TablesTextAndAttributesAreReadableByH5py) {
  const TemporaryFolder folder;
  h5::File file = h5::File::create(folder / "a.h5");
  Table table;
  table.columns.push_back({"name", std::vector<std::string>{"a", "", "größer; `x`"}});
  table.columns.push_back({"n", std::vector<std::int64_t>{1, -2, std::int64_t{1} << 62}});
  table.columns.push_back({"t", std::vector<double>{0.5, std::nan(""), 1e300}});
  file.write_table("table", table);
  file.write_table("empty", [&] {
    Table e = table;
    for (auto& c : e.columns) std::visit([](auto& v) { v.clear(); }, c.values);
    return e;
  }());
  file.write_strings("text", std::vector<std::string>{"one", "", "zwölf"});
  file.set_attribute("", "version", 3);
  file.set_attribute("table", "unit", "us");
  file.set_attribute("", "half", 0.5);
  file.set_attribute("", "half", 0.25);  // replaces
  file.close();
  const h5::File read = h5::File::open_read(folder / "a.h5");
  const Table back = read.read_table("table");
  ASSERT_EQ(back.rows(), 3u);
  EXPECT_EQ(std::get<0>(back.find("name")->values), std::get<0>(table.columns[0].values));
  EXPECT_EQ(std::get<1>(back.find("n")->values), std::get<1>(table.columns[1].values));
  EXPECT_TRUE(std::isnan(std::get<2>(back.find("t")->values)[1]));
  EXPECT_EQ(read.read_table("empty").rows(), 0u);
  EXPECT_EQ(read.read_strings("text"), (std::vector<std::string>{"one", "", "zwölf"}));
  EXPECT_EQ(read.int_attribute("", "version"), 3);
  EXPECT_EQ(read.text_attribute("table", "unit"), "us");
  EXPECT_EQ(read.float_attribute("", "half"), 0.25);
  EXPECT_EQ(h5py(folder / "a.h5",
                 "f['table']['name'][2].decode(), f['table'].dtype['n'], f['table']['t'][0], "
                 "f.attrs['version'], f['table'].attrs['unit']"),
            "größer; `x` int64 0.5 3 us");
}

TEST(Hdf5, TablesWrittenByH5pyAreRead) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.h5";
  const std::string command =
      "/usr/bin/python3 -c \"import h5py,numpy as np; f=h5py.File('" + path +
      "','w'); d=np.zeros(2,[('s',h5py.string_dtype()),('i','i4'),('f','f4')]); d['s']=['ab','']; "
      "d['i']=[7,-1]; d['f']=[.5,2]; f['t']=d; f.attrs['a']='text'\"";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const h5::File file = h5::File::open_read(path);
  const Table table = file.read_table("t");
  EXPECT_EQ(std::get<0>(table.find("s")->values), (std::vector<std::string>{"ab", ""}));
  EXPECT_EQ(std::get<1>(table.find("i")->values), (std::vector<std::int64_t>{7, -1}));
  EXPECT_EQ(std::get<2>(table.find("f")->values), (std::vector<double>{0.5, 2}));
  EXPECT_EQ(file.text_attribute("", "a"), "text");
}

TEST(Hdf5, ErrorsNameFileAndObject) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.h5";
  {
    h5::File file = h5::File::create(path);
    file.write_vector<float>("g/x", std::vector<float>{1, 2, 3});
  }
  const h5::File file = h5::File::open_read(path);
  std::vector<float> two(2);
  for (const std::string& message :
       {message_of<CorruptData>([&] { file.read("g/y"); }),
        message_of<CorruptData>([&] { file.read_table("g/x"); }),
        message_of<CorruptData>([&] { file.read_into("g/x", TensorView(two.data(), Shape{2})); }),
        message_of<CorruptData>([&] { (void)file.text_attribute("g/x", "unit"); }),
        message_of<CorruptData>([&] { file.group("h"); })}) {
    EXPECT_NE(message.find(path), std::string::npos) << message;
    EXPECT_NE(message.find("/"), std::string::npos) << message;
  }
  EXPECT_THROW(h5::File::open_read(folder / "none.h5"), EnvironmentError);
  EXPECT_THROW(h5::File::create(folder / "no/such/folder/a.h5"), EnvironmentError);
  EXPECT_THROW(h5::File::open_read(folder.write("text.h5", "this is no HDF5 file")), CorruptData);
  EXPECT_THROW(h5::File::open_read(folder.write("empty.h5", "")), CorruptData);
}

TEST(Hdf5, EveryTruncationOfAFileIsRefusedOrReadsTheSame) {
  const TemporaryFolder folder;
  const std::vector<float> values(300, 1.5f);
  {
    h5::File file = h5::File::create(folder / "a.h5");
    file.write_vector<float>("x", values);
  }
  const std::string whole = TemporaryFolder::read(folder / "a.h5");
  for (std::size_t size = 0; size < whole.size(); size += 61) {
    const std::string path = folder.write("cut.h5", whole.substr(0, size));
    try {
      EXPECT_EQ(h5::File::open_read(path).read_vector<float>("x"), values) << size;
    } catch (const CorruptData&) {
      continue;
    }
  }
}

TEST(Hdf5, AnImageInMemoryIsTheFile) {
  const TemporaryFolder folder;
  h5::File memory = h5::File::create_in_memory();
  memory.set_attribute("", "a", 7);
  const std::vector<std::byte> image = memory.image();
  std::string bytes(512, 'x');  // a seal may precede it
  bytes.append(reinterpret_cast<const char*>(image.data()), image.size());
  EXPECT_EQ(h5::File::open_read(folder.write("a.h5", bytes)).int_attribute("", "a"), 7);
}

}  // namespace
}  // namespace thinwire
