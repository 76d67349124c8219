// Files that use files, in every command and in editors: all read them alike.
#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "schedlang/ask/open_source.h"
#include "tests/tools/editor_client.h"
#include "tests/tools/prepared_run.h"
#include "tests/tools/tool_run.h"
#include "tools/lsp/used_texts.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDerived =
    "use \"base/one.sched\";\n"
    "schedule derived(P, M) = one_f_one_b(P, M) then defer W by r;\n";

// An emptied folder with derived.sched, and the library's 1F1B beside it in base/. The folder may
// be this process's current folder, so it is not made anew.
std::string UseFolder() {
  const std::string folder = ScratchFolder() + "/use";
  fs::create_directories(folder);
  for (const auto& entry : fs::directory_iterator(folder)) fs::remove_all(entry.path());
  fs::create_directories(folder + "/base");
  WriteText(folder + "/derived.sched", kDerived);
  WriteText(folder + "/base/one.sched", ReadText(SourceFolder() + "/schedules/1f1b.sched"));
  return folder;
}

TEST(UseTest, EveryCommandReadsWhatAFileUses) {
  const std::string folder = UseFolder();
  const std::string inner = folder + "/base";
  const std::string words[] = {
      "check derived.sched P=2 M=4",
      "check derived.sched --for P=2..4 --for M=2..4",
      "plan derived.sched P=2 M=4",
      "sim derived.sched P=2 M=4",
      "sim derived.sched zb_h1 P=2 --for M=4..6",
      "show derived.sched P=2 M=4 --html page.html --svg picture.svg --perfetto trace.pftrace",
      "explain derived.sched 1I1 P=2 M=4",
      "compare derived.sched zb_h1 P=2 M=4",
      "report derived.sched P=2 M=4",
      "export derived.sched P=2 M=4 --to torch-compute",
      "rehearse derived.sched P=2 M=4 --cost F=10us,I=10us,W=10us,p2p=1us",
      "fmt --check derived.sched",
  };
  for (const std::string& command : words) {
    const Answer answer = RunToolIn(folder, Words(command));
    EXPECT_EQ(answer.status, 0) << command << "\n" << answer.out << answer.err;
  }
  // Paths are relative to the file that contains `use`, from wherever the tool is called.
  const Answer inside = RunToolIn(inner, Words("plan ../derived.sched P=2 M=4"));
  EXPECT_EQ(inside.out, RunToolIn(folder, Words("plan derived.sched P=2 M=4")).out);
  EXPECT_NE(ReadText(folder + "/page.html").find("\"file\":\"base/one.sched\""), std::string::npos);
}

TEST(UseTest, ARunTrainsWithIt) {
  const std::string folder = PrepareRun();
  fs::create_directories(folder + "/base");
  WriteText(folder + "/base/one.sched", ReadText(SourceFolder() + "/schedules/1f1b.sched"));
  WriteText(folder + "/s.sched", kDerived);
  const Answer answer = RunToolIn(folder, Words("run run.yaml"));
  EXPECT_EQ(answer.status, 0) << answer.err;
}

TEST(UseTest, StandardInputStandsInTheWorkingDirectory) {
  const std::string folder = UseFolder();
  const auto read = [&folder](const char* text) {
    std::istringstream input(text);
    std::streambuf* const before = std::cin.rdbuf(input.rdbuf());
    const Answer answer = RunToolIn(folder, Words("plan - P=2 M=4"));
    std::cin.rdbuf(before);
    return answer.out + answer.err;
  };
  EXPECT_EQ(read(kDerived), RunToolIn(folder, Words("plan derived.sched P=2 M=4")).out);
  EXPECT_EQ(read("use \"one.sched\";\nschedule s(P, M) = one_f_one_b(P, M);\n"),
            "<stdin>:1:5: error: one.sched: no such file\n"
            "    1 | use \"one.sched\";\n"
            "      |     ^~~~~~~~~~~\n");
}

TEST(UseTest, AFindingNamesTheFileItIsIn) {
  const std::string folder = UseFolder();
  WriteText(
      folder + "/base/one.sched",
      "schedule one_f_one_b(P, M) {\n  stages P on line;\n  rank r { repeat M { F r } B r }\n}\n");
  const Answer answer = RunToolIn(folder, Words("check derived.sched P=2 M=4 --json"));
  EXPECT_EQ(answer.status, 1);
  EXPECT_NE(answer.out.find("\"file\":\"base/one.sched\",\"line\":3,"), std::string::npos)
      << answer.out;
  const Answer text = RunToolIn(folder, Words("check derived.sched P=2 M=4"));
  EXPECT_EQ(text.out.rfind(
                "base/one.sched:3:29: error: stage 0 on rank 0: microbatch 1 has no backward", 0),
            0u)
      << text.out;
}

TEST(UseTest, TheLibraryIsFoundByName) {
  const std::string folder = UseFolder();
  // A library schedule by its name alone, but only without a file of this name.
  auto library = OpenUsed("1f1b", folder + "/derived.sched");
  ASSERT_TRUE(library.ok());
  EXPECT_EQ(library->path(), "1f1b");
  WriteText(folder + "/1f1b", "schedule mine(P, M) { }\n");
  library = OpenUsed("1f1b", folder + "/derived.sched");
  ASSERT_TRUE(library.ok());
  EXPECT_EQ(library->path(), folder + "/1f1b");
  // Names used in a library schedule are found in the library.
  for (const char* const name : {"1f1b", "1f1b.sched"}) {
    const auto beside = OpenUsed(name, "zb_h1");
    ASSERT_TRUE(beside.ok()) << beside.status();
    EXPECT_EQ(beside->path(), "1f1b");
  }
  EXPECT_EQ(OpenUsed("1f1c.sched", "zb_h1").status().message(),
            "1f1c.sched: is no file beside it, and no schedule of the library; did you mean "
            "'1f1b'?");
  EXPECT_EQ(OpenUsed("zb_v.sched", folder + "/derived.sched").status().message(),
            folder +
                "/zb_v.sched: no such file; 'use \"zb_v\";' is the library's schedule of that "
                "name");
  EXPECT_EQ(OpenUsed("", "x.sched").status().message(), "the name of the file is empty");
  EXPECT_EQ(OpenUsed("base", folder + "/derived.sched").status().message(),
            folder + "/base: is a directory, not a file");
}

TEST(UseTest, APathOfAnEditor) {
  EXPECT_EQ(PathOfUri("file:///a/b%20c/%C3%A4.sched"), "/a/b c/\xC3\xA4.sched");
  EXPECT_EQ(PathOfUri("file:///100%/x%2"), "/100%/x%2");
  EXPECT_EQ(PathOfUri("untitled:Untitled-1"), "untitled:Untitled-1");
}

using EditorJson = nlohmann::json;

void OpenIn(EditorClient* editor, const std::string& uri, const std::string& text) {
  editor->Notify("textDocument/didOpen",
                 {{"textDocument",
                   {{"uri", uri}, {"languageId", "stringline"}, {"version", 1}, {"text", text}}}});
}

// "URI line: message" of every finding in the server's next message, which is about a single text.
std::string NextSaid(EditorClient* editor) {
  const EditorJson said = editor->Receive();
  const EditorJson& params = said["params"];
  std::string text = params["uri"].get<std::string>() + ":";
  for (const EditorJson& finding : params["diagnostics"]) {
    absl::StrAppend(&text, " ", finding["range"]["start"]["line"].get<int>(), ":",
                    finding["range"]["start"]["character"].get<int>(), " ",
                    finding["message"].get<std::string>());
  }
  return text;
}

TEST(UseTest, AnEditorsUnsavedFilesAreUsedAsTheyAre) {
  const std::string folder = UseFolder();
  const std::string derived = "file://" + folder + "/derived.sched";
  const std::string base = "file://" + folder + "/base/one.sched";
  const std::string path = folder + "/base/one.sched";
  EditorClient editor;
  editor.Ask("initialize", {{"processId", nullptr}, {"capabilities", EditorJson::object()}});
  // From the disk, then as another editor window has the text, unsaved.
  OpenIn(&editor, derived, kDerived);
  EXPECT_EQ(NextSaid(&editor), derived + ":");
  OpenIn(&editor, base, "schedule one_f_one_b(P, M) {\n  stages P on lane;\n  rank r { }\n}\n");
  EXPECT_EQ(NextSaid(&editor).substr(0, base.size() + 6), base + ": 1:14");
  const std::string wrong = NextSaid(&editor);
  EXPECT_EQ(wrong,
            derived + ": 1:25 " + path + ":2:15: there is no layout 'lane'; did you mean 'line'?");
  // A parse error in the other text is reported at the `use`.
  editor.Notify("textDocument/didChange", {{"textDocument", {{"uri", base}, {"version", 2}}},
                                           {"contentChanges", {{{"text", "schedule ("}}}}});
  NextSaid(&editor);
  EXPECT_EQ(NextSaid(&editor), derived + ": 0:4 " + path + ":1:10: expected a name before '('");
  // After closing, the text on the disk counts.
  editor.Notify("textDocument/didClose", {{"textDocument", {{"uri", base}}}});
  EXPECT_EQ(NextSaid(&editor), base + ":");
  EXPECT_EQ(NextSaid(&editor), derived + ":");
}

}  // namespace
}  // namespace stringline
