// SPDX-License-Identifier: Apache-2.0
// A lock like Python's and calls that park it: nobody else has it meanwhile, nobody waits forever.
#include "callframe/lock_keeper.h"

#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "check.h"

using graphffi::LockKeeper;

namespace {

/// Free or taken, by nobody in particular, as the GIL.
class Baton {
 public:
  void Take() {
    std::unique_lock<std::mutex> guard(mutex_);
    freed_.wait(guard, [this] { return !is_taken_; });
    is_taken_ = true;
  }
  void Free() {
    {
      std::lock_guard<std::mutex> guard(mutex_);
      CHECK(is_taken_);
      is_taken_ = false;
    }
    freed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable freed_;
  bool is_taken_ = false;
};

Baton& baton = *new Baton;  // which the keeper's thread may use till the end
char of_keeper, of_call;    // states
void* MakeState() { return &of_keeper; }
void GiveUp(void* state) {
  CHECK(state == &of_keeper || state == &of_call);
  baton.Free();
}

LockKeeper& Keeper() {
  static auto* keeper = new LockKeeper({&MakeState, &GiveUp});
  return *keeper;
}

/// Something to be called; all of it by threads that have the lock, and have it afterwards.
class Callable {
 public:
  Callable() : place(Keeper().NewPlace()) {}
  ~Callable() { Keeper().FreePlace(place); }
  Callable(const Callable&) = delete;
  Callable& operator=(const Callable&) = delete;

  /// Whether the lock was kept throughout.
  bool Call(const std::function<void()>& kernel) {
    if (place->is_free()) {
      if (Keeper().Park(place, &of_call)) {
        kernel();
        if (Keeper().Resume(place)) return true;
        baton.Take();
        Keeper().CountLongCall(place);
        return false;
      }
      Keeper().CountRefused();
    } else if (place->num_to_give_up != 0) {
      --place->num_to_give_up;
    }
    baton.Free();
    kernel();
    baton.Take();
    return false;
  }

  /// Calls nothing until a thread watches over calls.
  void WakeKeeper() {
    while (!Call([] {})) {
    }
  }

  LockKeeper::Place* const place;
};

/// A thread that needs the lock, and says when it has had it.
std::thread TakeOnce(std::atomic<bool>* is_done) {
  return std::thread([is_done] {
    baton.Take();
    is_done->store(true);
    baton.Free();
  });
}

TEST(a_short_call_keeps_the_lock) {
  baton.Take();
  Callable callable;
  CHECK(!callable.Call([] {}));  // nobody watches yet
  CHECK_EQ(Keeper().num_parked(), uint64_t{0});
  callable.WakeKeeper();
  CHECK(Keeper().num_parked() > 0);
}

TEST(a_long_call_gives_it_up) {
  baton.Take();
  Callable callable, shorter;
  while (callable.place->num_to_give_up == 0) {  // where the thread had fallen asleep, at once
    shorter.WakeKeeper();
    std::atomic<bool> is_done{false};
    std::thread other = TakeOnce(&is_done);
    CHECK(!callable.Call([&] {
      while (!is_done.load()) std::this_thread::yield();
    }));
    other.join();
  }
  CHECK(Keeper().num_given_up() > 0);
}

TEST(short_calls_let_others_have_it) {
  baton.Take();
  Callable callable;
  callable.WakeKeeper();
  std::atomic<bool> is_done{false};
  std::thread other = TakeOnce(&is_done);
  while (!is_done.load()) callable.Call([] {});
  other.join();
}

TEST(the_same_callable_gives_it_up_at_once_then) {
  baton.Take();
  Callable shorter;
  const LockKeeper::Place* place = nullptr;
  {
    Callable callable;
    place = callable.place;
    for (uint32_t expected : {1000, 10000, 100000, 1000000, 1000000}) {
      callable.place->num_to_give_up = 0;  // as after so many calls
      do {
        shorter.WakeKeeper();
        callable.Call([] { Keeper().GiveUpMine(); });
      } while (place->num_to_give_up == 0);  // where the thread had fallen asleep
      CHECK_EQ(place->num_to_give_up, expected);
      CHECK(!place->is_free());
    }
  }
  Callable another;
  CHECK(another.place == place);
  CHECK(place->is_free());
}

TEST(a_thread_that_parked_it_can_take_it) {
  baton.Take();
  Callable callable, shorter;
  shorter.WakeKeeper();
  int depth = 0;
  std::function<void()> kernel = [&] {
    Keeper().GiveUpMine();
    Keeper().GiveUpMine();  // not its own any more
    baton.Take();
    if (++depth < 3) callable.Call(kernel);
    shorter.Call([] {});
    baton.Free();
  };
  callable.Call(kernel);
  CHECK_EQ(depth, 3);
}

TEST(another_threads_lock_is_not_given_up) {
  baton.Take();
  Callable callable;
  bool is_kept = false;
  while (!is_kept) {  // the keeper's thread may think it long
    callable.place->num_to_give_up = 0;
    is_kept = callable.Call([] { std::thread([] { Keeper().GiveUpMine(); }).join(); });
  }
}

/// What only who has the lock may write: the thread sanitizer watches.
int64_t count = 0;

TEST(threads_never_have_it_together) {
  constexpr int kThreads = 4, kCalls = 20000;
  std::vector<std::thread> threads;
  baton.Take();
  Callable callables[kThreads];
  baton.Free();
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kCalls; ++i) {
        baton.Take();
        // Of the same callable as another thread, or its own.
        Callable& callable = callables[i % 2 == 0 ? 0 : t];
        callable.place->num_to_give_up = 0;
        for (int k = 0; k < 8; ++k) {
          callable.Call([&] {
            if ((i + t) % 64 == 0) std::this_thread::yield();
            if ((i + t) % 512 == 0) Keeper().GiveUpMine();
          });
          ++count;
        }
        baton.Free();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(count, int64_t{kThreads} * kCalls * 8);
  baton.Take();
}

TEST(a_closed_keeper_parks_nothing) {
  baton.Take();
  Callable callable;
  callable.WakeKeeper();
  Keeper().Close();
  for (int i = 0; i < 1000; ++i) CHECK(!callable.Call([] {}));
}

TEST(a_child_process_has_a_thread_of_its_own) {
  baton.Take();
  Callable callable, shorter;
  shorter.WakeKeeper();
  pid_t child = -1;
  callable.Call([&] {
    child = fork();
    if (child != 0) return;
    baton.Take();  // given up before
    baton.Free();
  });
  if (child == 0) {
#ifndef __SANITIZE_THREAD__  // which has no threads in a child of many
    shorter.WakeKeeper();
#endif
    _exit(7);
  }
  int status = 0;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status));
  CHECK_EQ(WEXITSTATUS(status), 7);
  shorter.WakeKeeper();
}

}  // namespace
