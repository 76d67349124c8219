// Replaces operator new, and by the linker's --wrap aligned_alloc and free: every block is noted in
// a map, whose own memory is not.
#include "tests/cuda/ptx/heap.h"

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <new>

namespace stringline::ptx {
namespace {

// The linker's names for the functions that it wraps.
extern "C" void* __real_aligned_alloc(size_t alignment, size_t bytes);
extern "C" void __real_free(void* memory);

template <typename T>
struct Unnoted {
  using value_type = T;
  Unnoted() = default;
  template <typename U>
  Unnoted(const Unnoted<U>&) {}  // NOLINT: allocators convert
  T* allocate(size_t count) { return static_cast<T*>(std::malloc(count * sizeof(T))); }
  void deallocate(T* memory, size_t) { __real_free(memory); }
  bool operator==(const Unnoted&) const { return true; }
};

struct Heap {
  std::mutex mutex;
  std::map<uint64_t, uint64_t, std::less<>, Unnoted<std::pair<const uint64_t, uint64_t>>> blocks;
  const void* stack_begin = nullptr;
};

bool notes = false;

// Never destroyed: memory is given back until the very end.
Heap& TheHeap() {
  static Heap* const heap = new (std::malloc(sizeof(Heap))) Heap;
  return *heap;
}

void* Take(size_t bytes, size_t alignment) {
  alignment = std::max(alignment, alignof(std::max_align_t));
  const size_t rounded = (std::max<size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  void* const memory = __real_aligned_alloc(alignment, rounded);
  if (notes && memory != nullptr) {
    const std::lock_guard<std::mutex> lock(TheHeap().mutex);
    TheHeap().blocks[reinterpret_cast<uint64_t>(memory)] = bytes;
  }
  return memory;
}

void* New(size_t bytes, size_t alignment) {
  void* const memory = Take(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void GiveBack(void* memory) {
  if (notes) {
    const std::lock_guard<std::mutex> lock(TheHeap().mutex);
    TheHeap().blocks.erase(reinterpret_cast<uint64_t>(memory));
  }
  __real_free(memory);
}

// The end of this thread's stack.
uint64_t EndOfStack() {
  pthread_attr_t attributes;
  void* begin = nullptr;
  size_t bytes = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  pthread_attr_getstack(&attributes, &begin, &bytes);
  pthread_attr_destroy(&attributes);
  return reinterpret_cast<uint64_t>(begin) + bytes;
}

}  // namespace

extern "C" void* __wrap_aligned_alloc(size_t alignment, size_t bytes) {
  return Take(bytes, alignment);
}
extern "C" void __wrap_free(void* memory) { GiveBack(memory); }

void HeapBegins() {
  (void)TheHeap();
  notes = true;
}

void LaunchBegins(const void* frame) {
  TheHeap().stack_begin = frame;
  notes = false;
}
void LaunchEnds() {
  TheHeap().stack_begin = nullptr;
  notes = true;
}

std::vector<Piece> HeapPieces() {
  std::vector<Piece> pieces;
  const void* const frame = TheHeap().stack_begin;
  if (frame == nullptr) return pieces;
  const auto add = [&](uint64_t begin, uint64_t end) {
    if (begin < end) pieces.push_back({begin, end, true, false, 0, 0, nullptr});
  };
  pieces.reserve(TheHeap().blocks.size() + 1);
  for (const auto& [begin, bytes] : TheHeap().blocks) add(begin, begin + bytes);
  static const uint64_t end = EndOfStack();
  add(reinterpret_cast<uint64_t>(frame), end);
  return pieces;
}

}  // namespace stringline::ptx

using stringline::ptx::GiveBack;
using stringline::ptx::New;

void* operator new(size_t bytes) { return New(bytes, 1); }
void* operator new[](size_t bytes) { return New(bytes, 1); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return New(bytes, static_cast<size_t>(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return New(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { GiveBack(memory); }
void operator delete[](void* memory) noexcept { GiveBack(memory); }
void operator delete(void* memory, size_t) noexcept { GiveBack(memory); }
void operator delete[](void* memory, size_t) noexcept { GiveBack(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { GiveBack(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { GiveBack(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { GiveBack(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { GiveBack(memory); }
