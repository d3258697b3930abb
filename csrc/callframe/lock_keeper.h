// SPDX-License-Identifier: Apache-2.0
// Python's lock during calls: kept for short ones, given up for others. Knows no Python.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace graphffi {

/// To give a lock up and take it back costs more than a short call. A call *parks* it here instead:
/// then it is nobody's, and not free either. A call that ends soon resumes with it. For one that
/// does not, a thread of the keeper gives it up: so a call may wait for others that need the lock,
/// or need it itself, as if it had been given up at once.
class LockKeeper {
 public:
  /// What there is to know of the lock.
  struct Lock {
    /// What the keeper's thread gives the lock up with, kept for good; NULL where it can't have
    /// one. Called with the lock held.
    void* (*make_state)();
    /// Frees the lock that a call has parked: with that call's state in its thread, or with the
    /// keeper's in the keeper's.
    void (*give_up)(void* state);
  };

  /// Where the calls of one callable park the lock, one at a time. What is not atomic is guarded by
  /// the lock, unless it says otherwise.
  struct Place {
    bool is_free() const {
      return num_to_give_up == 0 && !is_wanted.load(std::memory_order_relaxed);
    }

    uint32_t num_to_give_up = 0;  // calls, at once
    std::atomic<bool> is_parked{false};
    std::atomic<bool> is_wanted{false};  // to be given up; or it has been, and the call goes on
    bool is_given_up = false;            // guarded by the keeper's mutex
    std::atomic<void*> thread{nullptr};
    std::atomic<void*> state{nullptr};
    uint32_t back_off = 0;   // what num_to_give_up last began with
    uint64_t last_long = 0;  // num_parked() at the last long call
    Place* opt_next = nullptr;
  };

  /// Whether this system lets one work.
  static bool IsPossible();

  /// One for the process, as long as that lives: a thread may be at work in it till the end.
  explicit LockKeeper(const Lock& lock);
  LockKeeper(const LockKeeper&) = delete;
  LockKeeper& operator=(const LockKeeper&) = delete;

  /// One of a callable, until that gives it back. For threads that hold the lock, as those below.
  Place* NewPlace();
  void FreePlace(Place* place);

  /// Parks the lock at a free place, with the state of this thread: the thread must not use it till
  /// Resume(). False, and the lock is not parked, where no thread watches over long calls (see
  /// CountRefused()), and at times for the sake of others that wait for the lock.
  bool Park(Place* place, void* state) {
    place->thread.store(ThisThread(), std::memory_order_relaxed);
    place->state.store(state, std::memory_order_relaxed);
    latest_.store(place, std::memory_order_release);
    num_parked_.store(num_parked_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    // Last: from here on, the lock may be given up, and what it guards is another thread's.
    place->is_parked.store(true, std::memory_order_release);
    OrderWithKeeper();
    return __builtin_expect(mode_.load(std::memory_order_relaxed) == kAwake, 1) || Unpark(place);
  }

  /// Whether the thread that parked the lock has it again; else it has been given up.
  bool Resume(Place* place) {
    place->is_parked.store(false, std::memory_order_release);
    OrderWithKeeper();
    return __builtin_expect(!place->is_wanted.load(std::memory_order_relaxed), 1) ||
           ResumeWanted(place);
  }

  /// After a call that could not park the lock, which the thread holds: after some, there is a
  /// thread that watches.
  void CountRefused() {
    if (++num_refused_ >= kMostRefused) Wake();
  }

  /// After a call that did not resume with it. For a thread that holds the lock.
  void CountLongCall(Place* place);

  /// Before a thread takes the lock: gives it up if a call of this thread has parked it.
  void GiveUpMine();

  /// Parks no more. For a thread that holds the lock.
  void Close();

  /// How many calls have parked the lock, and for how many of these it was given up.
  uint64_t num_parked() const { return num_parked_.load(std::memory_order_relaxed); }
  uint64_t num_given_up() const { return num_given_up_.load(std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kMostRefused = 64;

  /// A barrier for the compiler. The processor's is in the keeper's thread, which has one on behalf
  /// of all threads: what a thread wrote before comes before what it reads after.
  static void OrderWithKeeper() { std::atomic_signal_fence(std::memory_order_seq_cst); }

  /// Another value for each thread that runs.
  static void* ThisThread() {
#if __has_builtin(__builtin_thread_pointer)
    return __builtin_thread_pointer();
#else
    return reinterpret_cast<void*>(pthread_self());
#endif
  }

  bool Unpark(Place* place);
  bool ResumeWanted(Place* place);
  void GiveUp(Place* place, void* state);
  void Wake();
  bool StartThread();
  void Watch();
  bool SetAwake();
  void GiveUpLongCall();
  bool FallAsleep();
  static void BeforeFork();
  static void AfterForkInChild();

  // Guarded by the lock.
  Place* opt_free_ = nullptr;
  uint32_t num_refused_ = 0;  // calls, since the thread was woken

  std::atomic<Place*> latest_{nullptr};
  std::atomic<uint64_t> num_parked_{0}, num_given_up_{0};
  /// Of the thread. Once a tick, a call has to give the lock up: a loop in C of calls that are all
  /// short would never let it go.
  enum Mode { kAsleep, kAwake, kAwakeAndDue };
  std::atomic<Mode> mode_{kAsleep};

  const Lock lock_;
  std::atomic<uint32_t> wakes_{0};  // what the sleeping thread waits on
  /// Nobody waits for the lock with it but in Lock::give_up, where Python lets those go first who
  /// wait for the lock already.
  std::mutex mutex_;
  // Guarded by the mutex.
  bool is_closed_ = false;
  void* opt_state_ = nullptr;  // of the thread, once there is one
};

}  // namespace graphffi
