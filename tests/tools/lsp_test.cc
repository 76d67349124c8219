// The language server: the real tool, spoken to by an editor; and in-process on bytes that no
// editor sends.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <random>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "schedlang/ask/schedule_library.h"
#include "tests/tools/editor_client.h"
#include "tests/tools/tool_run.h"
#include "tools/lsp/answers.h"
#include "tools/lsp/document.h"
#include "tools/lsp/names.h"
#include "tools/lsp/server.h"

namespace stringline {
namespace {

using LspJson = nlohmann::json;

const char* const kUri = "file:///folder/x.sched";

LspJson Document() { return {{"uri", kUri}}; }

LspJson At(int line, int character) {
  return {{"textDocument", Document()}, {"position", {{"line", line}, {"character", character}}}};
}

// Starts a session; the server's first message is about the text.
LspJson Open(EditorClient* editor, const std::string& text) {
  editor->Ask("initialize", {{"processId", nullptr}, {"capabilities", LspJson::object()}});
  editor->Notify("initialized", LspJson::object());
  editor->Notify("textDocument/didOpen",
                 {{"textDocument",
                   {{"uri", kUri}, {"languageId", "stringline"}, {"version", 1}, {"text", text}}}});
  return editor->Receive();
}

LspJson Change(EditorClient* editor, const LspJson& changes) {
  editor->Notify("textDocument/didChange",
                 {{"textDocument", {{"uri", kUri}, {"version", 2}}}, {"contentChanges", changes}});
  return editor->Receive();
}

std::string HoverOn(EditorClient* editor, int line, int character) {
  const LspJson answer = editor->Ask("textDocument/hover", At(line, character));
  const LspJson& result = answer["result"];
  return result.is_null() ? "" : result["contents"]["value"].get<std::string>();
}

// "line:character" of the definition of the name under the cursor; "" for nowhere.
std::string DefinitionOf(EditorClient* editor, int line, int character) {
  const LspJson answer = editor->Ask("textDocument/definition", At(line, character));
  const LspJson& result = answer["result"];
  if (result.is_null()) return "";
  const LspJson& start = result["range"]["start"];
  return absl::StrCat(start["line"].get<int>(), ":", start["character"].get<int>());
}

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const char* const kInterleavedBase =
    "schedule base(P, M, V = 2, extra = 0) {\n"                                      // 0
    "  let groups = M / P;\n"                                                        // 1
    "  let size(g) = min(g, M) + groups;\n"                                          // 2
    "  stages V * P on s -> s % P;\n"                                                // 3
    "  rank r {\n"                                                                   // 4
    "    order forward { repeat V as v { repeat M { F v * P + r } } }\n"             // 5
    "    order backward { repeat V as v { repeat M { B (V - 1 - v) * P + r } } }\n"  // 6
    "    let warmup = V * M - r + r;\n"                                              // 7
    "    repeat warmup { forward }\n"                                                // 8
    "    repeat warmup { backward }\n"                                               // 9
    "  }\n"                                                                          // 10
    "}\n";

TEST(LspTest, SaysWhatIsWrongWhileTyping) {
  EditorClient editor;
  LspJson said = Open(&editor,
                      "schedule s(P, M) {\n  require M > 0 \"größer 😀\"; stages P onn line;\n"
                      "  rank r { F r; B r }\n}\n");
  ASSERT_EQ(said["method"], "textDocument/publishDiagnostics");
  EXPECT_EQ(said["params"]["version"], 1);
  ASSERT_EQ(said["params"]["diagnostics"].size(), 1u) << said;
  const LspJson finding = said["params"]["diagnostics"][0];
  EXPECT_EQ(finding["code"], "syntax");
  EXPECT_EQ(finding["severity"], 1);
  // ü and ß are one UTF-16 unit each, 😀 is two.
  EXPECT_EQ(finding["range"]["start"], LspJson({{"line", 1}, {"character", 38}}));
  EXPECT_EQ(finding["range"]["end"], LspJson({{"line", 1}, {"character", 41}}));

  // A letter is deleted; now each stage lacks its other microbatches.
  said = Change(
      &editor,
      {{{"range",
         {{"start", {{"line", 1}, {"character", 40}}}, {"end", {{"line", 1}, {"character", 41}}}}},
        {"text", ""}}});
  EXPECT_EQ(said["params"]["version"], 2);
  ASSERT_FALSE(said["params"]["diagnostics"].empty());
  EXPECT_EQ(said["params"]["diagnostics"][0]["code"], "incomplete") << said;

  said = Change(
      &editor,
      {{{"range",
         {{"start", {{"line", 2}, {"character", 11}}}, {"end", {{"line", 2}, {"character", 11}}}}},
        {"text", "repeat M { "}},
       {{"range",
         {{"start", {{"line", 2}, {"character", 31}}}, {"end", {{"line", 2}, {"character", 31}}}}},
        {"text", "} "}}});
  EXPECT_TRUE(said["params"]["diagnostics"].empty()) << said;

  // The whole text at once; an undefined name.
  said = Change(&editor, {{{"text", "schedule s(P, M) { stages P on line; rank r { F rr } }"}}});
  ASSERT_EQ(said["params"]["diagnostics"].size(), 1u);
  EXPECT_EQ(said["params"]["diagnostics"][0]["code"], "unknown-name");

  editor.Notify("textDocument/didClose", {{"textDocument", Document()}});
  EXPECT_TRUE(editor.Receive()["params"]["diagnostics"].empty());
  EXPECT_TRUE(editor.Ask("textDocument/hover", At(0, 0))["result"].is_null());
  EXPECT_TRUE(editor.Ask("shutdown", nullptr)["result"].is_null());
  editor.Notify("exit", nullptr);
  EXPECT_EQ(editor.Wait(), 0);
}

TEST(LspTest, ADeadlockPointsToTheOtherPlaces) {
  EditorClient editor;
  const std::string path = SourceFolder() + "/examples/03_find_a_deadlock/broken.sched";
  const LspJson said = Open(&editor, ReadText(path));
  ASSERT_EQ(said["params"]["diagnostics"].size(), 1u) << said;
  const LspJson finding = said["params"]["diagnostics"][0];
  EXPECT_EQ(finding["code"], "progress");
  ASSERT_FALSE(finding["relatedInformation"].empty());
  EXPECT_EQ(finding["relatedInformation"][0]["location"]["uri"], kUri);
  // A schedule that hangs has no picture; a schedule without a plan has nothing to show.
  const std::vector<std::string> lines = Lines(ReadText(path));
  const auto header = std::find_if(lines.begin(), lines.end(),
                                   [](const auto& line) { return line.rfind("schedule", 0) == 0; });
  const std::string hover = HoverOn(&editor, static_cast<int>(header - lines.begin()), 1);
  EXPECT_TRUE(Contains(hover, "`schedule name")) << hover;
  EXPECT_FALSE(Contains(hover, "```")) << hover;
  Change(
      &editor,
      {{{"text", "schedule s(P, M) { require P > 99 \"many\"; stages P on line; rank r { } }"}}});
  EXPECT_FALSE(Contains(HoverOn(&editor, 0, 1), "```"));
}

TEST(LspTest, Hover) {
  EditorClient editor;
  EXPECT_TRUE(Open(&editor, kInterleavedBase)["params"]["diagnostics"].empty());
  EXPECT_TRUE(Contains(HoverOn(&editor, 5, 22), "n times, with i = 0, 1, …"));  // repeat
  const std::string forward = HoverOn(&editor, 5, 47);                          // F
  EXPECT_TRUE(Contains(forward, "the forward of stage s")) << forward;
  const std::string rank = HoverOn(&editor, 4, 3);
  EXPECT_TRUE(Contains(rank, "With P=4 M=8 V=2 extra=0:")) << rank;
  EXPECT_TRUE(Contains(rank, "rank 3: 3F0 3F1 3F2 ")) << rank;
  // The picture: rank 3's forwards wait for three hops.
  for (const std::string& text : {rank, HoverOn(&editor, 0, 3), HoverOn(&editor, 0, 10)}) {
    EXPECT_TRUE(Contains(text, "```\nbase P=4 M=8 V=2 extra=0  simulated: ")) << text;
    EXPECT_TRUE(Contains(text, "\nrank 3  ···F")) << text;
    EXPECT_TRUE(Contains(text, "F forward   B backward   · idle")) << text;
    for (const std::string& line : Lines(text)) {
      const bool in_picture = Contains(line, "rank 3  ");
      EXPECT_TRUE(!in_picture || Width(line) <= 96) << line;
    }
  }
  EXPECT_TRUE(Contains(HoverOn(&editor, 0, 10), "a schedule, line 1:"));
  const std::string groups = HoverOn(&editor, 2, 33);
  EXPECT_TRUE(Contains(groups, "let groups = M / P;")) << groups;
  EXPECT_TRUE(Contains(groups, "line 2")) << groups;
  EXPECT_TRUE(Contains(groups, "extra=0: 2\n")) << groups;
  const std::string warmup = HoverOn(&editor, 8, 12);
  EXPECT_TRUE(Contains(warmup, "rank 0: 16, rank 1: 16, rank 2: 16, rank 3: 16")) << warmup;
  const std::string order = HoverOn(&editor, 9, 22);
  EXPECT_TRUE(Contains(order, "an order, line 7")) << order;
  EXPECT_TRUE(Contains(order, "rank 1: 5B0 5B1 ")) << order;
  EXPECT_EQ(HoverOn(&editor, 10, 0), "");
  EXPECT_EQ(HoverOn(&editor, 1000, 1000), "");
}

TEST(LspTest, HoverOnOwnActions) {
  EditorClient editor;
  const std::string path = SourceFolder() + "/schedules/bpipe.sched";
  EXPECT_TRUE(Open(&editor, ReadText(path))["params"]["diagnostics"].empty());
  const std::vector<std::string> lines = Lines(ReadText(path));
  const auto place_of = [&](const std::string& words) {
    for (int line = 0; line < static_cast<int>(lines.size()); ++line) {
      const size_t at = lines[static_cast<size_t>(line)].find(words);
      if (at != std::string::npos) return std::pair(line, static_cast<int>(at));
    }
    ADD_FAILURE() << words;
    return std::pair(0, 0);
  };
  const auto [line, character] = place_of("EVICT r @ m");
  const std::string used = HoverOn(&editor, line, character + 1);
  EXPECT_TRUE(Contains(used, "an action of the schedule's own, line ")) << used;
  EXPECT_TRUE(Contains(used, "action EVICT s on copy_out")) << used;
  EXPECT_TRUE(Contains(used, "rank 0: 0EVICT2\n")) << used;
  const auto [row, from] = place_of("action EVICT s");
  const std::string defined = HoverOn(&editor, row, from + 8);
  EXPECT_TRUE(Contains(defined, "action EVICT s on copy_out")) << defined;
  EXPECT_FALSE(Contains(defined, "0EVICT2")) << defined;  // the row itself performs nothing
}

// A word, by its line and the text that begins with the word; and the place of its definition.
struct DefinitionCase {
  int line;
  const char* from;
  int defined_line;
  const char* definition;  // "" for nowhere
};

const DefinitionCase kDefinitionCases[] = {
    {1, "M / P", 0, "M, V"},        {2, "g, M", 2, "g) ="},
    {2, "M) +", 0, "M, V"},         {2, "groups", 1, "groups"},
    {3, "s % P", 3, "s ->"},        {3, "V * P", 0, "V = 2"},
    {5, "v * P", 5, "v { repeat"},  {5, "r } }", 4, "r {"},
    {6, "v) * P", 6, "v { repeat"}, {8, "forward", 5, "forward"},
    {9, "warmup", 7, "warmup"},     {7, "warmup", 7, "warmup"},
    {12, "base", 0, "base"},        {12, "P, M, extra", 12, "P, M, lag"},
    {12, "extra", 0, "extra"},      {12, "lag) then", 12, "lag = 1"},
    {12, "lag;", 12, "lag = 1"},    {13, "r;", 4, "r {"},
    {13, "base", 0, "base"},        {4, "rank", 0, ""},
    {12, "defer", 0, ""},
};

TEST(LspTest, Definitions) {
  EditorClient editor;
  const std::string text =
      absl::StrCat(kInterleavedBase,
                   "schedule tight(P, M, lag = 1) = base(P, M, extra = lag) then defer W by lag;\n"
                   "schedule late(P, M) = base(P, M) then defer W by r;\n");
  Open(&editor, text);
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  for (const DefinitionCase& test : kDefinitionCases) {
    const size_t from = lines[static_cast<size_t>(test.line)].find(test.from);
    ASSERT_NE(from, std::string::npos) << test.from;
    const size_t to = lines[static_cast<size_t>(test.defined_line)].find(test.definition);
    ASSERT_NE(to, std::string::npos) << test.definition;
    EXPECT_EQ(DefinitionOf(&editor, test.line, static_cast<int>(from)),
              *test.definition == '\0' ? "" : absl::StrCat(test.defined_line, ":", to))
        << test.line << ": " << test.from;
  }
}

TEST(LspTest, NamesAreFoundInTextsThatDoNotParse) {
  const std::string text = "schedule s(P, M) { let a = P; rank r { let b = a; F a + b @";
  const NameTable names(text);
  const DefinedName* found = names.Find(names.TokenAt(static_cast<uint32_t>(text.rfind('b'))));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->span.begin, text.find("b ="));
  EXPECT_EQ(names.Find(names.TokenAt(static_cast<uint32_t>(text.rfind('@')))), nullptr);
}

TEST(LspTest, PipesAndRanksHaveDefinitionsAndOrders) {
  EditorClient editor;
  const LspJson said = Open(&editor,
                            "schedule s(P, M) {\n"
                            "  pipe down { stages P on line;          microbatches M / 2; }\n"
                            "  pipe up   { stages P on reversed line; microbatches M / 2; }\n"
                            "  rank r {\n"
                            "    repeat M / 2 { F down[r]; B down[r] }\n"
                            "    repeat M / 2 { F up[P - 1 - r]; B up[P - 1 - r] }\n"
                            "  }\n"
                            "}\n");
  EXPECT_EQ(DefinitionOf(&editor, 4, 21), "1:7");
  EXPECT_EQ(DefinitionOf(&editor, 5, 21), "2:7");
  EXPECT_TRUE(said["params"]["diagnostics"].empty()) << said;
  const std::string rank = HoverOn(&editor, 3, 3);
  EXPECT_TRUE(Contains(rank, "rank 1: down[1]F0 down[1]B0 ")) << rank;
}

TEST(LspTest, Formatting) {
  EditorClient editor;
  const std::string ugly = "schedule s(P,M){\nstages P on line;\n rank r{repeat M{F r;B r}}\n}";
  Open(&editor, ugly);
  const LspJson options = {{"textDocument", Document()}, {"options", {{"tabSize", 2}}}};
  LspJson edits = editor.Ask("textDocument/formatting", options)["result"];
  ASSERT_EQ(edits.size(), 1u);
  EXPECT_EQ(edits[0]["newText"],
            "schedule s(P, M) {\n  stages P on line;\n  rank r { repeat M { F r; B r } }\n}\n");
  EXPECT_EQ(edits[0]["range"]["start"], LspJson({{"line", 0}, {"character", 0}}));
  EXPECT_EQ(edits[0]["range"]["end"], LspJson({{"line", 3}, {"character", 1}}));
  Change(&editor, {{{"text", edits[0]["newText"]}}});
  EXPECT_TRUE(editor.Ask("textDocument/formatting", options)["result"].empty());
  Change(&editor, {{{"text", "schedule"}}});
  EXPECT_TRUE(editor.Ask("textDocument/formatting", options)["result"].empty());
}

// The server answers every announced request, and announces every request that it answers.
TEST(LspTest, AnnouncesWhatItAnswers) {
  EditorClient editor;
  const LspJson said = editor.Ask("initialize", {{"capabilities", LspJson::object()}});
  const LspJson& capabilities = said["result"]["capabilities"];
  const LspJson expected = {
      {"textDocumentSync", {{"openClose", true}, {"change", 2}}},
      {"completionProvider", {{"triggerCharacters", {".", "\""}}}},
      {"hoverProvider", true},
      {"definitionProvider", true},
      {"referencesProvider", true},
      {"renameProvider", {{"prepareProvider", true}}},
      {"documentSymbolProvider", true},
      {"documentFormattingProvider", true},
  };
  EXPECT_EQ(capabilities, expected);
  // Nothing is known of a text that is not open.
  for (const TextRequest& request : TextRequests()) {
    const LspJson answer = editor.Ask(request.method, At(0, 0));
    EXPECT_TRUE(answer.contains("result") && answer["result"].is_null()) << answer;
  }
}

LspJson Params(int line, int character) {
  LspJson params = At(line, character);
  params["newName"] = "quite_new";
  params["context"] = {{"includeDeclaration", true}};
  return params;
}

TEST(LspTest, CompletionReplacesWhatIsTyped) {
  EditorClient editor;
  Open(&editor, "schedule s(P, M) {\n  require P \"😀\"; let größe = 1;\n  stages P on li\n}");
  LspJson items = editor.Ask("textDocument/completion", At(2, 16))["result"];
  ASSERT_EQ(items.size(), 5u) << items;
  EXPECT_EQ(items[0]["label"], "line");
  EXPECT_EQ(items[0]["textEdit"]["newText"], "line");
  EXPECT_EQ(items[0]["textEdit"]["range"]["start"], LspJson({{"line", 2}, {"character", 14}}));
  EXPECT_EQ(items[0]["textEdit"]["range"]["end"], LspJson({{"line", 2}, {"character", 16}}));
  EXPECT_TRUE(Contains(items[0]["documentation"]["value"], "stage s on rank s"));
  Change(&editor, {{{"text", "schedule s(P, M) { let size = 2 * P; let f(x) = "}}});
  items = editor.Ask("textDocument/completion", At(0, 48))["result"];
  std::string labels;
  for (const LspJson& item : items) absl::StrAppend(&labels, item["label"].get<std::string>(), " ");
  EXPECT_EQ(labels, "P M size x min max not ");
  EXPECT_EQ(items[2]["detail"], "a value, line 1");
  EXPECT_TRUE(Contains(items[2]["documentation"]["value"], "let size = 2 * P;"));
}

TEST(LspTest, ReferencesAndRename) {
  EditorClient editor;
  const std::string text =
      "schedule s(P, M) {\n"
      "  stages P on line; let size(r) = M - r; require P > 1 \"😀\"; let n = size(P);\n"
      "  rank r { let n2 = n; repeat n { F r }  repeat n2 { B r } }\n}\n";
  Open(&editor, text);
  const auto references = [&](int line, int character, bool with_definition) {
    LspJson params = Params(line, character);
    params["context"]["includeDeclaration"] = with_definition;
    std::string places;
    const LspJson answer = editor.Ask("textDocument/references", params);
    for (const LspJson& place : answer["result"]) {
      EXPECT_EQ(place["uri"], kUri);
      const LspJson& start = place["range"]["start"];
      absl::StrAppend(&places, start["line"].get<int>(), ":", start["character"].get<int>(), " ");
    }
    return places;
  };
  EXPECT_EQ(references(2, 20, true), "1:65 2:20 2:30 ");  // n, in UTF-16 units behind the 😀
  EXPECT_EQ(references(2, 20, false), "2:20 2:30 ");
  EXPECT_EQ(references(1, 29, true), "1:29 1:38 ");     // r of size
  EXPECT_EQ(references(2, 7, true), "2:7 2:36 2:55 ");  // r of the ranks
  EXPECT_EQ(references(2, 3, true), "");                // rank

  LspJson params = Params(2, 20);
  const LspJson prepared = editor.Ask("textDocument/prepareRename", params)["result"];
  EXPECT_EQ(prepared["placeholder"], "n");
  EXPECT_EQ(prepared["range"]["end"], LspJson({{"line", 2}, {"character", 21}}));
  const LspJson edits = editor.Ask("textDocument/rename", params)["result"]["changes"][kUri];
  ASSERT_EQ(edits.size(), 3u) << edits;
  EXPECT_EQ(edits[0]["newText"], "quite_new");
  EXPECT_EQ(edits[0]["range"]["start"], LspJson({{"line", 1}, {"character", 65}}));

  params["newName"] = "n2";
  const LspJson refused = editor.Ask("textDocument/rename", params)["error"];
  EXPECT_EQ(refused["code"], -32803);
  EXPECT_EQ(refused["message"], "'n2' is a value already, in line 3");
  EXPECT_EQ(editor.Ask("textDocument/prepareRename", Params(2, 3))["error"]["code"], -32803);
}

TEST(LspTest, Symbols) {
  EditorClient editor;
  Open(&editor, kInterleavedBase);
  const LspJson symbols =
      editor.Ask("textDocument/documentSymbol", {{"textDocument", Document()}})["result"];
  ASSERT_EQ(symbols.size(), 1u) << symbols;
  EXPECT_EQ(symbols[0]["name"], "base");
  EXPECT_EQ(symbols[0]["range"]["end"], LspJson({{"line", 11}, {"character", 1}}));
  EXPECT_EQ(symbols[0]["selectionRange"]["start"], LspJson({{"line", 0}, {"character", 9}}));
  const LspJson rank = symbols[0]["children"].back();
  EXPECT_EQ(rank["name"], "rank r");
  ASSERT_EQ(rank["children"].size(), 3u);
  EXPECT_EQ(rank["children"][2]["name"], "warmup");
}

TEST(LspTest, PlacesCountUtf16Units) {
  EditorText text("a😀b\r\nü\rc\n");
  EXPECT_EQ(text.OffsetAt({0, 0}), 0u);
  EXPECT_EQ(text.OffsetAt({0, 1}), 1u);
  EXPECT_EQ(text.OffsetAt({0, 3}), 5u);
  EXPECT_EQ(text.OffsetAt({0, 99}), 6u);
  EXPECT_EQ(text.OffsetAt({1, 1}), 10u);
  EXPECT_EQ(text.OffsetAt({2, 0}), 11u);
  EXPECT_EQ(text.OffsetAt({3, 0}), 13u);
  EXPECT_EQ(text.OffsetAt({99, 0}), 13u);
  EXPECT_EQ(text.OffsetAt({-1, -1}), 0u);
  EXPECT_EQ(text.PositionAt(5).character, 3);
  EXPECT_EQ(text.PositionAt(11).line, 2);
  // Far behind the beginning of a line, too.
  std::string line = "#";
  for (int i = 0; i < 100; ++i) line += "a😀ü";
  const EditorText wide("x\n" + line);
  for (const int i : {0, 1, 16, 17, 50, 99, 100}) {
    const auto offset = static_cast<uint32_t>(3 + 7 * i);
    EXPECT_EQ(wide.PositionAt(offset).character, 1 + 4 * i);
    EXPECT_EQ(wide.OffsetAt({1, 1 + 4 * i}), offset);
  }
  text.Replace({0, 3}, {1, 1}, "");
  EXPECT_EQ(text.text(), "a😀\rc\n");
}

TEST(LspTest, MalformedMessagesAreAnsweredOrSkipped) {
  EditorClient editor;
  EXPECT_EQ(editor.Ask("textDocument/hover", At(0, 0))["error"]["code"], -32002);
  Open(&editor, "schedule");
  editor.SendBytes("what is this\r\n\r\nContent-Length: many\r\n\r\n");
  editor.SendBytes("Content-Length: -5\r\n\r\nContent-Length: 3\r\nX: y\r\n\r\n{\"a");
  EXPECT_EQ(editor.Receive()["error"]["code"], -32700);
  for (const char* const body : {"[]", "3", "null", "{}", "{\"id\": 1.5}", "{\"method\": 3}"}) {
    editor.SendBytes(absl::StrCat("Content-Length: ", std::string(body).size(), "\r\n\r\n", body));
    EXPECT_EQ(editor.Receive()["error"]["code"], -32600) << body;
  }
  EXPECT_EQ(editor.Ask("textDocument/hover", nullptr)["error"]["code"], -32602);
  EXPECT_EQ(editor.Ask("textDocument/hover", {{"textDocument", 3}})["error"]["code"], -32602);
  EXPECT_EQ(editor.Ask("textDocument/codeLens", At(0, 0))["error"]["code"], -32601);
  LspJson wrong = At(0, 0);
  for (const LspJson& line : {LspJson("zero"), LspJson(0.5), LspJson(1e300), LspJson(nullptr)}) {
    wrong["position"]["line"] = line;
    EXPECT_EQ(editor.Ask("textDocument/hover", wrong)["error"]["code"], -32602) << line;
  }
  EXPECT_EQ(editor.Ask("textDocument/rename", At(0, 0))["error"]["code"], -32602);
  EXPECT_EQ(editor.Ask("textDocument/references", At(0, 0))["error"]["code"], -32602);
  // Notifications are not answered, whatever they are.
  editor.Notify("textDocument/didChange", {{"textDocument", Document()}});
  editor.Notify("textDocument/didOpen", 7);
  editor.Notify("no/such/thing", nullptr);
  EXPECT_EQ(HoverOn(&editor, 0, 1).rfind("`schedule name(P, M, …)", 0), 0u);
  editor.Ask("shutdown", nullptr);
  EXPECT_EQ(editor.Ask("textDocument/hover", At(0, 0))["error"]["code"], -32600);
  editor.CloseInput();
  EXPECT_EQ(editor.Wait(), 0);
}

TEST(LspTest, TheEndOfTheInputEndsIt) {
  for (const char* const bytes : {"", "Content-Length: 100\r\n\r\n{", "Content-Len", "\r\n\r\n"}) {
    EditorClient editor;
    editor.SendBytes(bytes);
    editor.CloseInput();
    EXPECT_EQ(editor.Wait(), 1) << bytes;
  }
}

std::string Framed(const LspJson& message) {
  const std::string body = message.dump(-1, ' ', false, LspJson::error_handler_t::replace);
  return absl::StrCat("Content-Length: ", body.size(), "\r\n\r\n", body);
}

// Messages for a server in this process; the only expectation is an answer to each.
class ManyQuestions {
 public:
  explicit ManyQuestions(unsigned seed) : seed_(seed), random_(seed) {
    in_ << Framed({{"id", 0}, {"method", "initialize"}});
    in_ << Framed({{"method", "textDocument/didOpen"},
                   {"params", {{"textDocument", {{"uri", kUri}, {"text", ""}}}}}});
    answers_ = 2;
  }

  // Replaces the text, and sends every request at a random place inside or outside the text.
  void Type(const std::string& text) {
    in_ << Framed(
        {{"method", "textDocument/didChange"},
         {"params", {{"textDocument", Document()}, {"contentChanges", {{{"text", text}}}}}}});
    const auto lines = static_cast<int>(std::count(text.begin(), text.end(), '\n'));
    const LspJson params =
        Params(static_cast<int>(Random(lines + 3)) - 1, static_cast<int>(Random(100)) - 1);
    for (const TextRequest& request : TextRequests()) {
      in_ << Framed({{"id", 1}, {"method", request.method}, {"params", params}});
    }
    answers_ += 1 + TextRequests().size();
  }

  void Ask() {
    std::istringstream input(in_.str());
    std::ostringstream out;
    EXPECT_EQ(ServeEditor(input, out), 1) << "seed " << seed_;
    size_t answers = 0;
    const std::string said = out.str();
    for (size_t at = said.find("\"jsonrpc\""); at != std::string::npos;
         at = said.find("\"jsonrpc\"", at + 1)) {
      ++answers;
    }
    EXPECT_EQ(answers, answers_) << "seed " << seed_;
    EXPECT_FALSE(Contains(said, "\"code\":-32602")) << "seed " << seed_;
  }

  size_t Random(size_t below) { return random_() % below; }

 private:
  const unsigned seed_;
  std::mt19937 random_;
  std::ostringstream in_;
  size_t answers_ = 0;
};

unsigned NewSeed() {
  const unsigned seed = std::random_device{}();
  std::cout << "seed " << seed << "\n";
  return seed;
}

// Every state of a text typed letter by letter, and mutations of the text: each request is
// answered.
TEST(LspTest, AnyTextIsAnswered) {
  ManyQuestions questions(NewSeed());
  const std::string whole = ReadText(SourceFolder() + "/schedules/interleaved.sched");
  for (size_t length = 0; length < whole.size(); length += 5) {
    questions.Type(whole.substr(0, length));
  }
  for (int i = 0; i < 400; ++i) {
    std::string text = whole;
    for (int k = 0; k < 3; ++k) {
      const size_t at = questions.Random(text.size());
      const size_t from = questions.Random(text.size());
      questions.Random(2) == 0 ? text.erase(at, 1 + questions.Random(6))
                               : text.insert(at, text.substr(from, 1 + questions.Random(6)));
    }
    questions.Type(text);
  }
  questions.Ask();
}

// Random parts of the library's files, one after the other.
TEST(LspTest, PartsOfTheLibraryAreAnswered) {
  ManyQuestions questions(NewSeed());
  for (const LibrarySchedule& schedule : ScheduleLibrary()) {
    const std::string whole = schedule.text;
    for (int i = 0; i < 25; ++i) {
      const size_t begin = questions.Random(3) == 0 ? questions.Random(whole.size()) : 0;
      const size_t middle = begin + questions.Random(whole.size() - begin);
      const size_t end = middle + questions.Random(whole.size() - middle);
      questions.Type(whole.substr(begin, middle - begin));
      questions.Type(whole.substr(0, middle) + whole.substr(end));
    }
  }
  questions.Ask();
}

// Long, deep, and all on a single line.
TEST(LspTest, LargeTextsAreAnswered) {
  std::string brackets = "schedule s(P, M) { let a = ", blocks, lets = "schedule s(P, M) { ";
  for (int i = 0; i < 20'000; ++i) {
    brackets += "(P ? ";
    blocks += "repeat P as i { order x { ";
    absl::StrAppend(&lets, "let a", i, " = P; ");
  }
  ManyQuestions questions(NewSeed());
  for (const std::string& text : {brackets, blocks, lets, lets + "}"}) questions.Type(text);
  questions.Ask();
}

TEST(LspTest, AnyBytesComeToAnEnd) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  std::cout << "seed " << seed << "\n";
  const std::string good =
      Framed({{"id", 0}, {"method", "initialize"}}) +
      Framed({{"method", "textDocument/didOpen"},
              {"params", {{"textDocument", {{"uri", kUri}, {"text", kInterleavedBase}}}}}}) +
      Framed({{"id", 1}, {"method", "textDocument/hover"}, {"params", At(4, 3)}});
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = good;
    for (int k = 0; k < 4; ++k) bytes[random() % bytes.size()] = static_cast<char>(random() % 256);
    std::istringstream in(bytes);
    std::ostringstream out;
    EXPECT_EQ(ServeEditor(in, out), 1) << "seed " << seed;
  }
}

}  // namespace
}  // namespace stringline
