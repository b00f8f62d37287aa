/* Functions of the C library that the bundle's libraries want and machines with an older glibc lack: packaging/older_glibc.py lets the loader look for them here.
   glibc has had them since 2.36 (Ubuntu 22.04 has 2.35): random bytes of the kernel, arc4random(3). */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

void arc4random_buf(void* to, size_t bytes) {
  unsigned char* at = to;
  while (bytes > 0) {
    const ssize_t got = getrandom(at, bytes, 0);
    if (got < 0) continue; /* interrupted by a signal */
    at += got;
    bytes -= (size_t)got;
  }
}

uint32_t arc4random(void) {
  uint32_t value;
  arc4random_buf(&value, sizeof value);
  return value;
}
