// labels: unit
// timeout: 180
// A capture of a tiny model, written and read back: partial sums add up to the layer's output, nothing is
// tiled, the index is right, plain misuse and damage give clear errors.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "core/half.h"
#include "core/random.h"
#include "models/capture/capture_reader.h"
#include "models/capture/capture_configuration.h"
#include "models/capture/capture_run.h"
#include "models/capture/spectrum.h"

namespace thinwire {
namespace fs = std::filesystem;
namespace {

std::string text_of_words() {
  const Random random(3, "words");
  std::string text;
  for (std::uint64_t i = 0; i < 40000; ++i) text += static_cast<char>('a' + random.below(i, 20));
  return text;
}

CaptureRunOptions tiny(const std::string& out) {
  CaptureRunOptions o;
  o.model.hidden = 32, o.model.layers = 4, o.model.heads = 4, o.model.seed = 3;
  o.trainer.schedule = {1e-3, 1e-4, 2, 0};
  o.early_step = 2, o.late_step = 8, o.tokens_per_step = 64;
  o.plan.shapes = {{2, 16}, {3, 16}, {2, 24}};
  o.plan.base_steps = 3, o.plan.replicas = 3;
  o.out = out;
  return o;
}

/// One capture serves all tests of this file.
class Capture : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder = fs::temp_directory_path() / ("thinwire_capture_" + std::to_string(::getpid()));
    fs::create_directories(folder);
    path = (folder / "capture.h5").string();
    corpus = std::make_unique<Corpus>(Corpus::from_text(text_of_words(), "letters"));
    summary = run_capture(*corpus, tiny(path));
  }
  static void TearDownTestSuite() {
    fs::remove_all(folder);
    corpus.reset();
  }
  static inline fs::path folder;
  static inline std::string path;
  static inline std::unique_ptr<Corpus> corpus;
  static inline CaptureSummary summary;
};

std::vector<char> bytes_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_F(Capture, IsRecognisedByItsConfigurationAndText) {
  const std::string line = capture_configuration(tiny(path), corpus->hash());
  EXPECT_TRUE(holds_capture(path, line));
  EXPECT_TRUE(holds_capture(path, capture_configuration(tiny("elsewhere.h5"), corpus->hash())));
  EXPECT_FALSE(holds_capture(path, capture_configuration(tiny(path), std::string(64, '0')))) << "another text";
  CaptureRunOptions other = tiny(path);
  other.plan.shapes.back().seq += 8;
  EXPECT_FALSE(holds_capture(path, capture_configuration(other, corpus->hash()))) << "another shape";
  other = tiny(path);
  other.trainer.schedule.peak *= 1.0000001;
  EXPECT_FALSE(holds_capture(path, capture_configuration(other, corpus->hash()))) << "another learning rate";
  EXPECT_FALSE(holds_capture(path + ".missing", line));
  const std::string damaged = (folder / "damaged.h5").string();
  fs::copy_file(path, damaged, fs::copy_options::overwrite_existing);
  fs::resize_file(damaged, fs::file_size(damaged) / 2);
  EXPECT_FALSE(holds_capture(damaged, line));
}

TEST_F(Capture, TellsWhatWasTrainedOnWhat) {
  const CaptureReader reader(path);
  const CaptureInfo& info = reader.info();
  EXPECT_EQ(info.corpus, corpus->hash());
  EXPECT_EQ(info.hidden, 32);
  EXPECT_EQ(info.seed, 3u);
  EXPECT_EQ(info.loss_scale, 8192);
  EXPECT_NEAR(info.bigram_entropy, corpus->bigram_entropy(), 1e-12);
  EXPECT_GT(info.loss_early, info.loss_late);
  EXPECT_NEAR(info.loss_early, std::log(256.0), 1.0);
  EXPECT_FALSE(fs::exists(path + ".tmp"));
}

TEST_F(Capture, EveryClassIsThereAtEveryShapeItShouldHave) {
  const CaptureReader reader(path);
  for (const char* traffic : {"tp_forward", "pp_forward", "pp_backward"})
    for (const CaptureShape& s : tiny(path).plan.shapes) {
      const auto found =
          reader.matching({.traffic = traffic, .point = "late", .batch = s.batch, .seq = s.seq});
      EXPECT_FALSE(found.empty()) << traffic;
      for (const CaptureTensor& t : found) {
        EXPECT_EQ(t.shape, (Shape{s.batch, s.seq, 32}));
        EXPECT_EQ(t.steps.size(), (s == CaptureShape{2, 16} ? 3u : 2u));
        for (std::size_t k = 1; k < t.steps.size(); ++k) EXPECT_EQ(t.steps[k], t.steps[k - 1] + 1);
      }
    }
  for (const char* point : {"early", "late"}) {
    const CaptureTensor& qkv =
        reader.find({.traffic = "dp_gradient", .tensor = "layer2.attention.qkv.weight", .point = point});
    const CaptureTensor& first =
        reader.find({.traffic = "embedding", .tensor = "token.first_use", .point = point});
    const CaptureTensor& last =
        reader.find({.traffic = "embedding", .tensor = "token.last_use", .point = point});
    EXPECT_EQ(qkv.shape, (Shape{32, 96}));
    EXPECT_EQ(first.parts, 3);
    EXPECT_EQ(last.shape, (Shape{256, 32}));
    for (int t : {2, 4}) {
      const CaptureQuery query{.traffic = "tp_forward",
                               .tensor = "layer3.mlp.projection",
                               .point = point,
                               .batch = 2,
                               .seq = 16,
                               .parts = t};
      EXPECT_EQ(reader.find(query).parts, t);
    }
  }
}

TEST_F(Capture, EveryPartThatIsListedIsThere) {
  CaptureRunOptions o = tiny((folder / "few.h5").string());
  o.plan.replicas = 1, o.plan.pipeline_micro = 3, o.plan.base_steps = 1;
  run_capture(*corpus, o);
  const CaptureReader reader(o.out);
  for (const CaptureTensor& t : reader.tensors())
    for (int step = 0; step < static_cast<int>(t.steps.size()); ++step)
      for (int part = 0; part < t.parts; ++part)
        EXPECT_EQ(reader.load(t, step, part).shape().elements(), t.shape.elements()) << t.traffic << " " << t.tensor;
}

TEST_F(Capture, WeightsAreThoseOfSuccessiveSteps) {
  const CaptureReader reader(path);
  const CaptureTensor& weights = reader.find({.traffic = "param_all_gather", .tensor = "layer2.attention.qkv.weight"});
  EXPECT_EQ(weights.shape, (Shape{32, 96}));
  EXPECT_EQ(weights.parts, 1);
  ASSERT_EQ(weights.steps.size(), 3u);
  const Tensor before = reader.load(weights, 0, 0), after = reader.load(weights, 1, 0);
  double change = 0, size = 0;
  for (std::size_t i = 0; i < before.as<float>().size(); ++i) {
    const double x = before.as<float>()[i], y = after.as<float>()[i];
    change += (y - x) * (y - x), size += x * x;
  }
  // One update of a few thousandths per weight: something, and far less than the weights themselves.
  EXPECT_GT(change, 1e-8 * size);
  EXPECT_LT(change, 0.25 * size);
}

TEST_F(Capture, MagnitudesCountEveryElementOnce) {
  const h5::File file = h5::File::open_read(path);
  const auto table = file.read_table("magnitudes");
  const auto& kinds = std::get<0>(table.find("kind")->values);
  const auto &steps = std::get<1>(table.find("step")->values), &counts = std::get<1>(table.find("count")->values);
  const std::set<std::int64_t> points(steps.begin(), steps.end());
  EXPECT_EQ(points.size(), 2u) << "early and late";
  std::map<std::string, std::int64_t> elements;
  for (std::size_t i = 0; i < kinds.size(); ++i)
    if (steps[i] == *points.begin()) elements[kinds[i]] += counts[i];
  EXPECT_EQ(elements.at("attention.qkv.weight"), 4 * 32 * 96) << "of all four layers";
  EXPECT_EQ(elements.at("mlp.expand.weight"), 4 * 32 * 128);
  std::int64_t all = 0;
  for (const auto& [kind, count] : elements) all += count;
  EXPECT_EQ(all, file.int_attribute("", "parameters"));
}

TEST_F(Capture, PartialSumsOfTwoAndOfFourRanksAddUpToTheSameOutput) {
  const CaptureReader reader(path);
  for (const char* tensor : {"layer3.attention.projection", "layer3.mlp.projection"})
    for (const CaptureShape& s : tiny(path).plan.shapes) {
      const CaptureTensor& two = reader.find({.traffic = "tp_forward",
                                              .tensor = tensor,
                                              .point = "late",
                                              .batch = s.batch,
                                              .seq = s.seq,
                                              .parts = 2});
      const CaptureTensor& four = reader.find({.traffic = "tp_forward",
                                               .tensor = tensor,
                                               .point = "late",
                                               .batch = s.batch,
                                               .seq = s.seq,
                                               .parts = 4});
      const auto sum = [&](const CaptureTensor& t, int first, int last) {
        std::vector<double> total(static_cast<std::size_t>(t.shape.elements()));
        for (int part = first; part < last; ++part) {
          const Tensor piece = reader.load(t, 1, part);
          for (std::size_t i = 0; i < total.size(); ++i)
            total[i] += static_cast<double>(piece.as<float>()[i]);
        }
        return total;
      };
      for (int half = 0; half < 2; ++half) {  // rank 0 of 2 holds what ranks 0 and 1 of 4 hold
        const auto a = sum(two, half, half + 1), b = sum(four, 2 * half, 2 * half + 2);
        double largest = 0;
        for (double v : a) largest = std::max(largest, std::abs(v));
        EXPECT_GT(largest, 0);
        for (std::size_t i = 0; i < a.size(); ++i)
          ASSERT_NEAR(a[i], b[i], 3e-3 * largest) << tensor;  // f16 rounding
      }
    }
}

TEST_F(Capture, NothingIsTiledOrRepeated) {
  const CaptureReader reader(path);
  std::set<std::vector<float>> seen;
  std::size_t count = 0;
  for (const CaptureTensor& t : reader.tensors())
    for (int k = 0; k < static_cast<int>(t.steps.size()); ++k)
      for (int part = 0; part < t.parts; ++part, ++count) {
        const Tensor values = reader.load(t, k, part);
        std::vector<float> v(values.as<float>().begin(), values.as<float>().end());
        for (float x : v) ASSERT_TRUE(std::isfinite(x));
        seen.insert(v);
        // within a tensor: the halves differ
        EXPECT_FALSE(std::equal(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2),
                                v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2)))
            << t.tensor;
      }
  EXPECT_EQ(seen.size(), count);
}

TEST_F(Capture, TheSameSeedCapturesTheSameBitsWhateverElseIsKept) {
  const std::string again = (folder / "again.h5").string();
  CaptureRunOptions o = tiny(again);
  o.plan.tensor_ranks = {4};  // observing less does not change the training
  run_capture(*corpus, o);
  const CaptureReader a(path), b(again);
  for (const CaptureTensor& t : b.tensors()) {
    const Tensor x = a.load(t, 0, t.parts - 1), y = b.load(t, 0, t.parts - 1);
    EXPECT_TRUE(std::equal(x.as<float>().begin(), x.as<float>().end(), y.as<float>().begin()))
        << t.traffic << " " << t.tensor;
  }
}

TEST_F(Capture, AskingForWhatIsNotThereListsWhatIs) {
  const CaptureReader reader(path);
  try {
    reader.find({.traffic = "tp_forward",
                 .tensor = "layer3.mlp.projection",
                 .point = "late",
                 .batch = 64,
                 .seq = 16});
    FAIL();
  } catch (const UsageError& e) {
    EXPECT_NE(std::string(e.what()).find("layer3.attention.projection"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("b64"), std::string::npos) << e.what();
  }
  EXPECT_THROW(reader.find({.traffic = "tp_forward"}), UsageError);  // several
  const CaptureTensor t = reader.tensors().front();
  EXPECT_THROW(reader.load(t, 99, 0), UsageError);
  EXPECT_THROW(reader.load(t, 0, t.parts), UsageError);
  EXPECT_THROW(reader.load(t, -1, 0), UsageError);
}

TEST_F(Capture, DamagedOrForeignFilesAreRefused) {
  EXPECT_THROW(CaptureReader((folder / "missing.h5").string()), EnvironmentError);
  const std::vector<char> whole = bytes_of(path);
  const std::string cut = (folder / "cut.h5").string();
  for (double share : {0.0, 0.001, 0.1, 0.5, 0.9, 0.999}) {
    std::ofstream(cut, std::ios::binary)
        .write(whole.data(), static_cast<std::streamsize>(share * static_cast<double>(whole.size())));
    EXPECT_THROW(CaptureReader{cut}, CorruptData) << share;
  }
  const std::string foreign = (folder / "foreign.h5").string();
  {
    h5::File file = h5::File::create(foreign);
    file.set_attribute("", "schema_version", 1);
    file.close();
  }
  EXPECT_THROW(CaptureReader{foreign}, CorruptData);
  fs::copy_file(path, foreign, fs::copy_options::overwrite_existing);
  {
    h5::File file = h5::File::open_write(foreign);
    file.set_attribute("", "capture_version", capture_schema_version + 1);
    file.close();
  }
  try {
    CaptureReader reader(foreign);
    FAIL();
  } catch (const CorruptData& e) {
    EXPECT_NE(std::string(e.what()).find(std::to_string(capture_schema_version + 1)), std::string::npos)
        << e.what();
    EXPECT_NE(std::string(e.what()).find("capture_traffic"), std::string::npos) << e.what();
  }
}

TEST_F(Capture, AValueThatDoesNotFitIsRefusedAndLeavesNoFile) {
  CaptureRunOptions o = tiny((folder / "overflow.h5").string());
  o.plan.loss_scale = 1e12;
  EXPECT_THROW(run_capture(*corpus, o), RuntimeFailure);
  EXPECT_FALSE(fs::exists(o.out));
  EXPECT_FALSE(fs::exists(o.out + ".tmp"));
}

TEST(CapturePlan, StaysUnderItsCapAndLeavesTheLeastNeededOut) {
  CapturePlanOptions o;
  o.max_mib = 100000;
  const CapturePlan all = plan_capture(o);
  o.max_mib = (all.bytes() >> 20) + 1;
  EXPECT_TRUE(plan_capture(o).left_out.empty());
  o.max_mib = (all.bytes() >> 20) - 200;
  const CapturePlan less = plan_capture(o);
  EXPECT_LE(less.bytes(), o.max_mib << 20);
  EXPECT_FALSE(less.left_out.empty());
  for (const PlannedSlot& p : less.left_out) EXPECT_GT(p.priority, 0);
  o.max_mib = 1;
  EXPECT_THROW(plan_capture(o), UsageError);
}

TEST(CapturePlan, FaultyShapesAreRefused) {
  EXPECT_EQ(parse_capture_shapes("8x128,32x512"), (std::vector<CaptureShape>{{8, 128}, {32, 512}}));
  for (const char* bad : {"", "8", "8x", "x8", "0x8", "8x-1", "8x128,", "8x128,8x128", "8x12a"})
    EXPECT_THROW(parse_capture_shapes(bad), UsageError) << bad;
}

TEST(CapturePlan, PointsInTheWrongOrderAreRefused) {
  const Corpus corpus = Corpus::from_text(text_of_words(), "letters");
  CaptureRunOptions o = tiny("unused.h5");
  o.late_step = 3;
  EXPECT_THROW(run_capture(corpus, o), UsageError);
  o = tiny("unused.h5");
  o.model.hidden = 30, o.model.heads = 3;  // not over 4 ranks
  EXPECT_THROW(run_capture(corpus, o), UsageError);
  o = tiny("unused.h5");
  o.model.heads = 2;  // no run of four tensor ranks cuts a head
  EXPECT_THROW(run_capture(corpus, o), UsageError);
}

TEST(SingularValues, OfAMatrixWithKnownSpectrumComeOut) {
  // Diagonal blocks: singular values are the absolute diagonal entries.
  constexpr int rows = 9, columns = 5;
  std::vector<float> x(rows * columns, 0.0f);
  const float diagonal[] = {2, -8, 1, 4, 0.5f};
  for (int i = 0; i < columns; ++i) x[static_cast<std::size_t>((i + 2) * columns + i)] = diagonal[i];
  const auto s = normalised_singular_values(rows, columns, x.data(), false, 100);
  const double expected[] = {1, 0.5, 0.25, 0.125, 0.0625};
  ASSERT_EQ(s.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(s[i], expected[i], 1e-7);
  std::vector<float> transposed(x.size());
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c)
      transposed[static_cast<std::size_t>(c * rows + r)] = x[static_cast<std::size_t>(r * columns + c)];
  const auto t = normalised_singular_values(columns, rows, transposed.data(), false, 100);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(t[i], expected[i], 1e-7);
}

TEST(SingularValues, CentringRemovesACommonMean) {
  std::vector<float> x(64 * 8);
  const Random random(5, "centred");
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 100.0f + static_cast<float>(random.normal(i));
  EXPECT_LT(normalised_singular_values(64, 8, x.data(), false, 64)[1], 0.05);
  EXPECT_GT(normalised_singular_values(64, 8, x.data(), true, 64)[1], 0.5);
}

}  // namespace thinwire
