// Statement after statement becomes a Step. A call becomes the body of its function, decoded anew
// with cells of its own: a parameter of the call is a cell for each offset at which it is stored,
// and a return is a branch to the end.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "schedlang/base/status.h"
#include "tests/cuda/ptx/names.h"
#include "tests/cuda/ptx/operations.h"
#include "tests/cuda/ptx/program.h"

namespace stringline::ptx {
namespace {

// An operand as written: its atoms, "%r1" or "8"; of an address, one atom and its offset.
struct Operand {
  std::vector<std::string> atoms;
  bool is_list = false, is_address = false;
  int64_t offset = 0;
};

absl::StatusOr<Operand> ParseOperand(absl::string_view text) {
  Operand operand;
  text = absl::StripAsciiWhitespace(text);
  if (absl::ConsumePrefix(&text, "[")) {
    operand.is_address = true;
    text = absl::StripSuffix(text, "]");
    const size_t plus = text.find('+');
    if (plus != text.npos && !absl::SimpleAtoi(text.substr(plus + 1), &operand.offset)) {
      return NotKnown(absl::StrCat("address ", text));
    }
    operand.atoms.emplace_back(absl::StripAsciiWhitespace(text.substr(0, plus)));
    return operand;
  }
  operand.is_list = absl::ConsumePrefix(&text, "{");
  text = absl::StripSuffix(text, "}");
  for (const absl::string_view atom : absl::StrSplit(text, operand.is_list ? ',' : '|')) {
    operand.atoms.emplace_back(absl::StripAsciiWhitespace(atom));
  }
  return operand;
}

// At commas outside of braces and parentheses.
absl::StatusOr<std::vector<Operand>> ParseOperands(absl::string_view text) {
  std::vector<Operand> operands;
  int depth = 0;
  size_t begin = 0;
  if (absl::StripAsciiWhitespace(text).empty()) return operands;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (c != ',' || depth > 0) continue;
    SL_ASSIGN_OR_RETURN(operands.emplace_back(), ParseOperand(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  return operands;
}

class Decoder {
 public:
  Decoder(const Module& module, const std::map<std::string, uint64_t>& variables, Program* program)
      : module_(module), program_(*program), names_(program, variables) {}

  absl::Status Run(const Function& entry) {
    SL_RETURN_IF_ERROR(names_.Place(module_, entry));
    return AddFunction(entry, {});
  }

 private:
  // The labels of one copy of a function, and the branches to them; "" is its end.
  struct Labels {
    std::map<std::string, int32_t> at;
    std::vector<std::pair<size_t, std::string>> branches;
    bool is_entry = false;
  };

  absl::Status AddFunction(const Function& function, Names::Params params) {
    if (++depth_ > 8) return absl::UnimplementedError("calls that are nested deeply");
    names_.OpenScope(std::move(params));
    Labels labels;
    labels.is_entry = function.is_entry;
    for (const Statement& statement : function.body) {
      const absl::Status status = Add(statement, &labels);
      if (!status.ok()) {
        return absl::Status(status.code(), absl::StrCat(status.message(), " in `", statement.text,
                                                        "`, PTX line ", statement.line));
      }
    }
    labels.at[""] = static_cast<int32_t>(program_.steps.size());
    for (const auto& [step, label] : labels.branches) {
      const auto found = labels.at.find(label);
      if (found == labels.at.end()) return NotKnown(absl::StrCat("label ", label));
      program_.steps[step].target = found->second;
    }
    names_.CloseScope();
    --depth_;
    return absl::OkStatus();
  }

  absl::Status Add(const Statement& statement, Labels* labels) {
    switch (statement.kind) {
      case Statement::Kind::kOpen:
        names_.OpenScope();
        return absl::OkStatus();
      case Statement::Kind::kClose:
        names_.CloseScope();
        return absl::OkStatus();
      case Statement::Kind::kLabel:
        labels->at[statement.text] = static_cast<int32_t>(program_.steps.size());
        return absl::OkStatus();
      case Statement::Kind::kDirective:
        return names_.Declare(statement.text);
      case Statement::Kind::kInstruction:
        break;
    }
    program_.statements.push_back(statement);
    absl::string_view text = statement.text;
    const size_t first = program_.steps.size();
    int32_t guard = -1;
    bool guard_is = true;
    if (absl::ConsumePrefix(&text, "@")) {
      guard_is = !absl::ConsumePrefix(&text, "!");
      const size_t end = text.find(' ');
      SL_ASSIGN_OR_RETURN(const Cell cell, names_.CellOf(std::string(text.substr(0, end)), 1));
      guard = static_cast<int32_t>(cell.at);
      text = absl::StripLeadingAsciiWhitespace(text.substr(end));
    }
    const size_t end = std::min(text.find(' '), text.size());
    SL_RETURN_IF_ERROR(AddInstruction(text.substr(0, end), text.substr(end), labels));
    for (size_t i = first; i < program_.steps.size(); ++i) {
      Step& step = program_.steps[i];
      if (guard >= 0 && program_.steps.size() > first + 1) return NotKnown("a guarded call");
      step.guard = guard;
      step.guard_is = guard_is;
      if (step.text == 0) step.text = static_cast<int32_t>(program_.statements.size()) - 1;
    }
    return absl::OkStatus();
  }

  Step& NewStep(Kind kind) {
    program_.steps.emplace_back().kind = kind;
    return program_.steps.back();
  }

  absl::Status AddInstruction(absl::string_view name, absl::string_view rest, Labels* labels) {
    if (name == "call.uni" || name == "call") return AddCall(rest);
    SL_ASSIGN_OR_RETURN(const std::vector<Operand> operands, ParseOperands(rest));
    const std::vector<std::string> words = absl::StrSplit(name, '.');
    if (words[0] == "ld" || words[0] == "st") return AddAccess(words, operands);
    if (words[0] == "cp" && words.size() > 1 && words[1] == "async") {
      return AddCopy(name, operands);
    }
    if (words[0] == "ldmatrix") return AddMatrices(name, operands);
    if (name == "bra" || name == "bra.uni") {
      labels->branches.emplace_back(program_.steps.size(), operands[0].atoms[0]);
      NewStep(Kind::kBranch);
      return absl::OkStatus();
    }
    if (name == "ret") {
      if (!labels->is_entry) labels->branches.emplace_back(program_.steps.size(), "");
      NewStep(labels->is_entry ? Kind::kExit : Kind::kBranch);
      return absl::OkStatus();
    }
    if (name == "bar.sync" || name == "barrier.sync") {
      if (operands.size() != 1 || operands[0].atoms[0] != "0") return NotKnown("this barrier");
      NewStep(Kind::kBarrier);
      return absl::OkStatus();
    }
    if (name == "bar.warp.sync") {
      SL_ASSIGN_OR_RETURN(const Cell mask, names_.CellOf(operands[0].atoms[0], 4));
      NewStep(Kind::kWarpBarrier).number = static_cast<int32_t>(mask.at);
      return absl::OkStatus();
    }
    if (name == "nanosleep.u32") {
      SL_ASSIGN_OR_RETURN(const Cell ns, names_.CellOf(operands[0].atoms[0], 4));
      NewStep(Kind::kSleep).at[0] = ns.at;
      return absl::OkStatus();
    }
    if (absl::StartsWith(name, "mov.") && operands.back().atoms[0] == "%globaltimer") {
      SL_ASSIGN_OR_RETURN(const Cell to, names_.CellOf(operands[0].atoms[0], 8));
      NewStep(Kind::kTime).at[0] = to.at;
      return absl::OkStatus();
    }
    return AddOperation(name, operands);
  }

  absl::StatusOr<Cell> LowHalfOf(const std::string& atom) {
    if (atom[0] != '%') return names_.CellOf(atom, 4);
    SL_ASSIGN_OR_RETURN(const Cell cell, names_.CellOf(atom, 0));
    if (cell.bytes != 8) return names_.CellOf(atom, 4);
    const Cell half = names_.cells().New(4);
    Step& step = NewStep(Kind::kEach);
    step.apply = FindOperation("cvt.u32.u64")->apply;
    step.at[0] = half.at;
    step.at[1] = cell.at;
    return half;
  }

  absl::Status AddOperation(absl::string_view name, const std::vector<Operand>& operands) {
    std::string full(name);
    const bool lists = std::any_of(operands.begin(), operands.end(),
                                   [](const Operand& operand) { return operand.is_list; });
    if (lists) {
      absl::StrAppend(&full, ":", operands[0].atoms.size(), "=",
                      absl::StrJoin(operands.begin() + 1, operands.end(), ",",
                                    [](std::string* out, const Operand& operand) {
                                      absl::StrAppend(out, operand.atoms.size());
                                    }));
    }
    const Operation* const row = FindOperation(full);
    if (row == nullptr) return NotKnown(absl::StrCat("instruction ", full));
    std::vector<std::string> atoms;
    for (const Operand& operand : operands) {
      atoms.insert(atoms.end(), operand.atoms.begin(), operand.atoms.end());
    }
    // A shuffle's predicate may be missing.
    if (atoms.size() + 1 == row->bytes.size() && row->bytes[1] == 1) {
      atoms.insert(atoms.begin() + 1, "_");
    }
    if (atoms.size() != row->bytes.size()) return NotKnown("this number of operands");
    Step step;
    step.kind = row->kind;
    step.apply = row->apply;
    for (size_t i = 0; i < atoms.size(); ++i) {
      // Conversions may read the low half of a register.
      const bool may_be_wide = i > 0 && absl::StartsWith(name, "cvt.") && row->bytes[i] == 4;
      SL_ASSIGN_OR_RETURN(
          Cell cell, may_be_wide ? LowHalfOf(atoms[i]) : names_.CellOf(atoms[i], row->bytes[i]));
      step.at[i] = cell.at;
    }
    step.number = row->mask < 0 ? -1 : static_cast<int32_t>(step.at[row->mask]);
    if (row->carries) step.at[atoms.size()] = names_.cells().Carry().at;
    program_.steps.push_back(step);
    return absl::OkStatus();
  }

  // The address of [base + offset] as cell and offset.
  absl::Status SetAddress(const Operand& operand, Step* step) {
    const std::string& base = operand.atoms[0];
    SL_ASSIGN_OR_RETURN(const Cell cell, names_.CellOf(base, base[0] == '%' ? 0 : 8));
    step->address = cell.at;
    step->address_bytes = cell.bytes;
    step->offset = operand.offset;
    if (cell.bytes != 4 && cell.bytes != 8) return NotKnown("this address");
    return absl::OkStatus();
  }

  absl::Status AddAccess(const std::vector<std::string>& words,
                         const std::vector<Operand>& operands) {
    const bool loads = words[0] == "ld";
    Step step;
    step.kind = loads ? Kind::kLoad : Kind::kStore;
    static const auto* const kSpaces = new std::map<std::string, Space>{{"global", Space::kGlobal},
                                                                        {"const", Space::kGlobal},
                                                                        {"shared", Space::kShared},
                                                                        {"local", Space::kLocal},
                                                                        {"param", Space::kParam}};
    for (size_t i = 1; i < words.size(); ++i) {
      const std::string& word = words[i];
      if (const auto space = kSpaces->find(word); space != kSpaces->end()) {
        step.space = space->second;
      } else if (word == "v2" || word == "v4") {
        step.count = word == "v2" ? 2 : 4;
      } else if (i + 1 == words.size() && BytesOfType(word) > 0) {
        step.element = static_cast<uint8_t>(BytesOfType(word));
        step.is_signed = word[0] == 's';
      } else if (word != "nc" && word != "ca" && word != "cg" && word != "cs" && word != "wb") {
        return NotKnown(absl::StrCat("modifier ", word));
      }
    }
    if (operands.size() != 2 || step.element == 0) return NotKnown("this access");
    const Operand& address = operands[loads ? 1 : 0];
    const std::vector<std::string>& atoms = operands[loads ? 0 : 1].atoms;
    if (atoms.size() != step.count) return NotKnown("this number of registers");
    for (const std::string& atom : atoms) {
      if (atom[0] != '%') continue;
      SL_ASSIGN_OR_RETURN(const Cell cell, names_.CellOf(atom, step.cell));
      step.cell = cell.bytes;
    }
    if (step.cell == 0) step.cell = std::max<uint8_t>(step.element, 2);
    if (step.cell < step.element) return NotKnown("a register that is too small");
    for (size_t i = 0; i < atoms.size(); ++i) {
      SL_ASSIGN_OR_RETURN(const Cell cell, names_.CellOf(atoms[i], step.cell));
      step.at[i] = cell.at;
    }
    if (const auto param = names_.ParamOf(address.atoms[0]); param != nullptr) {
      return MoveParam(param.get(), address.offset, step);
    }
    SL_RETURN_IF_ERROR(SetAddress(address, &step));
    int& unit = step.space == Space::kShared ? program_.shared_unit : program_.global_unit;
    if (step.space != Space::kParam && step.space != Space::kLocal) {
      unit = std::min<int>(unit, step.element);
      // A generic address may be one of shared memory.
      if (step.space == Space::kGeneric) {
        program_.shared_unit = std::min<int>(program_.shared_unit, step.element);
      }
    }
    program_.steps.push_back(step);
    return absl::OkStatus();
  }

  // Parameters of a call are registers.
  absl::Status MoveParam(ParamCells* param, int64_t offset, const Step& access) {
    Cell& cell = (*param)[offset];
    const bool loads = access.kind == Kind::kLoad;
    if (cell.bytes == 0 && !loads) cell = names_.cells().New(access.cell);
    if (access.count != 1 || cell.bytes != access.cell || access.cell != access.element) {
      return NotKnown("this access to a parameter of a call");
    }
    Step& step = NewStep(Kind::kEach);
    step.apply = FindOperation(access.cell == 8 ? "mov.b64" : "mov.b32")->apply;
    step.at[0] = loads ? access.at[0] : cell.at;
    step.at[1] = loads ? cell.at : access.at[0];
    return access.cell < 4 ? NotKnown("a small parameter of a call") : absl::OkStatus();
  }

  // "(retval0), name, (param0, param1)"; the first may be missing.
  absl::Status AddCall(absl::string_view text) {
    std::vector<std::vector<std::string>> parts = {{}};
    for (absl::string_view piece : absl::StrSplit(text, absl::ByAnyChar("()"))) {
      std::vector<std::string> names;
      for (const absl::string_view name : absl::StrSplit(piece, ',', absl::SkipWhitespace())) {
        names.emplace_back(absl::StripAsciiWhitespace(name));
      }
      if (!names.empty()) parts.push_back(std::move(names));
    }
    if (parts.size() == 3) parts.insert(parts.begin() + 1, {{}});
    if (parts.size() != 4 || parts[2].size() != 1) return NotKnown("this call");
    for (const Function& function : module_.functions) {
      if (function.is_entry || function.name != parts[2][0]) continue;
      Names::Params params;
      const auto bind = [&](const std::vector<Variable>& inside,
                            const std::vector<std::string>& outside) {
        for (size_t i = 0; i < inside.size() && i < outside.size(); ++i) {
          params[inside[i].name] = names_.ParamOf(outside[i]);
        }
        return inside.size() == outside.size();
      };
      if (!bind(function.results, parts[1]) || !bind(function.params, parts[3])) break;
      return AddFunction(function, std::move(params));
    }
    return NotKnown(absl::StrCat("function ", parts[2][0]));
  }

  absl::Status AddCopy(absl::string_view name, const std::vector<Operand>& operands) {
    if (name == "cp.async.commit_group") {
      NewStep(Kind::kCommit);
      return absl::OkStatus();
    }
    Step step;
    if (name == "cp.async.wait_group" || name == "cp.async.wait_all") {
      step.kind = Kind::kWait;
      if (!operands.empty() && !absl::SimpleAtoi(operands[0].atoms[0], &step.number)) {
        return NotKnown("this number of groups");
      }
      step.transposed = operands.empty();  // waits for what is not committed, too
      program_.steps.push_back(step);
      return absl::OkStatus();
    }
    if ((!absl::StartsWith(name, "cp.async.cg.shared.global") &&
         !absl::StartsWith(name, "cp.async.ca.shared.global")) ||
        operands.size() < 3 || operands.size() > 4 ||
        !absl::SimpleAtoi(operands[2].atoms[0], &step.number)) {
      return NotKnown(absl::StrCat("instruction ", name));
    }
    step.kind = Kind::kCopy;
    step.space = Space::kShared;
    SL_RETURN_IF_ERROR(SetAddress(operands[0], &step));
    SL_ASSIGN_OR_RETURN(const Cell from, names_.CellOf(operands[1].atoms[0], 8));
    step.at[0] = from.at;
    step.from_offset = operands[1].offset;
    // Bytes behind these are zeros.
    const std::string bytes = operands[operands.size() - 1].atoms[0];
    SL_ASSIGN_OR_RETURN(const Cell given, names_.CellOf(bytes, 4));
    step.at[1] = given.at;
    program_.steps.push_back(step);
    return absl::OkStatus();
  }

  absl::Status AddMatrices(absl::string_view name, const std::vector<Operand>& operands) {
    Step step;
    step.kind = Kind::kMatrices;
    step.space = Space::kShared;
    step.number = -1;
    absl::string_view rest = name;
    if (!absl::ConsumePrefix(&rest, "ldmatrix.sync.aligned.m8n8.x")) {
      return NotKnown(absl::StrCat("instruction ", name));
    }
    step.count = static_cast<uint8_t>(rest[0] - '0');
    rest.remove_prefix(1);
    step.transposed = absl::ConsumePrefix(&rest, ".trans");
    if ((rest != ".shared.b16" && rest != ".shared::cta.b16") || operands.size() != 2 ||
        operands[0].atoms.size() != step.count) {
      return NotKnown(absl::StrCat("instruction ", name));
    }
    for (size_t i = 0; i < operands[0].atoms.size(); ++i) {
      SL_ASSIGN_OR_RETURN(const Cell cell, names_.CellOf(operands[0].atoms[i], 4));
      step.at[i] = cell.at;
    }
    SL_RETURN_IF_ERROR(SetAddress(operands[1], &step));
    program_.steps.push_back(step);
    return absl::OkStatus();
  }

  const Module& module_;
  Program& program_;
  Names names_;
  int depth_ = 0;
};

}  // namespace

std::string Program::TextOf(const Step& step) const {
  const Statement& statement = statements[static_cast<size_t>(step.text)];
  std::string text = statement.text;
  text.erase(
      std::unique(text.begin(), text.end(), [](char a, char b) { return a == ' ' && b == ' '; }),
      text.end());
  return absl::StrCat("`", text, "` (PTX line ", statement.line, ")");
}

absl::StatusOr<Program> DecodeKernel(const Module& module, const Function& entry,
                                     const std::map<std::string, uint64_t>& variables) {
  Program program;
  program.name = entry.name;
  Decoder decoder(module, variables, &program);
  const absl::Status status = decoder.Run(entry);
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrCat(entry.name, ": ", status.message()));
  }
  return program;
}

}  // namespace stringline::ptx
