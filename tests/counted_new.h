// Counts the `operator new` of a binary. One file of it includes this, and says what is counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace stringline {

// Says whether an allocation that happens now counts. The file that includes this defines it.
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

// All forms of a kind together: memory that one of them gave may be taken back by another. Where
// only one of a pair is inlined, the compiler takes them for no pair.
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
