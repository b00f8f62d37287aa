/* The wall clock of a machine out of its mind: every second look is a day ahead. Monotonic clocks stay as they are. For LD_PRELOAD. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long jump(void) {
  static atomic_uint looks;
  return atomic_fetch_add(&looks, 1) % 2 ? 86400 : 0;
}

int clock_gettime(clockid_t clock, struct timespec* t) {
  const int status = (int)syscall(SYS_clock_gettime, clock, t);
  if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) t->tv_sec += jump();
  return status;
}

int gettimeofday(struct timeval* restrict t, void* restrict zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  t->tv_sec = now.tv_sec;
  t->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* t) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (t) *t = now.tv_sec;
  return now.tv_sec;
}
