#include "collectives/link/link_drain.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "collectives/link/link_calibration.h"
#include "core/process/environment.h"
#include "core/error.h"

namespace thinwire {
namespace {

constexpr int discard_port = 9;
constexpr std::int64_t headers = 28;              // of IP and UDP, which the bucket counts too
constexpr std::int64_t most_in_one_call = 64000;  // the kernel splits up to 64 KiB into datagrams by itself

}  // namespace

std::unique_ptr<LinkDrain> LinkDrain::open(const std::string& link) {
  const double gbps = nominal_link_gbps(link);
  const auto sink = Environment::get("THINWIRE_LINK_SINK");
  if (std::isnan(gbps) || !sink) return nullptr;
  const auto fail = [&](const std::string& what) {
    throw EnvironmentError("the sink of link " + link + ", THINWIRE_LINK_SINK=" + *sink + ": " + what +
                           "; experiments/lab/launch.sh sets it, unset it for other links");
  };
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(discard_port);
  if (inet_pton(AF_INET, sink->c_str(), &address.sin_addr) != 1) fail("not an IPv4 address");
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) fail(std::strerror(errno));
  // The drain owns the socket from here, whatever fails below.
  const std::int64_t datagram = link_mtu(link) - headers;
  std::unique_ptr<LinkDrain> drain(new LinkDrain(socket, gbps / 8, token_bucket_bytes(link), datagram));
  const int room = static_cast<int>(4 * drain->bucket_), segment = static_cast<int>(datagram);
  setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  if (setsockopt(socket, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof segment) != 0) fail(std::strerror(errno));
  if (connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fail(std::strerror(errno));
  return drain;
}

LinkDrain::LinkDrain(int socket, double bytes_per_ns, std::int64_t bucket, std::int64_t datagram)
    : socket_(socket), bytes_per_ns_(bytes_per_ns), tokens_(static_cast<double>(bucket)), bucket_(bucket), datagram_(datagram) {}

LinkDrain::~LinkDrain() { ::close(socket_); }

void LinkDrain::refill() {
  const std::int64_t now = now_ns();
  tokens_ = std::min(static_cast<double>(bucket_), tokens_ + static_cast<double>(now - seen_ns_) * bytes_per_ns_);
  seen_ns_ = now;
}

void LinkDrain::before_transfer(std::int64_t bytes) {
  if (bytes <= 0) return;
  refill();
  // Under an eighth of the bucket is within what any measurement of the link scatters.
  if (tokens_ > static_cast<double>(bucket_) / 8) {
    spend(static_cast<std::int64_t>(tokens_));
    tokens_ = 0;
  }
  tokens_ -= static_cast<double>(bytes);
}

void LinkDrain::exchange_ended() {
  refill();
  tokens_ = std::min(tokens_, 0.0);
}

void LinkDrain::spend(std::int64_t bytes) {
  static const std::array<std::byte, most_in_one_call> nothing{};
  while (bytes > headers) {
    const std::int64_t now = std::min<std::int64_t>(bytes, most_in_one_call / datagram_ * datagram_);
    // What the kernel does not take is not drained: the transfer then starts a little too fast, which no run should end for.
    if (::send(socket_, nothing.data(), static_cast<std::size_t>(now - std::min(headers, now / 2)), 0) < 0) return;
    drained_ += now;
    bytes -= now;
  }
}

}  // namespace thinwire
