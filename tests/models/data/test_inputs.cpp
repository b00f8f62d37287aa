// labels: unit
// timeout: 120
// Generators against their stated properties; input files against tensors written here byte by byte; damaged
// files are refused at every length.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "core/half.h"
#include "core/random.h"
#include "models/data/generated/generators.h"
#include "models/data/safetensors.h"
#include "models/data/tensor_file.h"
#include "models/capture/spectrum.h"
#include "results/hdf5/hdf5.h"

namespace thinwire {
namespace fs = std::filesystem;
namespace {

struct InputFiles : testing::Test {
  fs::path folder = fs::temp_directory_path() / ("thinwire_inputs_" + std::to_string(::getpid()));
  void SetUp() override { fs::create_directories(folder); }
  void TearDown() override { fs::remove_all(folder); }
  std::string write(const std::string& name, const std::string& bytes) const {
    const std::string path = (folder / name).string();
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
};

template <typename T>
std::string raw(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

std::string npy(const std::string& descr, const std::string& shape, const std::string& data,
                bool fortran = false, int version = 1) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") +
                       ", 'shape': " + shape + ", }";
  const std::size_t prefix = version == 1 ? 10 : 12;
  while ((prefix + header.size() + 1) % 64) header += ' ';
  header += '\n';
  std::string length;
  for (std::size_t i = 0; i < prefix - 8; ++i) length += static_cast<char>(header.size() >> (8 * i));
  return std::string("\x93NUMPY", 6) + static_cast<char>(version) + '\0' + length + header + data;
}

std::string safetensors(const std::string& header, const std::string& data) {
  std::string length;
  for (int i = 0; i < 8; ++i)
    length += static_cast<char>(static_cast<std::uint64_t>(header.size()) >> (8 * i));
  return length + header + data;
}

std::vector<float> values_of(const FileTensor& t) {
  return {t.values.as<float>().begin(), t.values.as<float>().end()};
}

const std::vector<float> six = {1, -2, 0.5f, 4096, -0.25f, 3};
std::vector<std::uint16_t> halves() {
  std::vector<std::uint16_t> v;
  for (float x : six) v.push_back(to_half(x).bits);
  return v;
}

}  // namespace

TEST(Generators, PowerLawHasItsSpectrum) {
  for (const auto& [rows, columns] : {std::array{64, 48}, {31, 97}, {1, 7}, {7, 1}, {128, 128}}) {
    const Tensor x = generate(parse_generator("power_law:exponent=1.5"), {rows, columns}, 7);
    const auto s = normalised_singular_values(rows, columns, x.as<float>().data(), false, rows);
    for (std::size_t i = 0; i < s.size(); ++i)
      ASSERT_NEAR(s[i], std::pow(static_cast<double>(i + 1), -1.5), 2e-5) << rows << "x" << columns;
    double squares = 0;
    for (float v : x.as<float>()) squares += double{v} * v;
    EXPECT_NEAR(std::sqrt(squares / (rows * columns)), 1.0, 1e-4);
  }
}

TEST(Generators, LowRankWithoutNoiseHasItsRank) {
  const Tensor x = generate(parse_generator("low_rank:rank=5,noise=0"), {40, 30}, 7);
  const auto s = normalised_singular_values(40, 30, x.as<float>().data(), false, 40);
  EXPECT_GT(s[4], 0.9);
  EXPECT_LT(s[5], 1e-5);
}

TEST(Generators, SparseHasItsFractionOfZerosAndLogNormalItsSpread) {
  const Tensor x = generate(parse_generator("sparse:zeros=0.9"), {500, 200}, 7);
  EXPECT_NEAR(static_cast<double>(std::count(x.as<float>().begin(), x.as<float>().end(), 0.0f)) / 100000, 0.9,
              0.005);
  const Tensor y = generate(parse_generator("log_normal:sigma=1.5"), {500, 200}, 7);
  double mean = 0, square = 0, sign = 0;
  for (float v : y.as<float>()) {
    const double l = std::log(std::abs(v));
    mean += l / 100000, square += l * l / 100000, sign += (v > 0 ? 1.0 : -1.0) / 100000;
  }
  EXPECT_NEAR(mean, 0, 0.03);
  EXPECT_NEAR(std::sqrt(square), 1.5, 0.03);
  EXPECT_NEAR(sign, 0, 0.02);
}

TEST(Generators, IntegersAreWholeAndReachBothEnds) {
  const Tensor t = generate(parse_generator("integers:largest=3"), {300, 100}, 7);
  std::map<float, int> counts;
  for (float v : t.as<float>()) ++counts[v];
  ASSERT_EQ(counts.size(), 7u);
  for (int v = -3; v <= 3; ++v) EXPECT_NEAR(counts[static_cast<float>(v)], 30000 / 7.0, 300) << v;
}

TEST(Generators, SharedSparseHasItsZerosAtTheSamePlacesOnEveryRank) {
  const Generator g = parse_generator("shared_sparse:zeros=0.9");
  const Tensor a = generate(g, {100, 100}, 5, 2, 0), b = generate(g, {100, 100}, 5, 2, 3), later = generate(g, {100, 100}, 5, 3, 0);
  int both = 0, moved = 0, equal = 0;
  for (std::size_t i = 0; i < a.as<float>().size(); ++i) {
    const float x = a.as<float>()[i], y = b.as<float>()[i];
    ASSERT_EQ(x == 0, y == 0) << i;
    both += x != 0, equal += x != 0 && x == y, moved += (x == 0) != (later.as<float>()[i] == 0);
  }
  EXPECT_NEAR(both, 1000, 150);
  EXPECT_EQ(equal, 0) << "the numbers are each rank's own";
  EXPECT_GT(moved, 1000) << "another step has other places";
}

TEST(Generators, StepRankAndSeedGiveDifferentTensorsAndTheSameKeyTheSame) {
  for (const GeneratorKind* kind : generators()) {
    const Generator g = parse_generator(kind->kind);
    const auto make = [&](std::uint64_t seed, int step, int rank) {
      const Tensor t = generate(g, {16, 12}, seed, step, rank);
      return std::vector<float>(t.as<float>().begin(), t.as<float>().end());
    };
    const auto first = make(1, 0, 0);
    EXPECT_EQ(first, make(1, 0, 0)) << kind->kind;
    EXPECT_NE(first, make(2, 0, 0)) << kind->kind;
    EXPECT_NE(first, make(1, 1, 0)) << kind->kind;
    EXPECT_NE(first, make(1, 0, 1)) << kind->kind;
    EXPECT_NE(make(1, 1, 0), make(1, 0, 1)) << kind->kind;
    EXPECT_EQ(parse_generator(g.to_string()).to_string(), g.to_string());
  }
}

TEST(Generators, UnknownKindsKeysAndValuesAreRefused) {
  for (const char* bad :
       {"", "uniform", "power_law:", "power_law:slope=1", "power_law:exponent", "power_law:exponent=x",
        "power_law:exponent=-1", "sparse:zeros=1.5", "low_rank:rank=0", "gaussian:a=1",
        "power_law:exponent=nan", "log_normal:sigma=1e9", "integers:largest=0", "integers:largest=1.5"})
    EXPECT_THROW(parse_generator(bad), UsageError) << bad;
}

// A checkpoint may hold such tensors beside others; whoever asks for one by its name is told, and reads nothing.
TEST_F(InputFiles, ATypeOfSafetensorsThatIsNotUnderstoodIsNeverRead) {
  const std::string path = write("ints.safetensors", safetensors(R"({"w":{"dtype":"I64","shape":[1099511627776,1099511627776,4,4,4],"data_offsets":[0,8]},"x":{"dtype":"F32","shape":[6],"data_offsets":[8,32]}})",
                                                                 std::string(8, '\1') + raw(six)));
  const SafetensorsFile file(path);
  EXPECT_EQ(file.names(), std::vector<std::string>{"x"});
  EXPECT_THROW(file.shape("w"), UsageError);
  EXPECT_THROW(file.load("w"), UsageError);
  EXPECT_EQ(values_of(file.load("x")), six);
}

TEST_F(InputFiles, NpyOfEveryTypeVersionAndOrderIsRead) {
  EXPECT_EQ(values_of(load_tensor_file(write("a.npy", npy("<f4", "(2, 3)", raw(six))))), six);
  EXPECT_EQ(values_of(load_tensor_file(write(
                "b.npy", npy("<f8", "(6,)", raw(std::vector<double>(six.begin(), six.end())), false, 2)))),
            six);
  const FileTensor half = load_tensor_file(write("c.npy", npy("<f2", "(1, 2, 3)", raw(halves()))));
  EXPECT_EQ(values_of(half), six);
  EXPECT_EQ(half.values.shape(), (Shape{1, 2, 3}));
  EXPECT_EQ(half.stored_as, "F16");
  EXPECT_EQ(values_of(load_tensor_file(write("d.npy", npy("<f4", "(2, 3)", raw(six), true)))),
            (std::vector<float>{1, 0.5f, -0.25f, -2, 4096, 3}));
  EXPECT_EQ(load_tensor_file(write("e.npy", npy("<f4", "(1, 1, 2, 1, 3)", raw(six)))).values.shape(),
            (Shape{1, 2, 1, 3}));
}

// Found by fuzzing: every one of so many rows of nothing was visited. This would take hours.
TEST_F(InputFiles, NpyMayPromiseAnyNumberOfRowsOfNothing) {
  const std::string huge = "1000000000000";
  EXPECT_EQ(load_tensor_file(write("a.npy", npy("<f4", "(" + huge + ", 0)", "", true))).values.elements(), 0);
  EXPECT_EQ(load_tensor_file(write("b.npy", npy("<f4", "(0, " + huge + ")", "", true))).values.elements(), 0);
}

// ml_dtypes writes two opaque bytes; torch has no NumPy type for bf16, so its users hand over the bits, and must say so.
TEST_F(InputFiles, NpyOfBf16IsReadFromOpaqueBytesAndFromBitsThatTheUserNames) {
  std::vector<std::uint16_t> bits;
  for (float x : six) bits.push_back(to_bfloat16(x).bits);
  for (const char* type : {"<V2", "|V2"}) {
    const FileTensor bf16 = load_tensor_file(write("v.npy", npy(type, "(2, 3)", raw(bits))));
    EXPECT_EQ(values_of(bf16), six) << type;
    EXPECT_EQ(bf16.stored_as, "BF16");
  }
  const std::string uint16 = write("u.npy", npy("<u2", "(2, 3)", raw(bits)));
  EXPECT_EQ(values_of(load_tensor_file(uint16 + ":bf16")), six);
  try {
    load_tensor_file(uint16);
    ADD_FAILURE() << "numbers of uint16 were read as bf16";
  } catch (const CorruptData& error) {
    EXPECT_NE(std::string(error.what()).find(":bf16"), std::string::npos) << error.what();
  }
  EXPECT_THROW(load_tensor_file(write("f.npy", npy("<f4", "(6,)", raw(six))) + ":bf16"), CorruptData);
  EXPECT_THROW(load_tensor_file(write("s.npy", npy("<V2", "(2, 4)", raw(bits)))), CorruptData) << "two elements are missing";
}

TEST_F(InputFiles, SafetensorsOfEveryTypeIsReadByName) {
  std::vector<std::uint16_t> brain;
  for (float x : six) brain.push_back(to_bfloat16(x).bits);
  const std::string data =
      raw(six) + raw(halves()) + raw(brain) + raw(std::vector<double>(six.begin(), six.end()));
  const std::string path = write(
      "m.safetensors",
      safetensors(
          R"({"__metadata__":{"k":"v"},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"h":{"dtype":"F16","shape":[6],"data_offsets":[24,36]},)"
          R"("b":{"dtype":"BF16","shape":[3,2],"data_offsets":[36,48]},"d":{"dtype":"F64","shape":[6],"data_offsets":[48,96]},"i":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})",
          data));
  for (const char* name : {"w", "h", "b", "d"})
    EXPECT_EQ(values_of(load_tensor_file(path + ":" + name)), six) << name;
  EXPECT_EQ(list_tensor_file(path).size(), 4u);
  for (const char* bad : {":x", ":i", ""}) {
    try {
      load_tensor_file(path + bad);
      FAIL() << bad;
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find("\n  w"), std::string::npos) << e.what();
    }
  }
}

TEST_F(InputFiles, Hdf5DatasetsAreReadByPath) {
  const std::string path = (folder / "x.h5").string();
  {
    h5::File file = h5::File::create(path);
    file.write("layers/0/w", ConstTensorView(six.data(), Shape{2, 3}));
    const std::vector<std::int64_t> numbers = {1, 2};
    file.write_vector<std::int64_t>("numbers", numbers);
    file.close();
  }
  EXPECT_EQ(values_of(load_tensor_file(path + ":/layers/0/w")), six);
  EXPECT_EQ(values_of(load_tensor_file(path + ":layers/0/w")), six);
  EXPECT_EQ(values_of(load_tensor_file(path)), six);  // the only floating-point dataset
  EXPECT_THROW(load_tensor_file(path + ":/numbers"), UsageError);
  EXPECT_THROW(load_tensor_file(path + ":/nothing"), UsageError);
  std::ofstream(folder / "cut.h5", std::ios::binary) << "\x89HDF\r\n\x1a\n and then nothing";
  EXPECT_THROW(load_tensor_file((folder / "cut.h5").string()), CorruptData);
}

TEST_F(InputFiles, WrongEndingsAndMissingFilesAreRefused) {
  EXPECT_THROW(load_tensor_file(write("x.pt", "abc")), UsageError);
  EXPECT_THROW(load_tensor_file((folder / "no.npy").string()), EnvironmentError);
  EXPECT_THROW(load_tensor_file((folder / "no.safetensors").string()), EnvironmentError);
  EXPECT_THROW(load_tensor_file(folder.string() + "/"), UsageError);
  EXPECT_THROW(load_tensor_file(write("n.npy", npy("<f4", "(6,)", raw(six))) + ":w"), UsageError);
}

TEST_F(InputFiles, MalformedContentsNameTheFileAndThePlace) {
  const std::vector<std::string> bad_npy = {npy("<i4", "(6,)", raw(six)),
                                            npy(">f4", "(6,)", raw(six)),
                                            npy("<f4", "6", raw(six)),
                                            npy("<f4", "(7,)", raw(six)),
                                            npy("<f4", "(6, -1)", raw(six)),
                                            npy("<f4", "(1099511627776, 1099511627776)", raw(six)),
                                            npy("<f4", "(99999999999999999999,)", raw(six)),
                                            npy("<f4", "(2, 3", raw(six)),
                                            npy("<f4", "(,)", raw(six)),
                                            npy("<f4", "(6,)", raw(six), false, 3),
                                            "not numpy at all",
                                            npy("<f4", "(2, 1, 3)", raw(six), true)};
  for (std::size_t i = 0; i < bad_npy.size(); ++i) {
    const std::string path = write("bad.npy", bad_npy[i]);
    try {
      load_tensor_file(path);
      ADD_FAILURE() << "npy " << i << " was accepted";
    } catch (const CorruptData& e) {
      EXPECT_NE(std::string(e.what()).find(path), std::string::npos);
    }
  }
  const auto entry = [](const std::string& body) { return safetensors(R"({"w":)" + body + "}", raw(six)); };
  const std::vector<std::string> bad_safe = {
      "1234567",
      safetensors("not json", ""),
      safetensors("[]", ""),
      entry("3"),
      entry(R"({"dtype":"F32","shape":[2,3]})"),
      entry(R"({"dtype":"F32","shape":[2,3],"data_offsets":[0,25]})"),
      entry(R"({"dtype":"F32","shape":[2,3],"data_offsets":[24,0]})"),
      entry(R"({"dtype":"F32","shape":[2,3],"data_offsets":[8,32]})"),
      entry(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,24]})"),
      entry(R"({"dtype":"F32","shape":[1099511627776,1099511627776,1099511627776],"data_offsets":[0,24]})"),
      entry(R"({"dtype":7,"shape":[6],"data_offsets":[0,24]})"),
      entry(R"({"dtype":"F32","shape":[6],"data_offsets":[0]})"),
      std::string(8, '\xff') + "{}"};
  for (std::size_t i = 0; i < bad_safe.size(); ++i) {
    const std::string path = write("bad.safetensors", bad_safe[i]);
    EXPECT_THROW(load_tensor_file(path + ":w"), CorruptData) << "safetensors " << i;
  }
}

TEST_F(InputFiles, EveryTruncationAndManyRandomChangesAreSurvived) {
  constexpr std::uint64_t seed = 99;
  const std::string header = R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})";
  const std::vector<std::pair<std::string, std::string>> samples = {
      {"f.npy", npy("<f4", "(2, 3)", raw(six))}, {"f.safetensors", safetensors(header, raw(six))}};
  for (const auto& [name, whole] : samples) {
    for (std::size_t length = 0; length < whole.size(); ++length)
      EXPECT_THROW(load_tensor_file(write(name, whole.substr(0, length))), CorruptData)
          << name << " cut to " << length;
    const Random random(seed, name);
    for (std::uint64_t trial = 0; trial < 600; ++trial) {  // any outcome but a crash or an untyped exception
      std::string changed = whole;
      for (std::uint64_t k = 0; k < 1 + trial % 3; ++k)
        changed[random.below(8 * trial + 2 * k, changed.size())] =
            static_cast<char>(random.bits32(8 * trial + 2 * k + 1));
      try {
        const FileTensor t = load_tensor_file(write(name, changed));
        EXPECT_LE(t.values.elements(), static_cast<std::int64_t>(whole.size()));
      } catch (const Error&) {
      }
    }
  }
}

}  // namespace thinwire
