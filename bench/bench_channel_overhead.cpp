// bench_channel_overhead: what a channel without a codec costs against direct MPI calls. Three ways to sum the same
// buffer take turns, lap by lap: MPI_Allreduce, MPI_Iallreduce with MPI_Wait, and Channel::all_reduce (dense, f32, by
// the library). Printed: medians over laps of the slowest rank's time, and of the channel's ratio to each of the two
// in the same lap. Usage: mpirun -n 2 bench_channel_overhead [LAPS]   (default 201)
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "collectives/channel/channel.h"
#include "core/clock.h"
#include "core/process/command_line.h"
#include "core/process/main_guard.h"

using namespace thinwire;

namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

int run(int argc, char** argv) {
  CLI::App app("What a channel without a codec costs against direct MPI calls: medians of laps, by size. Start it by mpirun.", "bench_channel_overhead");
  long laps = 201;
  app.add_option("laps", laps, "of each size")->check(CLI::Range(3, 1'000'000))->capture_default_str();
  if (const auto helped = parse_command_line(app, argc, argv)) return *helped;
  MpiEnvironment environment(&argc, &argv);
  const auto world = environment.world();
  Channel channel(*world, {.traffic = TrafficClass::dp_gradient, .codec = uncompressed, .comm_dtype = DType::f32});
  if (world->rank() == 0)
    std::printf("%d ranks, %ld laps, medians\n%12s %14s %14s %12s %18s %18s\n", world->size(), laps, "bytes", "allreduce us", "iallreduce us",
                "channel us", "channel/allreduce", "channel/iallreduce");
  for (std::int64_t bytes = 4096; bytes <= 16 << 20; bytes *= 4) {
    const int count = static_cast<int>(bytes / 4);
    std::vector<float> in(static_cast<std::size_t>(count), 1.0f), out(in.size());
    MessageKey key;
    key.tensor = hash_name("overhead");
    const std::function<void()> ways[] = {
        [&] { MPI_Allreduce(in.data(), out.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); },
        [&] {
          MPI_Request request;
          MPI_Iallreduce(in.data(), out.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
          MPI_Wait(&request, MPI_STATUS_IGNORE);
        },
        [&] { channel.all_reduce({in.data(), Shape{count}}, {out.data(), Shape{count}}, key).wait(); }};
    std::vector<double> times[3], to_blocking, to_non_blocking;
    for (long lap = -10; lap < laps; ++lap) {  // ten to warm up
      double slowest[3] = {};
      for (int turn = 0; turn < 3; ++turn) {
        const auto way = static_cast<std::size_t>((lap + 30 + turn) % 3);  // nobody is always the first
        MPI_Barrier(MPI_COMM_WORLD);
        const std::int64_t start = now_ns();
        ways[way]();
        const double us = static_cast<double>(now_ns() - start) * 1e-3;
        MPI_Allreduce(&us, &slowest[way], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (out[0] != static_cast<float>(world->size())) throw WrongResult("a sum of ones is not the number of ranks");
      }
      if (lap < 0) continue;
      for (int way = 0; way < 3; ++way) times[way].push_back(slowest[way]);
      to_blocking.push_back(slowest[2] / slowest[0]);
      to_non_blocking.push_back(slowest[2] / slowest[1]);
    }
    if (world->rank() == 0)
      std::printf("%12lld %14.1f %14.1f %12.1f %18.3f %18.3f\n", static_cast<long long>(bytes), median(times[0]), median(times[1]),
                  median(times[2]), median(to_blocking), median(to_non_blocking));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return guarded_main(argc, argv, run);
}
