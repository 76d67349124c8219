// Counts the `operator new` of a binary. A single source file includes this header, and defines
// IsCounted.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace stringline {

// True if an allocation at this moment counts. The including file defines this function.
bool IsCounted();

inline std::atomic<int64_t> allocations = 0;

inline void* TakenCounted(std::size_t bytes) {
  allocations += IsCounted() ? 1 : 0;
  return std::malloc(bytes == 0 ? 1 : bytes);
}

inline void* TakenOrThrown(std::size_t bytes) {
  void* const memory = TakenCounted(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace stringline

// All forms together: memory from one form of `new` may be freed by another form of `delete`. Not
// inlined, since the compiler warns of a mismatch when it inlines only one of a pair.
[[gnu::noinline]] void* operator new(std::size_t bytes) { return stringline::TakenOrThrown(bytes); }
[[gnu::noinline]] void* operator new[](std::size_t bytes) {
  return stringline::TakenOrThrown(bytes);
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return stringline::TakenCounted(bytes);
}
[[gnu::noinline]] void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return stringline::TakenCounted(bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
