// PTX text, taken apart into functions and their statements, and variables. Nothing is decoded yet:
// a statement is its text.
//
// The language: "PTX ISA" by NVIDIA. Only the form that nvcc writes is read, and a directive that
// this does not know is an error by name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stringline::ptx {

struct Statement {
  enum class Kind { kInstruction, kDirective, kLabel, kOpen, kClose };
  Kind kind;
  std::string text;  // without the semicolon; of a label, its name
  int line;
};

// A variable of `bytes`; 0 for the array whose size the launch says.
struct Variable {
  enum class Space { kGlobal, kShared, kLocal, kParam };
  Space space;
  std::string name;
  int64_t bytes = 0;
  int64_t alignment = 1;
  std::vector<uint8_t> values;  // of kGlobal; empty: zeros
};

struct Function {
  std::string name;
  bool is_entry = false;
  std::vector<Variable> results, params;
  std::vector<Statement> body;
};

struct Module {
  std::vector<Function> functions;
  std::vector<Variable> variables;
};

absl::StatusOr<Module> ParseModule(absl::string_view text);

// ".align 8 .b8 name[88]", after the space's directive.
absl::StatusOr<Variable> ParseVariable(absl::string_view text, Variable::Space space);
// The bytes of a type, "f32" or "pred"; 0: no type.
int BytesOfType(absl::string_view type);

}  // namespace stringline::ptx
