// The compiled kernels of a program, decoded when they are first asked for, and their launches,
// played block after block.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tests/cuda/ptx/block.h"
#include "tests/cuda/ptx/memory.h"
#include "tests/cuda/ptx/module.h"
#include "tests/cuda/ptx/program.h"

namespace stringline::ptx {

class Library {
 public:
  // PTX text, one for each source.
  static absl::StatusOr<std::unique_ptr<Library>> Make(absl::Span<const std::string> texts);
  // Files, as nvcc writes them.
  static absl::StatusOr<std::unique_ptr<Library>> Load(absl::Span<const std::string> files);

  // Mangled.
  std::vector<std::string> names() const;
  // NotFoundError: no such kernel.
  absl::StatusOr<const Program*> Find(const std::string& name);
  // The memory of variables, which kernels only read.
  const std::vector<Piece>& constants() const { return constants_; }

 private:
  struct Entry {
    const Module* module = nullptr;
    const Function* function = nullptr;
    std::unique_ptr<Program> program;
  };
  std::deque<Module> modules_;
  std::map<const Module*, std::map<std::string, uint64_t>> variables_;
  std::map<std::string, Entry> entries_;
  std::deque<std::vector<uint64_t>> memory_;
  std::vector<Piece> constants_;
};

struct LaunchSize {
  Size3 grid, block;
  int64_t dynamic_shared = 0;
};

// A launch may use its allocations, and of them, if anything is declared, only that.
struct LaunchMemory {
  std::vector<Piece> allocations, declared;
};

struct Played {
  std::string fault;  // empty: none
  int64_t ns = 0;     // that the kernel slept
  int64_t instructions = 0;
};

class Player {
 public:
  explicit Player(Library* library) : library_(*library) {}

  // args[i] points to the i-th parameter. `saved`: see Memory.
  Played Play(const Program& program, const LaunchSize& size, void* const* args,
              const LaunchMemory& allowed, std::vector<Saved>* saved = nullptr);
  // Leaves out a barrier of a kernel in all launches from now on: a step of the program; -1: none.
  void LeaveOut(const Program* program, int32_t step) {
    changed_ = program;
    without_ = step;
  }
  static constexpr int64_t kMostInstructions = int64_t{1} << 36;
  void LimitInstructions(int64_t most) { most_instructions_ = most; }

 private:
  Library& library_;
  KeptTraces traces_;
  Interval interval_;
  const Program* changed_ = nullptr;
  int32_t without_ = -1;
  int64_t most_instructions_ = kMostInstructions;
};

}  // namespace stringline::ptx
