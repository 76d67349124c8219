// A register gets its cell when it is first used, so that cells lie in the order of the code.
#include "tests/cuda/ptx/names.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "schedlang/base/status.h"

namespace stringline::ptx {
namespace {

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

int64_t Reserve(int64_t* used, const Variable& variable) {
  const int64_t at = (*used + variable.alignment - 1) / variable.alignment * variable.alignment;
  *used = at + variable.bytes;
  return at;
}

bool IsSpecial(const std::string& atom) {
  static constexpr absl::string_view kSpecials[] = {
      "%tid.x",   "%tid.y",   "%tid.z",    "%ntid.x",   "%ntid.y",   "%ntid.z", "%ctaid.x",
      "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z", "%laneid", "%warpid"};
  return std::find(std::begin(kSpecials), std::end(kSpecials), atom) != std::end(kSpecials);
}

}  // namespace

absl::Status NotKnown(absl::string_view what) {
  return absl::UnimplementedError(absl::StrCat("not known: ", what));
}

Cell Cells::New(int bytes) {
  const auto size = static_cast<uint32_t>(bytes);
  used_ = (used_ + size - 1) / size * size;
  const Cell cell = {used_, static_cast<uint8_t>(bytes)};
  used_ += size;
  program_.register_bytes = used_;
  return cell;
}

Cell Cells::Scratch(int bytes) {
  Cell& cell = scratch_[bytes];
  if (cell.bytes == 0) cell = New(bytes);
  return cell;
}

Cell Cells::Constant(int bytes, uint64_t bits) {
  if (bytes == 1) bits = bits != 0 ? 1 : 0;
  if (bytes < 8) bits &= (uint64_t{1} << (8 * bytes)) - 1;
  Cell& cell = constants_[{bytes, bits}];
  if (cell.bytes == 0) {
    cell = New(bytes);
    program_.constants.push_back({cell.at, cell.bytes, bits});
  }
  return cell;
}

Cell Cells::Special(const std::string& name) {
  Cell& cell = specials_[name];
  if (cell.bytes == 0) {
    cell = New(4);
    program_.specials.push_back({cell.at, name});
  }
  return cell;
}

Cell Cells::Carry() {
  if (carry_.bytes == 0) carry_ = New(4);
  return carry_;
}

// The array whose size the launch says lies behind all others.
absl::Status Names::Place(const Module& module, const Function& entry) {
  for (const Variable& param : entry.params) {
    const int64_t at = Reserve(&program_.param_bytes, param);
    program_.params.push_back(param);
    program_.param_at.push_back(at);
    symbols_[param.name] = kParamWindow | static_cast<uint64_t>(at);
  }
  std::vector<Variable> variables;
  for (const Variable& variable : module.variables) {
    if (variable.space == Variable::Space::kShared) variables.push_back(variable);
  }
  for (const Statement& statement : entry.body) {
    absl::string_view text = statement.text;
    if (statement.kind != Statement::Kind::kDirective || !absl::ConsumePrefix(&text, ".shared ")) {
      continue;
    }
    SL_ASSIGN_OR_RETURN(variables.emplace_back(), ParseVariable(text, Variable::Space::kShared));
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

absl::Status Names::DeclareRegisters(absl::string_view text) {
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

absl::Status Names::Declare(absl::string_view directive) {
  if (absl::ConsumePrefix(&directive, ".reg ")) return DeclareRegisters(directive);
  // Shared memory was placed before, that of the kernel.
  if (absl::StartsWith(directive, ".pragma") ||
      (absl::StartsWith(directive, ".shared ") && scopes_.size() == 1)) {
    return absl::OkStatus();
  }
  if (absl::ConsumePrefix(&directive, ".local ")) {
    SL_ASSIGN_OR_RETURN(const Variable local, ParseVariable(directive, Variable::Space::kLocal));
    symbols_[local.name] = static_cast<uint64_t>(Reserve(&program_.local_bytes, local));
    return absl::OkStatus();
  }
  if (absl::ConsumePrefix(&directive, ".param ")) {
    SL_ASSIGN_OR_RETURN(const Variable param, ParseVariable(directive, Variable::Space::kParam));
    scopes_.back().params[param.name] = std::make_shared<ParamCells>();
    return absl::OkStatus();
  }
  return NotKnown(absl::StrCat("directive ", directive));
}

absl::StatusOr<Cell> Names::RegisterOf(const std::string& name) {
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

absl::StatusOr<Cell> Names::CellOf(const std::string& atom, int bytes) {
  if (atom == "_") return cells_.Scratch(bytes);
  Cell cell;
  if (IsSpecial(atom)) {
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

absl::StatusOr<uint64_t> Names::AddressOf(const std::string& name) const {
  const auto found = symbols_.find(name);
  if (found != symbols_.end()) return found->second;
  return NotKnown(absl::StrCat("symbol ", name));
}

std::shared_ptr<ParamCells> Names::ParamOf(const std::string& name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto found = scope->params.find(name);
    if (found != scope->params.end()) return found->second;
  }
  return nullptr;
}

}  // namespace stringline::ptx
