// Statement after statement becomes a Step. A call becomes the body of its function, decoded anew
// with cells of its own: a parameter of the call is a cell for each offset at which it is stored,
// and a return is a branch to the end.
#include <algorithm>
#include <memory>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "schedlang/base/status.h"
#include "tests/cuda/ptx/operations.h"
#include "tests/cuda/ptx/program.h"

namespace stringline::ptx {
namespace {

struct Cell {
  uint32_t at = 0;
  uint8_t bytes = 0;
};

// A parameter of a call: the cells at its offsets.
using ParamCells = std::map<int64_t, Cell>;

struct Scope {
  std::map<std::string, Cell> registers;               // as they are used
  std::map<std::string, std::pair<int, int>> declared;  // by name or prefix: bytes, how many
  std::map<std::string, std::shared_ptr<ParamCells>> params;
};

// An operand as written: its atoms, "%r1" or "8"; of an address, one atom and its offset.
struct Operand {
  std::vector<std::string> atoms;
  bool is_list = false, is_address = false;
  int64_t offset = 0;
};

absl::Status NotKnown(absl::string_view what) {
  return absl::UnimplementedError(absl::StrCat("not known: ", what));
}

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

// "0f3F800000", "0d...", "-8", "0x10".
std::optional<uint64_t> NumberOf(absl::string_view atom) {
  uint64_t bits = 0;
  if (absl::StartsWith(atom, "0f") || absl::StartsWith(atom, "0d")) {
    return absl::SimpleHexAtoi(atom.substr(2), &bits) ? std::optional(bits) : std::nullopt;
  }
  if (absl::StartsWith(atom, "0x")) {
    return absl::SimpleHexAtoi(atom, &bits) ? std::optional(bits) : std::nullopt;
  }
  int64_t number = 0;
  if (absl::SimpleAtoi(atom, &number)) return static_cast<uint64_t>(number);
  return absl::SimpleAtoi(atom, &bits) ? std::optional(bits) : std::nullopt;
}

// The cells of a program: registers by scope, constants and special registers.
class Cells {
 public:
  explicit Cells(Program* program) : program_(*program) {}

  Cell New(int bytes) {
    const auto size = static_cast<uint32_t>(bytes);
    used_ = (used_ + size - 1) / size * size;
    const Cell cell = {used_, static_cast<uint8_t>(bytes)};
    used_ += size;
    program_.register_bytes = used_;
    return cell;
  }
  Cell Scratch(int bytes) {
    Cell& cell = scratch_[bytes];
    if (cell.bytes == 0) cell = New(bytes);
    return cell;
  }
  Cell Constant(int bytes, uint64_t bits) {
    if (bytes == 1) bits = bits != 0 ? 1 : 0;
    if (bytes < 8) bits &= (uint64_t{1} << (8 * bytes)) - 1;
    Cell& cell = constants_[{bytes, bits}];
    if (cell.bytes == 0) {
      cell = New(bytes);
      program_.constants.push_back({cell.at, cell.bytes, bits});
    }
    return cell;
  }
  Cell Special(const std::string& name) {
    Cell& cell = specials_[name];
    if (cell.bytes == 0) {
      cell = New(4);
      program_.specials.push_back({cell.at, name});
    }
    return cell;
  }
  Cell Carry() {
    if (carry_.bytes == 0) carry_ = New(4);
    return carry_;
  }

 private:
  Program& program_;
  uint32_t used_ = 0;
  std::map<int, Cell> scratch_;
  std::map<std::pair<int, uint64_t>, Cell> constants_;
  std::map<std::string, Cell> specials_;
  Cell carry_;
};

class Decoder {
 public:
  Decoder(const Module& module, const std::map<std::string, uint64_t>& variables, Program* program)
      : module_(module), program_(*program), cells_(program), symbols_(variables) {}

  absl::Status Run(const Function& entry) {
    for (const Variable& param : entry.params) {
      const int64_t at = Reserve(&program_.param_bytes, param);
      program_.params.push_back(param);
      program_.param_at.push_back(at);
      symbols_[param.name] = kParamWindow | static_cast<uint64_t>(at);
    }
    SL_RETURN_IF_ERROR(PlaceShared(entry));
    return AddFunction(entry, {});
  }

 private:
  // The labels of one copy of a function, and the branches to them; "" is its end.
  struct Labels {
    std::map<std::string, int32_t> at;
    std::vector<std::pair<size_t, std::string>> branches;
    bool is_entry = false;
  };

  static int64_t Reserve(int64_t* used, const Variable& variable) {
    const int64_t at = (*used + variable.alignment - 1) / variable.alignment * variable.alignment;
    *used = at + variable.bytes;
    return at;
  }

  // The array whose size the launch says lies behind all others.
  absl::Status PlaceShared(const Function& entry) {
    std::vector<Variable> variables;
    for (const Variable& variable : module_.variables) {
      if (variable.space == Variable::Space::kShared) variables.push_back(variable);
    }
    for (const Statement& statement : entry.body) {
      absl::string_view text = statement.text;
      if (statement.kind != Statement::Kind::kDirective || !absl::ConsumePrefix(&text, ".shared ")) {
        continue;
      }
      SL_ASSIGN_OR_RETURN(variables.emplace_back(),
                          ParseVariable(text, Variable::Space::kShared));
    }
    for (const bool sized : {true, false}) {
      for (const Variable& variable : variables) {
        if ((variable.bytes > 0) != sized) continue;
        symbols_[variable.name] = static_cast<uint64_t>(Reserve(&program_.shared_bytes, variable));
      }
    }
    constexpr int64_t kAlignment = 16;
    program_.shared_bytes = (program_.shared_bytes + kAlignment - 1) / kAlignment * kAlignment;
    return absl::OkStatus();
  }

  absl::Status AddFunction(const Function& function, Scope outer) {
    if (++depth_ > 8) return absl::UnimplementedError("calls that are nested deeply");
    const size_t scopes = scopes_.size();
    scopes_.push_back(std::move(outer));
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
    scopes_.resize(scopes);
    --depth_;
    return absl::OkStatus();
  }

  absl::Status Add(const Statement& statement, Labels* labels) {
    switch (statement.kind) {
      case Statement::Kind::kOpen:
        scopes_.emplace_back();
        return absl::OkStatus();
      case Statement::Kind::kClose:
        scopes_.pop_back();
        return absl::OkStatus();
      case Statement::Kind::kLabel:
        labels->at[statement.text] = static_cast<int32_t>(program_.steps.size());
        return absl::OkStatus();
      case Statement::Kind::kDirective:
        return Declare(statement.text);
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
      SL_ASSIGN_OR_RETURN(const Cell cell, CellOf(std::string(text.substr(0, end)), 1));
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

  absl::Status Declare(absl::string_view text) {
    if (absl::ConsumePrefix(&text, ".reg ")) {
      text = absl::StripAsciiWhitespace(text);
      const size_t end = text.find(' ');
      const int bytes = BytesOfType(text.substr(1, end - 1));
      if (bytes == 0) return NotKnown(text);
      for (absl::string_view name : absl::StrSplit(text.substr(end), ',')) {
        name = absl::StripAsciiWhitespace(name);
        const size_t less = name.find('<');
        int count = 0;
        if (less != name.npos &&
            !absl::SimpleAtoi(absl::StripSuffix(name.substr(less + 1), ">"), &count)) {
          return NotKnown(text);
        }
        scopes_.back().declared[std::string(name.substr(0, less))] = {bytes, count};
      }
      return absl::OkStatus();
    }
    if (absl::StartsWith(text, ".pragma")) return absl::OkStatus();
    for (const auto& [directive, space] : {std::pair(".local ", Variable::Space::kLocal),
                                           {".param ", Variable::Space::kParam}}) {
      if (!absl::ConsumePrefix(&text, directive)) continue;
      SL_ASSIGN_OR_RETURN(const Variable variable, ParseVariable(text, space));
      if (space == Variable::Space::kParam) {
        scopes_.back().params[variable.name] = std::make_shared<ParamCells>();
      } else {
        symbols_[variable.name] = static_cast<uint64_t>(Reserve(&program_.local_bytes, variable));
      }
      return absl::OkStatus();
    }
    // Placed before.
    if (absl::StartsWith(text, ".shared ") && depth_ == 1) return absl::OkStatus();
    return NotKnown(absl::StrCat("directive ", text));
  }

  absl::StatusOr<Cell> RegisterOf(const std::string& name) {
    const size_t digits = name.find_last_not_of("0123456789") + 1;
    const std::string prefix = name.substr(0, digits);
    int number = -1;
    (void)absl::SimpleAtoi(name.substr(digits), &number);
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const auto found = scope->registers.find(name);
      if (found != scope->registers.end()) return found->second;
      auto declared = scope->declared.find(name);
      if (declared == scope->declared.end() || declared->second.second != 0) {
        declared = scope->declared.find(prefix);
        if (declared == scope->declared.end() || number < 0 || number >= declared->second.second) {
          continue;
        }
      }
      return scope->registers[name] = cells_.New(declared->second.first);
    }
    return NotKnown(absl::StrCat("register ", name));
  }

  // A register, a constant or an address, as a cell of so many bytes; 0: the register's own.
  absl::StatusOr<Cell> CellOf(const std::string& atom, int bytes) {
    static constexpr absl::string_view kSpecials[] = {
        "%tid.x",   "%tid.y",   "%tid.z",   "%ntid.x",   "%ntid.y",   "%ntid.z",  "%ctaid.x",
        "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z", "%laneid", "%warpid"};
    if (atom == "_") return cells_.Scratch(bytes);
    Cell cell;
    if (std::find(std::begin(kSpecials), std::end(kSpecials), atom) != std::end(kSpecials)) {
      cell = cells_.Special(atom);
    } else if (atom[0] == '%') {
      SL_ASSIGN_OR_RETURN(cell, RegisterOf(atom));
    } else if (const auto number = NumberOf(atom); number.has_value()) {
      return cells_.Constant(bytes, *number);
    } else {
      SL_ASSIGN_OR_RETURN(const uint64_t address, AddressOf(atom));
      return cells_.Constant(bytes, address);
    }
    if (bytes != 0 && cell.bytes != bytes) {
      return NotKnown(absl::StrCat("a register of ", cell.bytes, " bytes, ", atom, ", for ", bytes));
    }
    return cell;
  }

  absl::StatusOr<uint64_t> AddressOf(const std::string& name) {
    const auto found = symbols_.find(name);
    if (found != symbols_.end()) return found->second;
    return NotKnown(absl::StrCat("symbol ", name));
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
      SL_ASSIGN_OR_RETURN(const Cell mask, CellOf(operands[0].atoms[0], 4));
      NewStep(Kind::kWarpBarrier).number = static_cast<int32_t>(mask.at);
      return absl::OkStatus();
    }
    if (name == "nanosleep.u32") {
      SL_ASSIGN_OR_RETURN(const Cell ns, CellOf(operands[0].atoms[0], 4));
      NewStep(Kind::kSleep).at[0] = ns.at;
      return absl::OkStatus();
    }
    if (absl::StartsWith(name, "mov.") && operands.back().atoms[0] == "%globaltimer") {
      SL_ASSIGN_OR_RETURN(const Cell to, CellOf(operands[0].atoms[0], 8));
      NewStep(Kind::kTime).at[0] = to.at;
      return absl::OkStatus();
    }
    return AddOperation(name, operands);
  }

  absl::StatusOr<Cell> LowHalfOf(const std::string& atom) {
    if (atom[0] != '%') return CellOf(atom, 4);
    SL_ASSIGN_OR_RETURN(const Cell cell, CellOf(atom, 0));
    if (cell.bytes != 8) return CellOf(atom, 4);
    const Cell half = cells_.New(4);
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
      SL_ASSIGN_OR_RETURN(Cell cell, may_be_wide ? LowHalfOf(atoms[i])
                                                 : CellOf(atoms[i], row->bytes[i]));
      step.at[i] = cell.at;
    }
    step.number = row->mask < 0 ? -1 : static_cast<int32_t>(step.at[row->mask]);
    if (row->carries) step.at[atoms.size()] = cells_.Carry().at;
    program_.steps.push_back(step);
    return absl::OkStatus();
  }

  // The address of [base + offset] as cell and offset.
  absl::Status SetAddress(const Operand& operand, Step* step) {
    const std::string& base = operand.atoms[0];
    SL_ASSIGN_OR_RETURN(const Cell cell, CellOf(base, base[0] == '%' ? 0 : 8));
    step->address = cell.at;
    step->address_bytes = cell.bytes;
    step->offset = operand.offset;
    if (cell.bytes != 4 && cell.bytes != 8) return NotKnown("this address");
    return absl::OkStatus();
  }

  // A parameter of a call in any scope around; null: none of that name.
  ParamCells* ParamOf(const std::string& name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const auto found = scope->params.find(name);
      if (found != scope->params.end()) return found->second.get();
    }
    return nullptr;
  }

  absl::Status AddAccess(const std::vector<std::string>& words,
                         const std::vector<Operand>& operands) {
    const bool loads = words[0] == "ld";
    Step step;
    step.kind = loads ? Kind::kLoad : Kind::kStore;
    static const auto* const kSpaces = new std::map<std::string, Space>{
        {"global", Space::kGlobal}, {"const", Space::kGlobal}, {"shared", Space::kShared},
        {"local", Space::kLocal},   {"param", Space::kParam}};
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
      SL_ASSIGN_OR_RETURN(const Cell cell, CellOf(atom, step.cell));
      step.cell = cell.bytes;
    }
    if (step.cell == 0) step.cell = std::max<uint8_t>(step.element, 2);
    if (step.cell < step.element) return NotKnown("a register that is too small");
    for (size_t i = 0; i < atoms.size(); ++i) {
      SL_ASSIGN_OR_RETURN(const Cell cell, CellOf(atoms[i], step.cell));
      step.at[i] = cell.at;
    }
    if (ParamCells* const param = ParamOf(address.atoms[0]); param != nullptr) {
      return MoveParam(param, address.offset, step);
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
    if (cell.bytes == 0 && !loads) cell = cells_.New(access.cell);
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
      Scope scope;
      const auto bind = [&](const std::vector<Variable>& inside,
                            const std::vector<std::string>& outside) {
        for (size_t i = 0; i < inside.size() && i < outside.size(); ++i) {
          for (const Scope& around : scopes_) {
            const auto found = around.params.find(outside[i]);
            if (found != around.params.end()) scope.params[inside[i].name] = found->second;
          }
        }
        return inside.size() == outside.size();
      };
      if (!bind(function.results, parts[1]) || !bind(function.params, parts[3])) break;
      return AddFunction(function, std::move(scope));
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
    SL_ASSIGN_OR_RETURN(const Cell from, CellOf(operands[1].atoms[0], 8));
    step.at[0] = from.at;
    step.from_offset = operands[1].offset;
    // Bytes behind these are zeros.
    const std::string bytes = operands[operands.size() - 1].atoms[0];
    SL_ASSIGN_OR_RETURN(const Cell given, CellOf(bytes, 4));
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
      SL_ASSIGN_OR_RETURN(const Cell cell, CellOf(operands[0].atoms[i], 4));
      step.at[i] = cell.at;
    }
    SL_RETURN_IF_ERROR(SetAddress(operands[1], &step));
    program_.steps.push_back(step);
    return absl::OkStatus();
  }

  const Module& module_;
  Program& program_;
  Cells cells_;
  std::map<std::string, uint64_t> symbols_;
  std::vector<Scope> scopes_;
  int depth_ = 0;
};

}  // namespace

std::string Program::TextOf(const Step& step) const {
  const Statement& statement = statements[static_cast<size_t>(step.text)];
  std::string text = statement.text;
  text.erase(std::unique(text.begin(), text.end(),
                         [](char a, char b) { return a == ' ' && b == ' '; }),
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
