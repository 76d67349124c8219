#include "schedlang/elaborate/scope.h"

#include "absl/strings/str_cat.h"
#include "schedlang/text/words.h"

namespace stringline {

const char* SortOf(const Symbol& symbol) {
  switch (symbol.kind) {
    case Symbol::Kind::kValue:
      return "a value";
    case Symbol::Kind::kOrder:
      return "an order";
    case Symbol::Kind::kPipe:
      return "a pipe";
    default:
      return "a function";
  }
}

Scope::Scope(Diagnostics* diagnostics) : diagnostics_(diagnostics) {
  symbols_["min"] = {Symbol::Kind::kMin, -1, std::nullopt};
  symbols_["max"] = {Symbol::Kind::kMax, -1, std::nullopt};
}

void Scope::Define(const ast::Name& name, Symbol::Kind kind, int32_t index) {
  if (IsActionLetter(name.text)) {
    diagnostics_->Add(Code::kReservedName, name.span,
                      absl::StrCat("'", name.text, "' is an action and names nothing else"));
    return;
  }
  if (IsKeyword(name.text)) {
    diagnostics_->Add(Code::kReservedName, name.span,
                      absl::StrCat("'", name.text, "' is a word of the language, not a name"));
    return;
  }
  const auto [it, is_new] = symbols_.try_emplace(name.text, Symbol{kind, index, name.span});
  if (is_new) {
    defined_.push_back(name.text);
    return;
  }
  const Symbol earlier = it->second;
  if (earlier.kind == Symbol::Kind::kUnknown) {
    it->second = {kind, index, name.span};
  } else if (!earlier.span) {
    diagnostics_->Add(Code::kReservedName, name.span,
                      absl::StrCat("'", name.text, "' is a function of the language, not a name"));
  } else {
    Diagnostic& finding = diagnostics_->Add(Code::kRedefined, name.span,
                                            absl::StrCat("'", name.text, "' is defined again"));
    finding.notes.push_back({*earlier.span, "it is defined here first", ""});
  }
}

void Scope::CloseBlock() {
  for (size_t i = block_starts_.back(); i < defined_.size(); ++i) symbols_.erase(defined_[i]);
  defined_.resize(block_starts_.back());
  block_starts_.pop_back();
}

const Symbol* Scope::Find(const std::string& name, Span span) {
  const auto it = symbols_.find(name);
  if (it != symbols_.end()) {
    return it->second.kind == Symbol::Kind::kUnknown ? nullptr : &it->second;
  }
  if (name == function_) {
    diagnostics_->Add(
        Code::kUnknownName, span,
        absl::StrCat("nothing above is called '", name, "'; a function cannot use itself"));
    symbols_.emplace(name, Symbol{});
    return nullptr;
  }
  std::vector<std::string> candidates;
  for (const auto& [known, symbol] : symbols_) {
    if (symbol.kind != Symbol::Kind::kUnknown) candidates.push_back(known);
  }
  const std::string closest = ClosestName(name, candidates);
  diagnostics_->Add(
      Code::kUnknownName, span,
      absl::StrCat("nothing above is called '", name, "'",
                   closest.empty() ? "" : absl::StrCat("; did you mean '", closest, "'?")));
  symbols_.emplace(name, Symbol{});
  return nullptr;
}

}  // namespace stringline
