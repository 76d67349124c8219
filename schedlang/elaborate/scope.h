// The names visible at a place of a schedule, with their meanings and definitions.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "schedlang/base/diagnostics.h"
#include "schedlang/text/ast.h"

namespace stringline {

struct Symbol {
  enum class Kind : uint8_t { kValue, kFunction, kMin, kMax, kOrder, kPipe, kUnknown };
  Kind kind = Kind::kUnknown;
  int32_t index = -1;        // slot, function, order or pipe
  std::optional<Span> span;  // none: defined by the language
};

// "a value", "a function", "an order", "a pipe".
const char* SortOf(const Symbol& symbol);

class Scope {
 public:
  explicit Scope(Diagnostics* diagnostics);

  // Makes the name visible until the current block is closed. Adds findings for reserved names, and
  // for names already visible, which keep their first meaning.
  void Define(const ast::Name& name, Symbol::Kind kind, int32_t index);

  // The same, but a visible name keeps its meaning without a finding.
  void DefineUnlessKnown(const ast::Name& name, Symbol::Kind kind, int32_t index) {
    if (symbols_.count(name.text) == 0) Define(name, kind, index);
  }

  void OpenBlock() { block_starts_.push_back(defined_.size()); }
  void CloseBlock();

  // Between these two the body of this function is resolved, which must not call itself.
  void BeginFunction(const std::string& name) { function_ = name; }
  void EndFunction() { function_.clear(); }

  bool IsKnown(const std::string& name) const { return symbols_.count(name) > 0; }
  // True if the name is visible here and of another kind.
  bool IsOther(const std::string& name, Symbol::Kind kind) const {
    const auto known = symbols_.find(name);
    return known != symbols_.end() && known->second.kind != kind;
  }

  // The meaning of the name here. An unknown name is a finding the first time; null then and later.
  const Symbol* Find(const std::string& name, Span span);

 private:
  Diagnostics* diagnostics_;
  std::map<std::string, Symbol> symbols_;
  std::vector<std::string> defined_;  // in the order defined, without the language's own
  std::vector<size_t> block_starts_;  // sizes of defined_
  std::string function_;              // the function in definition
};

}  // namespace stringline
