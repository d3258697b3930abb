// SPDX-License-Identifier: Apache-2.0
#include "callframe/lock_keeper.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <new>
#include <thread>

namespace graphffi {
namespace {

using Clock = std::chrono::steady_clock;

/// How often the thread looks whether a call is under way: as often as Python has threads that want
/// its lock wait for others.
constexpr std::chrono::milliseconds kTick(5);
/// After this a call is a long one. The first span is waited for without sleeping: mostly the call
/// is over before.
constexpr std::chrono::microseconds kInstant(2), kShort(5);
/// The thread falls asleep where there are fewer calls than these in so many ticks.
constexpr uint32_t kFewCalls = 1000, kTicks = 20;
/// After a long call, so many of the same callable give the lock up at once: they are long
/// themselves, probably. More and more where that proves right.
constexpr uint32_t kLeastBackOff = 1000, kMostBackOff = 1000000, kBackOffGrowth = 10;

LockKeeper* opt_of_process = nullptr;

bool Membarrier(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }

/// A full barrier in every thread of the process. Should the system have come to refuse it, a time
/// in which any processor has written its stores.
void OrderKeeper() {
  if (!Membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) std::this_thread::sleep_for(2 * kTick);
}

/// Signals are for threads of the program: a thread that starts in this scope gets none.
class WithoutSignals {
 public:
  WithoutSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~WithoutSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  WithoutSignals(const WithoutSignals&) = delete;
  WithoutSignals& operator=(const WithoutSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

bool LockKeeper::IsPossible() {
  return opt_of_process == nullptr && Membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

LockKeeper::LockKeeper(const Lock& lock) : lock_(lock) {
  is_closed_ = !IsPossible() || pthread_atfork(&BeforeFork, nullptr, &AfterForkInChild) != 0;
  opt_of_process = this;
}

LockKeeper::Place* LockKeeper::NewPlace() {
  Place* place = opt_free_;
  if (place == nullptr) return new Place;
  opt_free_ = place->opt_next;
  return place;
}

/// The memory stays: the thread may look at it any time.
void LockKeeper::FreePlace(Place* place) {
  place->num_to_give_up = place->back_off = 0;
  place->last_long = 0;
  place->opt_next = opt_free_;
  opt_free_ = place;
}

/// For Park(), whose result it gives.
bool LockKeeper::Unpark(Place* place) {
  place->is_parked.store(false, std::memory_order_release);
  OrderWithKeeper();
  if (place->is_wanted.load(std::memory_order_relaxed)) {
    std::lock_guard<std::mutex> guard(mutex_);
    // The thread, about to fall asleep, was quicker: the place stays taken till Resume().
    if (place->is_given_up) return true;
    place->is_wanted.store(false);
  }
  num_parked_.store(num_parked() - 1, std::memory_order_relaxed);
  Mode due = kAwakeAndDue;
  mode_.compare_exchange_strong(due, kAwake);
  return false;
}

void LockKeeper::CountLongCall(Place* place) {
  const bool is_usual = num_parked() - place->last_long < kLeastBackOff;
  place->back_off = is_usual
                        ? std::clamp(place->back_off * kBackOffGrowth, kLeastBackOff, kMostBackOff)
                        : kLeastBackOff;
  place->num_to_give_up = place->back_off;
  place->last_long = num_parked();
}

/// From here on, the place is another call's.
bool LockKeeper::ResumeWanted(Place* place) {
  std::lock_guard<std::mutex> guard(mutex_);
  const bool is_given_up = place->is_given_up;
  place->is_given_up = false;
  place->is_wanted.store(false);
  return !is_given_up;
}

/// Unless the call has resumed. One that is about to waits for the mutex.
void LockKeeper::GiveUp(Place* place, void* state) {
  std::lock_guard<std::mutex> guard(mutex_);
  if (is_closed_) return;  // a call that is about to find that it can't park
  place->is_wanted.store(true);
  OrderKeeper();  // from here on, a call that resumes finds the word above
  if (place->is_parked.load(std::memory_order_acquire)) {
    place->is_given_up = true;
    place->is_parked.store(false);
    num_given_up_.fetch_add(1, std::memory_order_relaxed);
    lock_.give_up(state);
  } else if (!place->is_given_up) {
    place->is_wanted.store(false);
  }
}

void LockKeeper::GiveUpMine() {
  Place* place = latest_.load(std::memory_order_acquire);
  // Another thread's place may be this one's of before: its thread was written before the flag.
  if (place == nullptr || !place->is_parked.load(std::memory_order_acquire)) return;
  if (place->thread.load(std::memory_order_relaxed) != ThisThread()) return;
  GiveUp(place, place->state.load(std::memory_order_relaxed));
}

void LockKeeper::Close() {
  std::lock_guard<std::mutex> guard(mutex_);
  is_closed_ = true;
  mode_.store(kAsleep);
}

void LockKeeper::Wake() {
  num_refused_ = 0;
  std::lock_guard<std::mutex> guard(mutex_);
  if (is_closed_ || mode_.load() != kAsleep) return;
  if (opt_state_ == nullptr) {
    opt_state_ = lock_.make_state();
    is_closed_ = opt_state_ != nullptr && !StartThread();
    return;
  }
  wakes_.fetch_add(1);
  syscall(SYS_futex, &wakes_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

bool LockKeeper::StartThread() {
  const WithoutSignals scope;
  try {
    std::thread([this] { Watch(); }).detach();
    return true;
  } catch (const std::exception&) {  // no thread is to be had, or no memory
    return false;
  }
}

void LockKeeper::Watch() {
  pthread_setname_np(pthread_self(), "graphffi-lock");
  prctl(PR_SET_TIMERSLACK, 1);  // ns
  uint32_t wakes = 0;
  while (SetAwake()) {
    uint64_t before = 0;
    do {
      before = num_parked();
      for (uint32_t tick = 0; tick < kTicks; ++tick) GiveUpLongCall();
    } while (num_parked() - before >= kFewCalls || !FallAsleep());
    syscall(SYS_futex, &wakes_, FUTEX_WAIT_PRIVATE, wakes, nullptr, nullptr, 0);
    wakes = wakes_.load();
  }
}

bool LockKeeper::SetAwake() {
  std::lock_guard<std::mutex> guard(mutex_);
  mode_.store(is_closed_ ? kAsleep : kAwake);
  return !is_closed_;
}

void LockKeeper::GiveUpLongCall() {
  std::this_thread::sleep_for(kTick);
  Mode awake = kAwake;
  mode_.compare_exchange_strong(awake, kAwakeAndDue);
  Place* place = latest_.load(std::memory_order_acquire);
  const uint64_t call = num_parked();
  const auto goes_on = [&] {
    return place->is_parked.load(std::memory_order_acquire) && num_parked() == call;
  };
  if (place == nullptr) return;
  for (const auto end = Clock::now() + kInstant; Clock::now() < end;) {
    if (!goes_on()) return;
  }
  std::this_thread::sleep_for(kShort);
  if (goes_on()) GiveUp(place, opt_state_);
}

/// Unless a call is under way that counts on this thread.
bool LockKeeper::FallAsleep() {
  mode_.store(kAsleep);
  OrderKeeper();  // from here on, who parks finds the word above
  const Place* place = latest_.load(std::memory_order_acquire);
  return place == nullptr || !place->is_parked.load(std::memory_order_acquire) || !SetAwake();
}

/// The child has no thread that would give the lock of this call up, nor finish doing so.
void LockKeeper::BeforeFork() {
  opt_of_process->GiveUpMine();
  std::lock_guard<std::mutex> finished(opt_of_process->mutex_);
}

/// Where the thread is missing, which may have held the mutex again.
void LockKeeper::AfterForkInChild() {
  LockKeeper& keeper = *opt_of_process;
  new (&keeper.mutex_) std::mutex;
  keeper.mode_.store(kAsleep);
  keeper.opt_state_ = nullptr;
  keeper.latest_.store(nullptr);
}

}  // namespace graphffi
