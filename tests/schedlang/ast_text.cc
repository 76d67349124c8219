#include "tests/schedlang/ast_text.h"

#include <variant>

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

const char* NameOf(ast::Operator op) {
  constexpr const char* kNames[] = {"or", "and", "not", "==", "!=", "<", "<=", ">",
                                    ">=", "+",   "-",   "*",  "/",  "%", "-"};
  return kNames[static_cast<size_t>(op)];
}

// The visitors, one per node.

std::string Text(const ast::Number& n) { return absl::StrCat(n.value); }
std::string Text(const ast::Reference& n) { return n.name; }
std::string Text(const ast::Unary& n) {
  return absl::StrCat("(", NameOf(n.op), " ", TextOf(*n.operand), ")");
}
std::string Text(const ast::Binary& n) {
  return absl::StrCat("(", NameOf(n.op), " ", TextOf(*n.left), " ", TextOf(*n.right), ")");
}
std::string Text(const ast::Conditional& n) {
  return absl::StrCat("(? ", TextOf(*n.condition), " ", TextOf(*n.yes), " ", TextOf(*n.no), ")");
}
std::string Text(const ast::Call& n) {
  std::string out = absl::StrCat("(", n.name.text);
  for (const ast::Expr& argument : n.arguments) absl::StrAppend(&out, " ", TextOf(argument));
  return absl::StrCat(out, ")");
}

std::string Text(const ast::Index& n) {
  return absl::StrCat("([] ", n.pipe.text, " ", TextOf(*n.index), ")");
}

std::string Text(const ast::Block& block) {
  std::string out;
  for (const ast::Statement& s : block.statements) absl::StrAppend(&out, " ", TextOf(s));
  return out;
}

std::string Text(const ast::Let& n) {
  std::string name = n.name.text;
  if (!n.parameters.empty()) {
    name = absl::StrCat("(", name);
    for (const ast::Name& p : n.parameters) absl::StrAppend(&name, " ", p.text);
    absl::StrAppend(&name, ")");
  }
  return absl::StrCat("(let ", name, " ", TextOf(n.value), ")");
}
std::string Text(const ast::Require& n) {
  return absl::StrCat("(require ", TextOf(n.condition), " \"", n.message, "\")");
}
std::string Text(const ast::Stages& n) {
  std::string layout = n.layout.text;
  if (n.rank) layout = absl::StrCat("(-> ", layout, " ", TextOf(*n.rank), ")");
  if (n.reversed) layout = absl::StrCat("(reversed ", layout, ")");
  return absl::StrCat("(stages ", TextOf(n.count), " ", layout, ")");
}
std::string Text(const ast::Pipe& n) {
  return absl::StrCat("(pipe ", n.name.text, " ", Text(n.stages), " ", TextOf(n.microbatches), ")");
}
std::string Text(const ast::Count& n) {
  const std::string word = n.word.text == "unshard" ? "ahead" : n.word.text;
  return absl::StrCat("(", word, " ", TextOf(n.count), ")");
}
std::string Text(const ast::Edges& n) {
  std::string out = "(edges";
  for (const ast::Edges::Row& row : n.rows) {
    absl::StrAppend(&out, " (-> ", TextOf(row.from), " ", TextOf(row.to),
                    row.where ? absl::StrCat(" where ", TextOf(*row.where)) : "", ")");
  }
  return absl::StrCat(out, ")");
}
std::string Text(const ast::Skip& n) {
  return absl::StrCat("(skip ", n.stage.text, " @ ", n.microbatch.text, " where ", TextOf(n.where),
                      ")");
}
std::string Text(const ast::ForwardOnly&) { return "(forward-only)"; }
std::string Text(const ast::Pad& n) { return absl::StrCat("(pad ", TextOf(n.count), ")"); }
std::string Text(const ast::Rank& n) {
  return absl::StrCat("(rank ", n.variable.text, n.mode ? " " + n.mode->text : "", Text(n.body),
                      ")");
}
std::string Text(const ast::Order& n) {
  return absl::StrCat("(order ", n.name.text, Text(n.body), ")");
}
std::string Text(const ast::Repeat& n) {
  return absl::StrCat("(repeat ", TextOf(n.count), n.variable ? " as " + n.variable->text : "",
                      Text(n.body), ")");
}
std::string Text(const ast::If& n) {
  std::string out = "(if";
  for (const ast::If::Arm& arm : n.arms) {
    absl::StrAppend(&out, " (", TextOf(arm.condition), Text(arm.body), ")");
  }
  if (n.otherwise) absl::StrAppend(&out, " (else", Text(*n.otherwise), ")");
  return absl::StrCat(out, ")");
}

std::string Text(const ast::Part& n) {
  if (n.letter == 0 && !n.stage) return absl::StrCat("(next ", n.name, ")");
  std::string out = n.letter == 0 ? n.name : std::string(1, n.letter);
  if (n.stage) absl::StrAppend(&out, " ", TextOf(*n.stage));
  if (n.microbatch) absl::StrAppend(&out, " @ ", TextOf(*n.microbatch));
  return absl::StrCat("(", out, ")");
}

std::string Text(const ast::Group& n) {
  if (n.parts.size() == 1) return Text(n.parts.front());
  std::string out = "(&";
  for (const ast::Part& part : n.parts) absl::StrAppend(&out, " ", Text(part));
  return absl::StrCat(out, ")");
}

std::string Text(const ast::Collective& n) {
  return absl::StrCat("(", n.word.text, " ", TextOf(n.stage), ")");
}
std::string Text(const ast::At& n) {
  return absl::StrCat("(at ", TextOf(n.slot), " ", Text(n.group), ")");
}
std::string Text(const ast::Tighten&) { return "(tighten)"; }
std::string Text(const ast::Fill&) { return "(fill W)"; }
std::string Text(const ast::Hold& n) { return absl::StrCat("(hold ", TextOf(n.most), ")"); }
std::string Text(const ast::Prefer& n) {
  std::string out = "(prefer";
  for (const ast::Name& letter : n.letters) absl::StrAppend(&out, " ", letter.text);
  return absl::StrCat(out, ")");
}
std::string Text(const ast::PerStage& n) {
  std::string out;
  for (const ast::Expr& value : n.values) {
    absl::StrAppend(&out, out.empty() ? "" : " ", TextOf(value));
  }
  if (n.variable) return absl::StrCat("(-> ", n.variable->text, " ", out, ")");
  return n.is_list ? absl::StrCat("[", out, "]") : out;
}
std::string Text(const ast::Costs& n) {
  std::string out = "(costs";
  for (const auto& [key, value] : n.rows) absl::StrAppend(&out, " ", key.text, "=", Text(value));
  return absl::StrCat(out, ")");
}

std::string Text(const ast::Minimize& n) {
  return absl::StrCat("(minimize ", n.objective.text, ")");
}
std::string Text(const ast::Within& n) {
  return absl::StrCat("(within ", n.limited.text, " ", TextOf(n.most), ")");
}
std::string Text(const ast::Pairs& n) {
  std::string out = "(pairs";
  for (const ast::Name& letter : n.letters) absl::StrAppend(&out, " ", letter.text);
  return absl::StrCat(out, n.cost ? " costs " + Text(*n.cost) : "", ")");
}
std::string Text(const ast::Iterations& n) {
  return absl::StrCat("(iterations ", TextOf(n.count), ")");
}
std::string Text(const ast::Place& n) {
  std::string out = "(place";
  for (const ast::Place::Row& row : n.rows) {
    absl::StrAppend(&out, " ", row.layout.text, row.turns ? ":" + TextOf(*row.turns) : "");
  }
  return out + ")";
}
std::string Text(const ast::Layers& n) { return absl::StrCat("(layers ", TextOf(n.count), ")"); }

std::string Text(const std::vector<ast::Overlap::Part>& parts) {
  std::string out = " (";
  for (const auto& [place, letter, name] : parts) {
    const bool both = !place.text.empty() && !letter.text.empty();
    absl::StrAppend(&out, out == " (" ? "" : " ", place.text, both ? "." : "", letter.text, ".",
                    name.text);
  }
  return absl::StrCat(out, ")");
}
std::string Text(const ast::Overlap& n) {
  std::string out = "(overlap";
  for (const ast::Name& letter : n.letters) absl::StrAppend(&out, " ", letter.text);
  if (n.semicolon.has_value()) return absl::StrCat(out, " ;)");
  return absl::StrCat(out, Text(n.compute), Text(n.network), ")");
}

std::string Text(const ast::Split& n) {
  return absl::StrCat("(split ", n.kind, Text(n.layers), n.layout ? n.layout->text : "", ")");
}

std::string Text(const ast::Recompute& n) {
  return absl::StrCat("(recompute ", n.kind, Text(n.stages), ")");
}

std::string Text(const ast::OwnValue& n) {
  return absl::StrCat("(value ", n.name.text, " ", n.stage.text, n.home.empty() ? "" : " ", n.home,
                      n.rank ? " " + TextOf(*n.rank) : "", ")");
}

std::string Text(const ast::OwnAction& n) {
  std::string out =
      absl::StrCat("(action ", n.name.text, " ", n.stage.text, n.lane ? " on " + n.lane->text : "",
                   n.by.empty() ? "" : " by ", n.by);
  for (const ast::OwnAction::Effect& effect : n.effects) {
    absl::StrAppend(&out, " (", effect.word.text);
    for (const auto& [value, stage] : effect.rows) {
      absl::StrAppend(&out, " ", value.text, " ", stage.text);
    }
    absl::StrAppend(&out, ")");
  }
  return out + ")";
}

std::string Text(const ast::Offload& n) { return absl::StrCat("(offload ", n.kind, ")"); }

std::string Text(const ast::Derived& n) {
  std::string out = absl::StrCat(" = (", n.base.text);
  for (const ast::Derived::Argument& a : n.arguments) {
    absl::StrAppend(&out, " ", a.name ? a.name->text + "=" : "", TextOf(a.value));
  }
  absl::StrAppend(&out, ")");
  for (const ast::Derived::Then& then : n.thens) {
    const char* const of = then.word.text == "defer" ? " W " : " ";
    absl::StrAppend(&out, " (", then.word.text, of, TextOf(then.count), ")");
  }
  return out;
}

}  // namespace

std::string TextOf(const ast::Expr& expr) {
  return std::visit([](const auto& node) { return Text(node); }, expr.node);
}

std::string TextOf(const ast::Statement& statement) {
  return std::visit([](const auto& node) { return Text(node); }, statement.node);
}

std::string TextOf(const ast::File& file) {
  std::string out;
  for (const ast::Use& use : file.uses) absl::StrAppend(&out, "(use \"", use.path, "\")\n");
  for (const ast::Schedule& schedule : file.schedules) {
    absl::StrAppend(&out, "(schedule ", schedule.name.text, " (");
    const char* space = "";
    for (const ast::Option& option : schedule.parameters) {
      absl::StrAppend(&out, space, option.name.text);
      if (option.value) absl::StrAppend(&out, "=", TextOf(*option.value));
      space = " ";
    }
    absl::StrAppend(&out, ")", schedule.derived ? Text(*schedule.derived) : Text(schedule.body),
                    ")\n");
  }
  return out;
}

}  // namespace stringline
