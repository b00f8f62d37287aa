#include "collectives/channel/operation_report.h"

namespace thinwire {

OperationReport& OperationReport::operator+=(const OperationReport& other) {
  encode_us += other.encode_us;
  transfer_us += other.transfer_us;
  decode_us += other.decode_us;
  total_us += other.total_us;
  untimed_us += other.untimed_us;
  encode_cpu_us += other.encode_cpu_us;
  decode_cpu_us += other.decode_cpu_us;
  dense_bytes += other.dense_bytes;
  payload_bytes += other.payload_bytes;
  link_bytes += other.link_bytes;
  received_bytes += other.received_bytes;
  reused_payloads += other.reused_payloads;
  if (*other.algorithm != '\0') algorithm = other.algorithm;
  return *this;
}

}  // namespace thinwire
