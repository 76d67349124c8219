// The completions that an editor offers while a schedule is written.
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_join.h"
#include "schedlang/ask/schedule_library.h"
#include "schedlang/text/words.h"
#include "tools/lsp/complete.h"
#include "tools/lsp/names.h"

namespace stringline {
namespace {

std::vector<std::string> LabelsAt(const std::string& text, size_t offset) {
  const Source source("", text);
  std::vector<std::string> labels;
  const Completions found =
      CompleteAt(source, NameTable(source.text()), static_cast<uint32_t>(offset));
  for (const Completion& item : found.items) labels.push_back(item.label);
  return labels;
}

struct CompletionCase {
  const char* text;     // `|` is the place
  const char* offered;  // all labels in their order, with blanks between
};

const CompletionCase kCompletionCases[] = {
    // Beginnings of statements.
    {"schedule s(P, M) { | }",
     "let require stages pipe pad split recompute overlap chunks steps versions slices "
     "window slack edges skip forward "
     "value action rank"},
    {"schedule s(P, M) { stages P on line; r| }",
     "let require stages pipe pad split recompute overlap chunks steps versions slices "
     "window slack edges skip forward "
     "value action rank"},
    {"schedule s(P, M) { rank r { | } }",
     "order let require repeat if unshard reshard reduce update F B I W R D U"},
    {"schedule s(P, M) { rank r { order go { F r } repeat M { | } } }",
     "let require repeat if unshard reshard reduce update F B I W R D U go"},
    {"schedule s(P, M) { rank r { order go { | } } }", "let require repeat if F B I W"},
    {"schedule s(P, M) { rank r { if r { F r } | } }",
     "else order let require repeat if unshard reshard reduce update F B I W R D U"},
    {"schedule s(P, M) { rank r timetable { |", "tighten fill let require repeat if at"},
    {"schedule s(P, M) { rank r greedy { |", "hold prefer costs let require"},
    {"schedule s(P, M) { pipe up { |", "stages microbatches"},
    {"schedule s(P, M) { overlap F & B { |", "compute network"},
    // In the order of a lane.
    {"schedule s(P, M) { overlap F & B { compute { |", "F B I W"},
    {"schedule s(P, M) { overlap F & B { compute { F.| } } }", "attn dispatch experts combine"},
    {"schedule s(P, M) { overlap F & B { compute { F.attn W.| } } }", "attn experts"},
    {"schedule s(P, M) { overlap F & B { compute { F.attn | } } }", "F B I W"},
    // By the place of the action, from 1.
    {"schedule s(P, M) { overlap W & F & B { compute { 2.| } } }", "attn dispatch experts combine"},
    {"schedule s(P, M) { overlap W & F & B { compute { 1.| } } }", "attn experts"},
    {"schedule s(P, M) { overlap F & B { compute { 1.attn } network { 2.| } } }",
     "W attn dispatch experts combine"},
    {"schedule s(P, M) { overlap B & B { compute { 1.attn 2.W.| } } }", "attn experts"},
    {"schedule s(P, M) { overlap F & F { compute { 3.| } } }", ""},
    {"schedule s(P, M) { overlap F & F { compute { 0.| } } }", ""},
    {"schedule s(P, M) { stages 2.| }", ""},
    // Values: the visible names that have a value.
    {"schedule s(P, M, V = 2) { let a = |", "P M V min max not"},
    {"schedule s(P, M) { let a = 1; rank r { order go { F r } let b = 2; repeat |",
     "P M a r b min max not"},
    {"schedule s(P, M) { rank r { let b = 2; repeat b as i { F i + | } } }",
     "P M r b i min max not"},
    {"schedule s(P, M) { rank r { repeat M as i { F i } F | } }", "P M r min max not"},
    {"schedule s(P, M) { let f(x, y) = |x", "P M x y min max not"},
    {"schedule s(P, M) { let f(x, y) = x; stages f(P, |", "P M f min max not"},
    {"schedule s(P, M) { stages P on k -> |", "P M k min max not"},
    {"schedule s(P, M) { pipe up { stages P on line; microbatches | } }", "P M min max not"},
    {"schedule s(P, M) { rank r greedy { hold at most |", "P M r min max not"},
    {"schedule s(P, M) { rank r search { |",
     "minimize within prefer pairs costs iterations place layers split recompute "
     "offload let require"},
    {"schedule s(P, M) { rank r search { minimize |", "makespan span period"},
    {"schedule s(P, M) { rank r search { minimize span |", ""},
    {"schedule s(P, M) { rank r search { within |", "activations memory"},
    {"schedule s(P, M) { rank r search { within memory |", "P M r min max not"},
    {"schedule s(P, M) { rank r search { within memory P |", "and or"},
    {"schedule s(P, M) { rank r search { prefer F, |", "F B I W"},
    {"schedule s(P, M) { rank r search { pairs |", "F B I W"},
    {"schedule s(P, M) { rank r search { pairs F & |", "F B I W"},
    {"schedule s(P, M) { rank r search { pairs F |", ""},
    {"schedule s(P, M) { rank r search { pairs F & B |", "costs"},
    {"schedule s(P, M) { rank r search { pairs F & B costs |", "P M r min max not"},
    {"schedule s(P, M) { rank r search { costs F 1, |",
     "F B I W p2p saved_for_I saved_for_W stash input"},
    {"schedule s(P, M) { rank r search { costs saved_for_W |", "P M r min max not"},
    {"schedule s(P, M) { rank r search { iterations |", "P M r min max not"},
    {"schedule s(P, M) { rank r { F r @ |", "P M r min max not"},
    {"schedule s(P, M, V = |) { }", "P M min max not"},
    {"schedule s(P, M) { rank r timetable { at P ? 1 : | } }", "P M r min max not"},
    // Behind a value.
    {"schedule s(P, M) { stages P |", "and or on"},
    {"schedule s(P, M) { rank r { repeat M |", "and or as"},
    {"schedule s(P, M) { rank r { if (M |", "and or"},
    // Layouts, actions and other words in their place.
    {"schedule s(P, M) { stages P on |", "line loop v wave reversed"},
    {"schedule s(P, M) { stages P on w|; rank r { F r } }", "line loop v wave reversed"},
    {"schedule s(P, M) { stages P on reversed |", "line loop v wave"},
    {"schedule s(P, M) { split |", "even balanced any"},
    {"schedule s(P, M) { pad |", "microbatches"},
    {"schedule s(P, M) { pad microbatches |", "to"},
    {"schedule s(P, M) { overlap F & |", "F B I W"},
    {"schedule s(P, M) { rank r |", "timetable greedy search"},
    {"schedule s(P, M) { rank r { order go { F r } F r & |", "F B I W R go"},
    {"schedule s(P, M) { rank r timetable { at P : |", "F B I W R D U"},
    {"schedule s(P, M) { rank r timetable { fill |", "W"},
    {"schedule s(P, M) { rank r greedy { hold |", "at"},
    {"schedule s(P, M) { rank r greedy { hold at |", "most"},
    {"schedule s(P, M) { rank r greedy { prefer B, |", "F B I W R"},
    {"schedule s(P, M) { rank r greedy { costs F 1, |", "F B I W p2p microbatch"},
    // Derived schedules.
    {"schedule a(P, M, V = 2) { rank q { F q } } schedule b(P, M) = |", "a"},
    {"schedule a(P, M, V = 2) { rank q { F q } } schedule b(P, M) = a(P, M, |",
     "V P M min max not"},
    {"schedule a(P, M, V = 2) { rank q { F q } } schedule b(P, M) = a(P, M, V = |",
     "P M min max not"},
    {"schedule a(P, M) { rank q { F q } } schedule b(P, M) = a(P, M) |", "then"},
    {"schedule a(P, M) { rank q { F q } } schedule b(P, M) = a(P, M) then |",
     "defer recompute offload"},
    {"schedule a(P, M) { rank q { F q } } schedule b(P, M) = a(P, M) then defer |", "W"},
    {"schedule a(P, M) { rank q { F q } } schedule b(P, M) = a(P, M) then defer W |", "by"},
    {"schedule a(P, M) { rank q { F q } } schedule b(P, M) = a(P, M) then defer W by |",
     "P M min max not q"},
    // Nothing: new names, numbers, comments, texts in quotes, ends.
    {"schedule |", ""},
    {"schedule s(|", ""},
    {"schedule s(P, M|) { }", ""},
    {"schedule s(P, M, |", ""},
    {"schedule s(P, M) |", ""},
    {"schedule s(P, M) { let |", ""},
    {"schedule s(P, M) { let f(|", ""},
    {"schedule s(P, M) { let f(x|", ""},
    {"schedule s(P, M) { rank |", ""},
    {"schedule s(P, M) { rank r { repeat M as |", ""},
    {"schedule s(P, M) { rank r { F 3| } }", ""},
    {"schedule s(P, M) { # F |\n}", ""},
    {"schedule s(P, M) { # F\n | }",
     "let require stages pipe pad split recompute overlap chunks steps versions slices "
     "window slack edges skip forward "
     "value action rank"},
    {"schedule s(P, M) { require P \"|\"; }", ""},
    {"schedule s(P, M) { require P \"|", ""},
    {"schedule s(P, M) { require P \"a\" |", ""},
    {"schedule s(P, M) { stages P on line |", ""},
    {"# |", ""},
};

TEST(LspCompletionTest, WhatCanStandThere) {
  for (const CompletionCase& test : kCompletionCases) {
    std::string text = test.text;
    const size_t at = text.find('|');
    text.erase(at, 1);
    EXPECT_EQ(absl::StrJoin(LabelsAt(text, at), " "), test.offered) << test.text;
  }
}

TEST(LspCompletionTest, FilesThatAreUsed) {
  for (const char* const text : {"use \"", "use \"zb", "use \"\";\nschedule s(P, M) { }"}) {
    const Source source("", text);
    const uint32_t at = std::string(text) == "use \"zb" ? 7 : 5;
    const Completions found = CompleteAt(source, NameTable(source.text()), at);
    EXPECT_EQ(found.items.size(), ScheduleLibrary().size()) << text;
    EXPECT_EQ(found.replaced, (Span{5, at})) << text;
  }
}

TEST(LspCompletionTest, SchedulesOfTheLibraryBeginAFile) {
  const std::vector<std::string> labels = LabelsAt("# mine\n", 7);
  const Source source("", "zb");
  const Completions found = CompleteAt(source, NameTable(source.text()), 2);
  EXPECT_EQ(found.replaced, (Span{0, 2}));
  for (const LibrarySchedule& schedule : ScheduleLibrary()) {
    EXPECT_EQ(std::count(labels.begin(), labels.end(), schedule.name), 1) << schedule.name;
    const auto item = std::find_if(found.items.begin(), found.items.end(),
                                   [&](const auto& i) { return i.label == schedule.name; });
    ASSERT_NE(item, found.items.end());
    EXPECT_EQ(item->inserted, schedule.text);
  }
  EXPECT_EQ(std::count(labels.begin(), labels.end(), "schedule"), 1);
}

// True if the word is a name at its definition.
bool IsDefinition(const NameTable& names, size_t token) {
  const DefinedName* const name = names.Find(token);
  return name != nullptr && name->span == names.tokens()[token].span;
}

// Every word of the library is among the completions offered when the text ends before the word, or
// in it.
TEST(LspCompletionTest, OffersWhatTheLibrarySays) {
  int offered = 0;
  for (const LibrarySchedule& schedule : ScheduleLibrary()) {
    const std::string text = schedule.text;
    const NameTable whole(text);
    for (size_t i = 0; i + 1 < whole.tokens().size(); ++i) {
      const Token& token = whole.tokens()[i];
      if (token.kind != Token::Kind::kName) continue;
      for (const uint32_t typed : {0u, 1u}) {
        const uint32_t at = token.span.begin + typed;
        const Source source("", text.substr(0, at));
        const Completions found = CompleteAt(source, NameTable(source.text()), at);
        if (IsDefinition(whole, i)) {
          // A stage's number stands where layouts do.
          if (whole.Find(i)->sort == NameSort::kStageVariable) continue;
          EXPECT_TRUE(found.items.empty()) << schedule.name << ": " << token.text;
          continue;
        }
        const bool there = std::any_of(found.items.begin(), found.items.end(),
                                       [&](const auto& item) { return item.label == token.text; });
        EXPECT_TRUE(there) << schedule.name << ":" << Source("", text).Locate(at).line << ": '"
                           << token.text << "'";
        EXPECT_EQ(found.replaced, (Span{token.span.begin, at})) << token.text;
        ++offered;
      }
    }
  }
  EXPECT_GT(offered, 2000);
}

}  // namespace
}  // namespace stringline
