#include "bench/doctor/doctor_checks.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "bench/doctor/limited_process.h"
#include "core/clock.h"
#include "core/device/device.h"
#include "core/process/environment.h"
#include "core/process/instructions.h"
#include "core/error.h"
#include "kernels/nn/gemm/gemm.h"
#include "kernels/nn/gemm/product_library.h"
#include "results/files/tuned_products.h"
#include "results/hdf5/hdf5.h"
#include "thinwire_version.h"

namespace thinwire::bench {
namespace {

namespace fs = std::filesystem;

std::string last_line(const std::string& text) {
  std::size_t end = text.find_last_not_of("\n -");
  if (end == std::string::npos) return "no message";
  const std::size_t begin = text.rfind('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1, end - (begin == std::string::npos ? std::size_t(-1) : begin));
}

std::string number(double value, const char* format = "%.1f") {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

Finding check_mpi(const DoctorContext& context) {
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 1);
  std::string seen;
  for (const char* ranks : {"2", "4"}) {
    const Stopwatch watch;
    const ProcessResult job =
        run_limited({"mpirun", "--oversubscribe", "--bind-to", "none", "-n", ranks, context.program, "--mpi-hello"}, 60);
    if (!job.succeeded())
      return {Verdict::failed, std::string("mpirun with ") + ranks + " ranks " + job.ending() + ": " + last_line(job.output),
              job.exit_status == 127 ? "install openmpi-bin (scripts/setup.sh does)"
                                     : "try 'mpirun --oversubscribe -n 2 hostname'; look at rights of /tmp and /dev/shm, and at OMPI_MCA_* variables"};
    seen += (seen.empty() ? "" : ", ") + std::string(ranks) + " ranks in " + number(watch.seconds()) + " s";
    if (context.quick) break;
  }
  return {Verdict::ok, "hello and pairwise exchange: " + seen, ""};
}

// The product of two random matrices against a plain double sum, and the rate of a bigger one.
Finding check_blas(const DoctorContext& context) {
  constexpr std::int64_t m = 37, n = 29, k = 53;
  std::vector<float> a(m * k), b(k * n), c(m * n);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(std::sin(1.0 + static_cast<double>(i)));
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(std::cos(2.0 + static_cast<double>(i)));
  nn::gemm<float>(nn::Transpose::no, nn::Transpose::no, m, n, k, 1, a.data(), k, b.data(), n, 0, c.data(), n);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t p = 0; p < k; ++p) sum += static_cast<double>(a[i * k + p]) * b[p * n + j];
      if (!(std::fabs(sum - c[i * n + j]) <= 1e-4))
        return {Verdict::failed, "a product is wrong at (" + std::to_string(i) + ", " + std::to_string(j) + "): " + number(c[i * n + j], "%.6g") +
                                     " instead of " + number(sum, "%.6g"),
                "install libopenblas-openmp-dev; see 'update-alternatives --display libblas.so.3-x86_64-linux-gnu'"};
    }
  const std::int64_t size = context.quick ? 512 : 1024;
  const auto count = static_cast<std::size_t>(size * size);
  std::vector<float> x(count, 0.5f), y(count, 0.25f), z(count);
  double best = 1e9;
  for (int i = 0; i < 4; ++i) {
    const Stopwatch watch;
    nn::gemm<float>(nn::Transpose::no, nn::Transpose::no, size, size, size, 1, x.data(), size, y.data(), size, 0, z.data(), size);
    best = std::min(best, watch.seconds());
  }
  const double gflops = 2e-9 * static_cast<double>(size * size * size) / best;
  if (gflops < 5)
    return {Verdict::note, "products are right but slow: " + number(gflops) + " GFLOP/s in f32",
            "the reference BLAS may be loaded: install libopenblas-openmp-dev, or look whether other programs use the machine"};
#if defined(__x86_64__)
  if (keeps_to_avx2() && __builtin_cpu_supports("avx512f"))
    return {Verdict::note, number(gflops, "%.0f") + " GFLOP/s in f32 by kernels for AVX2: the environment says THINWIRE_INSTRUCTIONS=avx2",
            "with AVX-512 products take about half the time: unset THINWIRE_INSTRUCTIONS unless losses must repeat those of a processor without it"};
  const std::string pinned = Environment::get("OPENBLAS_CORETYPE").value_or("");
  if ((pinned == "Haswell" || pinned == "Zen") && __builtin_cpu_supports("avx512f"))
    return {Verdict::note, number(gflops, "%.0f") + " GFLOP/s in f32 by kernels for AVX2: the environment says OPENBLAS_CORETYPE=" + pinned,
            "unset OPENBLAS_CORETYPE unless results must have these kernels' bits: with AVX-512 products take about half the time"};
#endif
  return {Verdict::ok, number(gflops, "%.0f") + " GFLOP/s in f32, product checked", ""};
}

Finding check_bf16(const DoctorContext&) {
  const std::string reason = nn::why_no_bf16_gemm();
  if (reason.empty()) return {Verdict::ok, "oneDNN multiplies bf16 with the processor's own instructions (AVX512_BF16 or AMX)", ""};
  return {Verdict::note, "no bf16 products: " + reason, "--products bf16 is refused here; leave it out: f32, the default, is complete"};
}

Finding check_products(const DoctorContext&) {
  const auto file = Environment::get("THINWIRE_MACHINE");
  if (!file) return {Verdict::ok, "f32 matrices are multiplied by OpenBLAS as it comes", "doctor --tune FILE measures which library is fastest here"};
  try {
    const nn::ProductLibrary choice = nn::parse_product_library(results::tuned_library_of_this_machine());
    const std::string reason = nn::why_not(choice);
    if (reason.empty()) return {Verdict::ok, choice.text() + ", as " + *file + " says", ""};
    return {Verdict::note, *file + " says " + choice.text() + ": " + reason, "unset THINWIRE_MACHINE"};
  } catch (const Error& e) {
    return {Verdict::note, e.what(), "programs refuse to start until this is mended"};
  }
}

Finding check_hdf5(const DoctorContext& context) {
  const std::string path = context.out + "/.doctor-" + std::to_string(getpid()) + ".h5";
  struct Remove {
    std::string path;
    ~Remove() { unlink(path.c_str()); }
  } remove{path};
  const std::vector<double> values = {1, -2.5, 1e300, 0};
  {
    h5::File file = h5::File::create(path);
    file.write_vector<double>("group/values", values, {.deflate = 4});
    file.close();
  }
  if (h5::File::open_read(path).read_vector<double>("group/values") != values)
    return {Verdict::failed, "what was read back from " + path + " is not what was written", "look at the file system behind " + context.out};
  return {Verdict::ok, "HDF5 " + h5::library_version() + " writes and reads in " + context.out, ""};
}

Finding check_python(const DoctorContext&) {
  const ProcessResult python = run_limited(
      {"/usr/bin/python3", "-c", "import numpy,h5py,matplotlib;print('numpy',numpy.__version__,'h5py',h5py.__version__,'matplotlib',matplotlib.__version__)"}, 90);
  if (!python.succeeded())
    return {Verdict::failed, "/usr/bin/python3 " + python.ending() + ": " + last_line(python.output),
            "install python3-numpy python3-h5py python3-matplotlib (scripts/setup.sh does)"};
  return {Verdict::ok, last_line(python.output), ""};
}

Finding check_namespaces(const DoctorContext& context) {
  if (context.source.empty())
    return {Verdict::note, "experiments/lab/launch.sh was not found from " + context.program, "name the repository with --source"};
  const ProcessResult probe = run_limited({"bash", context.source + "/experiments/lab/launch.sh", "--probe"}, 8);
  if (!probe.succeeded())
    return {Verdict::note, probe.timed_out ? "launch.sh --probe " + probe.ending() : last_line(probe.output),
            "cells on netns links will be SKIPPED; run as root or allow user namespaces"};
  return {Verdict::ok, last_line(probe.output), ""};
}

Finding check_cuda(const DoctorContext&) {
  const std::string reason = why_unavailable(DeviceKind::cuda);
  if (reason.empty()) return {Verdict::ok, "a CUDA device can be used: " + device_name({DeviceKind::cuda, 0}), ""};
  return {Verdict::note, "no CUDA: " + reason, "nothing to do: host code is complete without it"};
}

double free_gib(const std::string& path) {
  struct statvfs s {};
  if (statvfs(path.c_str(), &s) != 0) return -1;
  return static_cast<double>(s.f_bavail) * static_cast<double>(s.f_frsize) / (1 << 30);
}

Finding check_disk(const DoctorContext& context) {
  constexpr double needed = 4;  // GiB; the quick profile's capture and results stay below 3
  if (access(context.out.c_str(), W_OK) != 0) return {Verdict::failed, context.out + " may not be written", "choose another folder with --out"};
  const double here = free_gib(context.out), temporary = free_gib(fs::temp_directory_path().string());
  const std::string seen = number(here) + " GiB free for results, " + number(temporary) + " GiB in " + fs::temp_directory_path().string();
  if (here < needed) return {Verdict::failed, seen, "the quick profile needs " + number(needed, "%.0f") + " GiB: make room or choose another folder with --out"};
  if (temporary < 0.25) return {Verdict::failed, seen, "Open MPI and the compiler need room there: set TMPDIR"};
  return {Verdict::ok, seen, ""};
}

Finding check_shared_memory(const DoctorContext&) {
  const std::string path = "/dev/shm/.thinwire-doctor-" + std::to_string(getpid());
  std::ofstream file(path);
  const bool writable = static_cast<bool>(file << "x" << std::flush);
  unlink(path.c_str());
  if (!writable) return {Verdict::failed, "/dev/shm may not be written", "ranks exchange data through it: mount -t tmpfs tmpfs /dev/shm"};
  const double room = free_gib("/dev/shm");
  if (room < 0.0625)
    return {Verdict::failed, "/dev/shm has " + number(room * 1024, "%.0f") + " MiB free", "64 MiB or more are needed (containers: --shm-size=1g)"};
  return {Verdict::ok, number(room) + " GiB free in /dev/shm", ""};
}

Finding check_memory(const DoctorContext&) {
  const double gib = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 30);
  const std::string seen = number(gib) + " GiB of memory, " + std::to_string(sysconf(_SC_NPROCESSORS_ONLN)) + " cores";
  if (gib < 3.5) return {Verdict::failed, seen, "the quick profile needs 4 GiB"};
  return {Verdict::ok, seen, ""};
}

// A finding crosses the process boundary as one line: what libraries print is not mistaken for it.
constexpr const char* finding_tag = "\x1ethinwire-finding\x1f";

Finding finding_of(const ProcessResult& result, double limit_s) {
  const std::size_t at = result.output.rfind(finding_tag);
  if (result.timed_out)
    return {Verdict::failed, "did not end within " + number(limit_s, "%.0f") + " s", "the machine is overloaded, or the library behind this check hangs"};
  if (!result.succeeded() || at == std::string::npos)
    return {Verdict::failed, "the check " + result.ending() + ": " + last_line(result.output), "the message above names the cause"};
  const std::string body = result.output.substr(at + std::string(finding_tag).size());
  const std::size_t first = body.find('\x1f'), second = body.find('\x1f', first + 1);
  Finding finding;
  finding.verdict = static_cast<Verdict>(std::stoi(body.substr(0, first)));
  finding.detail = body.substr(first + 1, second - first - 1);
  finding.advice = body.substr(second + 1, body.find('\x1e', second) - second - 1);
  return finding;
}

}  // namespace

std::string name_of(Verdict verdict) { return verdict == Verdict::ok ? "ok" : verdict == Verdict::note ? "note" : "FAILED"; }

const std::vector<Check>& doctor_checks() {
  // Limits for what hangs: a machine that is busy, or imports from a cold disk, needs a few seconds, or ten times as many.
  static const std::vector<Check> checks = {
      {"mpi", true, 150, check_mpi},        {"blas", true, 150, check_blas},         {"hdf5", true, 150, check_hdf5},
      {"python", true, 150, check_python},  {"disk", true, 60, check_disk},          {"shared_memory", true, 60, check_shared_memory},
      {"memory", true, 60, check_memory},   {"namespaces", false, 10, check_namespaces}, {"bf16", false, 10, check_bf16},
      {"products", false, 10, check_products},
      {"cuda", false, 60, check_cuda},
  };
  return checks;
}

Finding run_check(const Check& check, const DoctorContext& context) {
  const ProcessResult result = run_limited(
      [&]() {
        const Finding found = check.body(context);
        std::printf("%s%d\x1f%s\x1f%s\x1e", finding_tag, static_cast<int>(found.verdict), found.detail.c_str(), found.advice.c_str());
        return 0;
      },
      check.limit_s);
  Finding finding = finding_of(result, check.limit_s);
  if (!check.required && finding.verdict == Verdict::failed) finding.verdict = Verdict::note;
  return finding;
}

std::string find_source(const std::string& program) {
  if (const auto named = Environment::get("THINWIRE_SOURCE_DIR")) return *named;
  std::error_code ignored;
  for (fs::path folder = fs::canonical(program, ignored); folder.has_relative_path(); folder = folder.parent_path())
    if (fs::exists(folder / "experiments/lab/launch.sh", ignored)) return folder.string();
  return fs::exists(fs::path(THINWIRE_SOURCE_FOLDER) / "experiments/lab/launch.sh", ignored) ? THINWIRE_SOURCE_FOLDER : "";
}

}  // namespace thinwire::bench
