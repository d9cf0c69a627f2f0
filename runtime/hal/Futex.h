//===- Futex.h - Sleeping on a word of memory -------------------*- C++ -*-===//
//
// Part of harmonyc, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef RUNTIME_HAL_FUTEX_H
#define RUNTIME_HAL_FUTEX_H

#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdint>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace harmony::runtime {

/// `limit` null: until woken.
inline void futexWait(const std::atomic<uint32_t> &word, uint32_t seen,
                      const struct timespec *limit = nullptr) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, limit, nullptr, 0);
}

inline void futexWakeAll(const std::atomic<uint32_t> &word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

inline void relaxProcessor() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

/// Waiters spin this long before they sleep: about what a sleep and a wake-up
/// cost.
constexpr std::chrono::nanoseconds spinTime{2000};

/// A word that announces changes of state kept elsewhere: change the state,
/// then notify(). Waiting costs a short spin before it costs a system call, and
/// notifying costs a system call only while somebody sleeps.
class Signal {
public:
  void notify() {
    word.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_seq_cst))
      futexWakeAll(word);
  }

  /// Returns once `ready()` is true; `ready` reads state with acquire order.
  /// Sleeps after having spun for `spin`.
  template <typename Ready>
  void await(Ready ready, std::chrono::nanoseconds spin = spinTime) const {
    await(ready, spin, nullptr, [] {});
  }

  /// The same; while it sleeps, calls `check()` twice a second.
  template <typename Ready, typename Check>
  void awaitChecking(Ready ready, Check check) const {
    static constexpr struct timespec interval = {0, 500000000};
    await(ready, spinTime, &interval, check);
  }

private:
  template <typename Ready, typename Check>
  void await(Ready ready, std::chrono::nanoseconds spin,
             const struct timespec *limit, Check check) const {
    if (ready())
      return;
    auto until = std::chrono::steady_clock::now() + spin;
    do {
      for (int i = 0; i < 16; ++i) {
        relaxProcessor();
        if (ready())
          return;
      }
    } while (std::chrono::steady_clock::now() < until);
    for (;;) {
      sleepers.fetch_add(1, std::memory_order_seq_cst);
      uint32_t seen = word.load(std::memory_order_seq_cst);
      bool done = ready();
      if (!done)
        futexWait(word, seen, limit);
      sleepers.fetch_sub(1, std::memory_order_seq_cst);
      if (done || ready())
        return;
      check();
    }
  }

  std::atomic<uint32_t> word{0};
  mutable std::atomic<uint32_t> sleepers{0};
};

/// Whether the calling process still has the thread: a thread may end without
/// unwinding, and nobody is told. `id` is what gettid() gave it.
inline bool threadLives(pid_t id) {
  return syscall(SYS_tgkill, getpid(), id, 0) == 0 || errno != ESRCH;
}

} // namespace harmony::runtime

#endif // RUNTIME_HAL_FUTEX_H
