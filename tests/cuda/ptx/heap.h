// The live allocations of this program: with them kernels are played on memory of the heap.
#pragma once

#include <vector>

#include "tests/cuda/ptx/memory.h"

namespace stringline::ptx {

// From now on blocks of operator new and aligned_alloc are noted.
void HeapBegins();
// A launch may use all blocks that are alive, and the stack from a frame on. During the launch no
// blocks are noted.
void LaunchBegins(const void* frame);
void LaunchEnds();
// Empty outside of such launches.
std::vector<Piece> HeapPieces();

}  // namespace stringline::ptx
