// The live allocations of this program: with them kernels are played on memory of the heap.
#pragma once

#include <vector>

#include "tests/cuda/ptx/memory.h"

namespace stringline::ptx {

// All blocks of operator new and aligned_alloc since HeapBegins that are alive, and the stack from
// a frame on.
void HeapBegins();
void StackBegins(const void* frame);
std::vector<Piece> HeapPieces();

}  // namespace stringline::ptx
