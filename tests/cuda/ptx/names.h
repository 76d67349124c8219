// Names in a kernel's text: registers by scope, constants, special registers, variables and the
// parameters of calls, each as the cell or the address that it has in the decoded program.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tests/cuda/ptx/module.h"
#include "tests/cuda/ptx/program.h"

namespace stringline::ptx {

// The error of anything that the interpreter does not know.
absl::Status NotKnown(absl::string_view what);

struct Cell {
  uint32_t at = 0;
  uint8_t bytes = 0;
};

// A parameter of a call: the cells at its offsets.
using ParamCells = std::map<int64_t, Cell>;

// The cells of a program.
class Cells {
 public:
  explicit Cells(Program* program) : program_(*program) {}

  Cell New(int bytes);
  // A result that nobody reads.
  Cell Scratch(int bytes);
  Cell Constant(int bytes, uint64_t bits);
  Cell Special(const std::string& name);
  Cell Carry();

 private:
  Program& program_;
  uint32_t used_ = 0;
  std::map<int, Cell> scratch_;
  std::map<std::pair<int, uint64_t>, Cell> constants_;
  std::map<std::string, Cell> specials_;
  Cell carry_;
};

class Names {
 public:
  // Places the kernel's parameters and shared memory.
  Names(Program* program, const std::map<std::string, uint64_t>& variables)
      : program_(*program), cells_(program), symbols_(variables) {}
  absl::Status Place(const Module& module, const Function& entry);

  using Params = std::map<std::string, std::shared_ptr<ParamCells>>;
  void OpenScope(Params params = {}) { scopes_.push_back({{}, {}, std::move(params)}); }
  void CloseScope() { scopes_.pop_back(); }
  // ".reg .b32 %r<9>", or a variable.
  absl::Status Declare(absl::string_view directive);

  // A register, a constant or an address, as a cell of so many bytes; 0: the register's own.
  absl::StatusOr<Cell> CellOf(const std::string& atom, int bytes);
  // A parameter of a call in any scope around; null: none of that name.
  std::shared_ptr<ParamCells> ParamOf(const std::string& name) const;
  Cells& cells() { return cells_; }

 private:
  struct Scope {
    std::map<std::string, Cell> registers;                // as they are used
    std::map<std::string, std::pair<int, int>> declared;  // by name or prefix: bytes, how many
    Params params;
  };

  absl::Status DeclareRegisters(absl::string_view text);
  absl::StatusOr<Cell> RegisterOf(const std::string& name);
  absl::StatusOr<uint64_t> AddressOf(const std::string& name) const;

  Program& program_;
  Cells cells_;
  std::map<std::string, uint64_t> symbols_;
  std::vector<Scope> scopes_;
};

}  // namespace stringline::ptx
