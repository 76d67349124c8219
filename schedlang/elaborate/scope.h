// The names visible at a place of a schedule: what each one means, and where it was defined.
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
  std::optional<Span> span;  // none: the language defines it
};

// "a value", "a function", "an order", "a pipe".
const char* SortOf(const Symbol& symbol);

class Scope {
 public:
  explicit Scope(Diagnostics* diagnostics);

  // Makes the name visible until the block that is open now is closed. Finds reserved names, and
  // names that are visible already: those keep their first meaning.
  void Define(const ast::Name& name, Symbol::Kind kind, int32_t index);

  // The same, but a name that is visible already keeps its meaning without a finding.
  void DefineUnlessKnown(const ast::Name& name, Symbol::Kind kind, int32_t index) {
    if (symbols_.count(name.text) == 0) Define(name, kind, index);
  }

  void OpenBlock() { block_starts_.push_back(defined_.size()); }
  void CloseBlock();

  // Between these two the body of this function is resolved, which does not know itself.
  void BeginFunction(const std::string& name) { function_ = name; }
  void EndFunction() { function_.clear(); }

  // What the name means here. An unknown name is a finding the first time; null then and later.
  const Symbol* Find(const std::string& name, Span span);

 private:
  Diagnostics* diagnostics_;
  std::map<std::string, Symbol> symbols_;
  std::vector<std::string> defined_;  // in the order defined, without the language's own
  std::vector<size_t> block_starts_;  // sizes of defined_
  std::string function_;              // the one that is being defined
};

}  // namespace stringline
