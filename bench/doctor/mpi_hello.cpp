#include "bench/doctor/mpi_hello.h"

#include <string>
#include <vector>

#include "core/error.h"

namespace thinwire::bench {
namespace {

std::byte mark(int from, int to, std::size_t i) { return static_cast<std::byte>((from * 31 + to * 17 + static_cast<int>(i % 251)) & 0xff); }

}  // namespace

void exchange_pairwise(Communicator& world) {
  constexpr std::size_t bytes = 64 * 1024;
  std::vector<std::byte> out(bytes), in(bytes);
  const int me = world.rank(), n = world.size();
  // Distance d: everybody sends to the rank d ahead, so that each ordered pair meets exactly once.
  for (int d = 1; d < n; ++d) {
    const int to = (me + d) % n, from = (me + n - d) % n;
    for (std::size_t i = 0; i < bytes; ++i) out[i] = mark(me, to, i);
    RequestPtr receiving = world.receive(in.data(), bytes, from, d);
    RequestPtr sending = world.send(out.data(), bytes, to, d);
    sending->wait();
    receiving->wait();
    for (std::size_t i = 0; i < bytes; ++i)
      if (in[i] != mark(from, me, i))
        throw WrongResult("the message from rank " + std::to_string(from) + " to rank " + std::to_string(me) + " came damaged at byte " +
                          std::to_string(i) + "; look at OMPI_MCA_* variables and at the network between the ranks");
  }
  world.barrier();
}

}  // namespace thinwire::bench
