/* Preloaded into a container: its wall clock is ahead of the machine's by the number of seconds in a file.
 *
 * The file is mapped, so the clock of a process that runs steps when the file changes. Only the questions for the time
 * are replaced: clocks that measure durations, sleeps, and the times of files stay the kernel's. (Debian's libfaketime
 * 0.9.10 cannot leave the monotonic clock alone: Python's time.sleep then fails with EINVAL.)
 */

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t no_seconds = 0;
static const volatile int64_t *ahead_seconds = &no_seconds;

__attribute__((constructor)) static void map_the_file(void) {
  const char *path = getenv("WALL_CLOCK_AHEAD_SECONDS");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  if (mapped != MAP_FAILED) ahead_seconds = mapped;
  close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int failed = syscall(SYS_clock_gettime, clock, now);
  if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *ahead_seconds;
  return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  int failed = syscall(SYS_gettimeofday, now, zone);
  if (!failed) now->tv_sec += *ahead_seconds;
  return failed;
}

time_t time(time_t *now) {
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  if (now) *now = precise.tv_sec;
  return precise.tv_sec;
}
