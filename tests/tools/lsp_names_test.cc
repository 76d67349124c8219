// Names in the editor: their definitions, their uses, renaming, the outline.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/ask/schedule_library.h"
#include "schedlang/elaborate/elaborate.h"
#include "schedlang/plan/plan.h"
#include "schedlang/text/parse.h"
#include "schedlang/text/words.h"
#include "tests/tools/tool_run.h"
#include "tools/lsp/names.h"
#include "tools/lsp/rename.h"
#include "tools/lsp/symbols.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

// `|` in a text marks a word. Returns the word's offset, and removes the mark.
uint32_t TakeMark(std::string* text) {
  const size_t at = text->find('|');
  EXPECT_NE(at, std::string::npos) << *text;
  text->erase(at, 1);
  return static_cast<uint32_t>(at);
}

std::string WithSpans(const std::string& text, const std::vector<Span>& spans,
                      const std::string& to) {
  std::string renamed = text;
  for (auto span = spans.rbegin(); span != spans.rend(); ++span) {
    renamed.replace(span->begin, span->end - span->begin, to);
  }
  return renamed;
}

// Every word that means the same as the marked word, in brackets.
struct UseCase {
  const char* text;  // `|` before a word
  const char* uses;  // the text with «» around the words that mean the same; "": no name
};

const UseCase kUseCases[] = {
    // Functions' arguments, ranks, passes and stages: equal words in other places are other names.
    {"schedule s(P, M) { let f(|x) = x + P; let g(x) = x; rank x { F f(x) } }",
     "schedule s(P, M) { let f(«x») = «x» + P; let g(x) = x; rank x { F f(x) } }"},
    {"schedule s(P, M) { let f(x) = x + P; let g(x) = x; rank |x { F f(x) } }",
     "schedule s(P, M) { let f(x) = x + P; let g(x) = x; rank «x» { F f(«x») } }"},
    {"schedule s(P, M) { stages P on s -> |s; let t = s; rank s { F s } }",
     "schedule s(P, M) { stages P on «s» -> «s»; let t = s; rank s { F s } }"},
    {"schedule s(P, M) { rank r { repeat |v as v { F v } let v = 1; F v } }", ""},
    {"schedule s(P, M) { rank r { repeat P as |v { F v } let v = 1; F v } }",
     "schedule s(P, M) { rank r { repeat P as «v» { F «v» } let v = 1; F v } }"},
    {"schedule s(P, M) { rank r { repeat P as v { F v } let v = 1; F |v } }",
     "schedule s(P, M) { rank r { repeat P as v { F v } let «v» = 1; F «v» } }"},
    // Blocks end names.
    {"schedule s(P, M) { rank r { if r { let a = 1; F a } else { let |a = 2; F a } F a } }",
     "schedule s(P, M) { rank r { if r { let a = 1; F a } else { let «a» = 2; F «a» } F a } }"},
    // A value is known behind its statement, a parameter behind its default.
    {"schedule s(P, M) { let a = 1; rank r { F a } } schedule t(P, M) { let |a = 2; rank r { F a } "
     "}",
     "schedule s(P, M) { let a = 1; rank r { F a } } schedule t(P, M) { let «a» = 2; rank r { F "
     "«a» } "
     "}"},
    {"schedule s(P, M, V = |V) { stages V on line; }", ""},
    {"schedule s(P, M, |V = 2, G = V) { stages V * G on line; }",
     "schedule s(P, M, «V» = 2, G = «V») { stages «V» * G on line; }"},
    {"schedule s(P, M) { let a = |a; rank r { F a } }", ""},
    // Words with a meaning only in their place are no names there.
    {"schedule s(P, M, |v = 1) { stages 2 * P on v; rank r { repeat M as m { F v } } }",
     "schedule s(P, M, «v» = 1) { stages 2 * P on v; rank r { repeat M as m { F «v» } } }"},
    {"schedule s(P, M, |reversed = 1) { stages P on reversed line; rank r { F reversed } }",
     "schedule s(P, M, «reversed» = 1) { stages P on reversed line; rank r { F «reversed» } }"},
    {"schedule s(P, M, even = 1) { stages P on reversed |even -> even; rank r { F even } }",
     "schedule s(P, M, even = 1) { stages P on reversed «even» -> «even»; rank r { F even } }"},
    {"schedule s(P, M, |even = 1) { split even; rank r { F even } }",
     "schedule s(P, M, «even» = 1) { split even; rank r { F «even» } }"},
    {"schedule s(P, M, |most = 1) { rank most2 greedy { hold at most most; } }",
     "schedule s(P, M, «most» = 1) { rank most2 greedy { hold at most «most»; } }"},
    {"schedule s(P, M, |compute = 1) { overlap F & B { compute { F.compute } network { } } rank r "
     "{ "
     "repeat compute { F r } } }",
     "schedule s(P, M, «compute» = 1) { overlap F & B { compute { F.compute } network { } } rank r "
     "{ "
     "repeat «compute» { F r } } }"},
    // Numbers of stages, each known in its own row.
    {"schedule s(P, M) { rank r greedy { costs F |s -> s, B s -> 2 + s, I s; } }",
     "schedule s(P, M) { rank r greedy { costs F «s» -> «s», B s -> 2 + s, I s; } }"},
    {"schedule s(P, M) { rank r search { pairs F & B costs |s -> s; let s = 1; } }",
     "schedule s(P, M) { rank r search { pairs F & B costs «s» -> «s»; let s = 1; } }"},
    {"schedule s(P, M, |memory = 1) { rank r search { within memory memory; } }",
     "schedule s(P, M, «memory» = 1) { rank r search { within memory «memory»; } }"},
    {"schedule s(P, M, |stash = 1) { rank r search { costs F stash, stash stash; } }",
     "schedule s(P, M, «stash» = 1) { rank r search { costs F «stash», stash «stash»; } }"},
    {"schedule s(P, M, |span = 1) { rank r search { minimize span; iterations span; } }",
     "schedule s(P, M, «span» = 1) { rank r search { minimize span; iterations «span»; } }"},
    {"schedule s(P, M, p2p = 1) { rank r greedy { costs F 1, p2p |p2p; } }",
     "schedule s(P, M, «p2p» = 1) { rank r greedy { costs F 1, p2p «p2p»; } }"},
    {"schedule s(P, M) { split |even -> even + 1; let even = P; }",
     "schedule s(P, M) { split «even» -> «even» + 1; let even = P; }"},
    // Derived schedules.
    {"schedule s(P, M, |e = 0) { rank r { F e } } schedule t(P, M, e = 1) = s(P, M, e = e);",
     "schedule s(P, M, «e» = 0) { rank r { F «e» } } schedule t(P, M, e = 1) = s(P, M, «e» = e);"},
    {"schedule s(P, M, e = 0) { rank r { F e } } schedule t(P, M, |e = 1) = s(P, M, e = e);",
     "schedule s(P, M, e = 0) { rank r { F e } } schedule t(P, M, «e» = 1) = s(P, M, e = «e»);"},
    {"schedule |s(P, M) { rank r { F s } } schedule t(P, M) = s(P, M); schedule u(P, M) = s(s, M);",
     "schedule «s»(P, M) { rank r { F s } } schedule t(P, M) = «s»(P, M); schedule u(P, M) = "
     "«s»(s, "
     "M);"},
    {"schedule u(P, M) = t(P, M) then defer W by r; schedule s(P, M) { rank |r { F r } } "
     "schedule t(P, M) = s(P, M) then defer W by r;",
     "schedule u(P, M) = t(P, M) then defer W by «r»; schedule s(P, M) { rank «r» { F «r» } } "
     "schedule t(P, M) = s(P, M) then defer W by «r»;"},
    {"schedule s(P, M) { rank r { F r } } schedule t(P, M, |r = 1) = s(P, M) then defer W by r;",
     "schedule s(P, M) { rank r { F r } } schedule t(P, M, «r» = 1) = s(P, M) then defer W by "
     "«r»;"},
    {"schedule s(P, M) = t(P, M) then defer W by |r; schedule t(P, M) = s(P, M);", ""},
    // Pipes and orders.
    {"schedule s(P, M) { pipe |up { stages P on line; microbatches M; } rank r { F up[r] } }",
     "schedule s(P, M) { pipe «up» { stages P on line; microbatches M; } rank r { F «up»[r] } }"},
    {"schedule s(P, M) { rank r { order |go { F go } go & F r; go } }",
     "schedule s(P, M) { rank r { order «go» { F go } «go» & F r; «go» } }"},
    // Half-written texts.
    {"schedule s(P, M) { let |a = 3 rank r { F a + @",
     "schedule s(P, M) { let «a» = 3 rank r { F «a» + @"},
    {"schedule s(P, M) { rank r { repeat M as |m { F m schedule t(P, M) { F m",
     "schedule s(P, M) { rank r { repeat M as «m» { F «m» schedule t(P, M) { F m"},
    {"schedule s(P, M) { let f(|x = x", "schedule s(P, M) { let f(«x» = x"},
    {"F |a", ""},
    {"schedule s(P, M) { |rank r { F r } }", ""},
    {"schedule s(P, M) { require P \"|P\"; }", ""},
};

TEST(LspNamesTest, AllUsesAndNoOthers) {
  for (const UseCase& test : kUseCases) {
    std::string text = test.text;
    const uint32_t offset = TakeMark(&text);
    const NameTable names(text);
    const int32_t name = names.NameOf(names.TokenAt(offset));
    std::string marked;
    if (name >= 0) {
      uint32_t at = 0;
      for (const size_t word : names.WordsOf(name)) {
        const Span span = names.tokens()[word].span;
        absl::StrAppend(&marked, text.substr(at, span.begin - at), "«", names.tokens()[word].text,
                        "»");
        at = span.end;
      }
      absl::StrAppend(&marked, text.substr(at));
    }
    EXPECT_EQ(marked, test.uses) << test.text;
  }
}

struct RenameCase {
  const char* text;
  const char* to;
  const char* refusal;  // a part of the refusal; "": renamed
};

const char* const kTaken =
    "schedule s(P, M, V = 2) {\n let |a = V;\n rank r { order go { F r } go }\n}";

const RenameCase kRenameCases[] = {
    {kTaken, "b", ""},
    {kTaken, "a", ""},
    {kTaken, "line", ""},
    {kTaken, "V", "'V' is a parameter already, in line 1"},
    {kTaken, "r", "'r' is the number of the rank already, in line 3"},
    {kTaken, "go", "'go' is an order already, in line 3"},
    {kTaken, "s", ""},
    {kTaken, "repeat", "'repeat' is a word of the language"},
    {kTaken, "F", "'F' is a word of the language"},
    {kTaken, "min", "'min' is a word of the language"},
    {kTaken, "search", "'search' is a word of the language"},
    {kTaken, "", "'' is no name"},
    {kTaken, "3a", "'3a' is no name"},
    {kTaken, "a b", "'a b' is no name"},
    {kTaken, "a ", "'a ' is no name"},
    {kTaken, "a#", "'a#' is no name"},
    {kTaken, "grün", "'grün' is no name"},
    {"schedule s(|P, M) { }", "Q", "called P and M"},
    {"schedule s(P, M) { |stages P on line; }", "b", "'stages' is a word of the language"},
    {"schedule s(P, M) { stages P on |line; }", "b", "'line' is a word of the language"},
    {"schedule s(P, M) { F |what }", "b", "'what' is defined nowhere in this file"},
    {"schedule s(P, M) | { }", "b", "no name stands here"},
    // Names in other blocks are other names, and may be called alike.
    {"schedule s(P, M) { let f(|x) = x; rank r { F f(r) } }", "r", ""},
    {"schedule |s(P, M) { } schedule t(P, M) { }", "t", "'t' is a schedule already, in line 1"},
    // The rank of the base would be taken for a parameter, silently.
    {"schedule s(P, M) { rank |r { F r } }\nschedule t(P, M, q = 1) = s(P, M) then defer W by r;",
     "q", "'q' would mean something else in line 2"},
    {"schedule s(P, M) { rank r { F r } }\nschedule t(P, M, |q = 1) = s(P, M) then defer W by r;",
     "r", "'r' would mean something else in line 2"},
};

TEST(LspNamesTest, RenameRefusesWhatIsTaken) {
  for (const RenameCase& test : kRenameCases) {
    std::string text = test.text;
    const uint32_t offset = TakeMark(&text);
    const Source source("", text);
    const auto spans = Rename(source, NameTable(source.text()), offset, test.to);
    const std::string said(spans.ok() ? "" : spans.status().message());
    if (*test.refusal == '\0') {
      EXPECT_EQ(said, "") << test.text;
    } else {
      EXPECT_TRUE(absl::StrContains(said, test.refusal)) << test.text << ": " << said;
    }
  }
}

// The plan of every schedule of the text, without the names that are printed with it; "" for a
// schedule that does not elaborate.
std::vector<std::string> NamelessPlans(const std::string& text) {
  Diagnostics findings;
  const std::optional<ast::File> file = Parse(Source("", text), &findings);
  std::vector<std::string> plans;
  if (!file) return plans;
  for (const ast::Schedule& schedule : file->schedules) {
    Diagnostics its_own;
    std::optional<Plan> plan =
        Elaborate(*file, schedule.name.text, {{"P", 4}, {"M", 8}}, &its_own, {.actions = 20'000});
    if (!plan || !its_own.empty()) {
      plans.push_back("");
      continue;
    }
    plan->schedule = "s";
    for (size_t i = 0; i < plan->parameters.size(); ++i) {
      plan->parameters[i].name = absl::StrCat("p", i);
    }
    for (size_t i = 0; i < plan->rows.values.size(); ++i) {
      plan->rows.values[i].name = absl::StrCat("v", i);
    }
    for (size_t i = 0; i < plan->rows.actions.size(); ++i) {
      plan->rows.actions[i].name = absl::StrCat("A", std::string(i, 'A'));
    }
    for (size_t i = 0; i < plan->pipes.size(); ++i) plan->pipes[i].name = absl::StrCat("pipe", i);
    plans.push_back(Print(*plan));
  }
  return plans;
}

bool AnyElaborates(const std::vector<std::string>& plans) {
  return std::any_of(plans.begin(), plans.end(), [](const auto& plan) { return !plan.empty(); });
}

// Texts with all features of the language: the library and the golden files.
std::map<std::string, std::string> GoodTexts() {
  std::map<std::string, std::string> texts;
  for (const LibrarySchedule& schedule : ScheduleLibrary()) texts[schedule.name] = schedule.text;
  for (const auto& entry : fs::recursive_directory_iterator(SourceFolder() + "/tests/golden")) {
    if (entry.path().extension() != ".sched") continue;
    const std::string text = ReadText(entry.path().string());
    if (AnyElaborates(NamelessPlans(text))) texts[entry.path().string()] = text;
  }
  return texts;
}

// Every possible new name: a new word, words with a meaning only in their place, and all other
// names of the text.
std::set<std::string> SpellingsFor(const NameTable& names) {
  std::set<std::string> spellings = {"quite_new"};
  for (const WordRow& row : AllWords()) {
    if (row.sort == WordSort::kInPlace) spellings.insert(row.word);
  }
  for (const DefinedName& name : names.names()) spellings.insert(name.text);
  return spellings;
}

// The names of a text under other names: the same plan, or a justified refusal.
TEST(LspNamesTest, RenamingChangesNoPlan) {
  int renamed = 0, refused = 0;
  for (const auto& [path, text] : GoodTexts()) {
    const Source source("", text);
    const NameTable names(source.text());
    const std::vector<std::string> plans = NamelessPlans(text);
    for (size_t i = 0; i < names.names().size(); ++i) {
      const DefinedName& name = names.names()[i];
      if (name.text == "P" || name.text == "M") continue;
      for (const std::string& to : SpellingsFor(names)) {
        if (to == name.text) continue;
        // Actions are in capital letters.
        if (name.sort == NameSort::kOwnAction && to == "quite_new") continue;
        const auto spans = Rename(source, names, name.span.begin, to);
        if (spans.ok()) {
          ++renamed;
          ASSERT_FALSE(spans->empty());
          ASSERT_EQ(NamelessPlans(WithSpans(text, *spans, to)), plans)
              << path << ": " << name.text << " in line " << source.Locate(name.span.begin).line
              << " to " << to;
          continue;
        }
        ++refused;
        ASSERT_NE(to, "quite_new") << path << ": " << name.text << ": " << spans.status().message();
        std::vector<Span> forced;
        for (const size_t word : names.WordsOf(static_cast<int32_t>(i))) {
          forced.push_back(names.tokens()[word].span);
        }
        ASSERT_NE(NamelessPlans(WithSpans(text, forced, to)), plans)
            << path << ": " << name.text << " could be " << to << ": " << spans.status().message();
      }
    }
  }
  EXPECT_GT(renamed, 2000);
  EXPECT_GT(refused, 500);
}

void AppendOutline(const std::vector<OutlineEntry>& entries, const std::string& text,
                   const std::string& indent, std::string* lines) {
  for (const OutlineEntry& entry : entries) {
    const Span whole = entry.name->whole;
    EXPECT_LE(whole.begin, entry.name->span.begin);
    EXPECT_GE(whole.end, entry.name->span.end);
    const std::string last = text.substr(whole.end - 1, 1);
    absl::StrAppend(lines, indent, entry.title, " ... ", last, "\n");
    AppendOutline(entry.inside, text, indent + "  ", lines);
  }
}

std::string OutlineText(const std::string& text) {
  std::string lines;
  AppendOutline(OutlineOf(NameTable(text)), text, "", &lines);
  return lines;
}

TEST(LspNamesTest, TheOutlineIsNestedAsTheTextIs) {
  const std::string text =
      "schedule base(P, M, V = 2) {\n"
      "  let groups = M / P;\n"
      "  let size(g, h) = min(g, h);\n"
      "  pipe down { stages P on s -> s; microbatches M; }\n"
      "  rank r {\n"
      "    order forward { repeat V as v { let k = v; F k } }\n"
      "    let warmup = M - r;\n"
      "    repeat warmup { forward }\n"
      "  }\n"
      "}\n"
      "schedule tight(P, M, lag = 1) = base(P, M) then defer W by lag;\n";
  const std::string outline =
      "base ... }\n"
      "  P ... P\n"
      "  M ... M\n"
      "  V ... V\n"
      "  groups ... ;\n"
      "  size(g, h) ... ;\n"
      "  down ... }\n"
      "  rank r ... }\n"
      "    forward ... }\n"
      "      k ... ;\n"
      "    warmup ... ;\n"
      "tight ... ;\n"
      "  P ... P\n"
      "  M ... M\n"
      "  lag ... g\n";
  EXPECT_EQ(OutlineText(text), outline);
  // A half-written text.
  EXPECT_EQ(OutlineText("schedule s(P, M) { let a = 3 rank r { order go { F"),
            "s ... F\n  P ... P\n  M ... M\n  a ... 3\n  rank r ... F\n    go ... F\n");
  EXPECT_EQ(OutlineText("schedule"), "");
  // Deeper than any stack.
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "order a { ";
  EXPECT_LT(Lines(OutlineText(deep)).size(), 300u);
}

}  // namespace
}  // namespace stringline
