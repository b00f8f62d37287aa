// A resumable piece of work as a C++20 coroutine: protocols are written as straight-line code that suspends
// where it waits for the link.
#pragma once

#include <coroutine>
#include <exception>
#include <utility>

namespace thinwire {

/// Owns a suspended coroutine; destroying it drops the work where it stands. A task may await another one.
class Task {
 public:
  struct promise_type {
    std::coroutine_handle<> continuation = std::noop_coroutine();
    std::exception_ptr failure;

    Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    struct Final {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> h) noexcept {
        return h.promise().continuation;
      }
      void await_resume() noexcept {}
    };
    Final final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { failure = std::current_exception(); }
  };

  Task() = default;
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  std::coroutine_handle<> handle() const { return handle_; }
  bool done() const { return handle_.done(); }
  void rethrow() const {
    if (handle_.promise().failure) std::rethrow_exception(handle_.promise().failure);
  }

  /// Awaiting a task runs it to its end, suspending the awaiting one with it.
  auto operator co_await() const noexcept {
    struct Awaiter {
      std::coroutine_handle<promise_type> handle;
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> outer) noexcept {
        handle.promise().continuation = outer;
        return handle;
      }
      void await_resume() {
        if (handle.promise().failure) std::rethrow_exception(handle.promise().failure);
      }
    };
    return Awaiter{handle_};
  }

 private:
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

}  // namespace thinwire
