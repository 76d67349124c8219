// Torch's notation: torch's own files (tests/golden/torch) are read and written back byte by byte,
// the library's schedules come out equal to torch's own, and files that torch would misread are
// refused.
#include "schedlang/torch/torch_csv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "schedlang/elaborate/elaborate.h"
#include "schedlang/lower/collectives.h"
#include "schedlang/text/parse.h"
#include "schedlang/torch/torch_lower.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

std::string TorchFolder() { return std::string(STRINGLINE_SOURCE_DIR) + "/tests/golden/torch"; }

std::string Bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// A compute file without its empty cells.
std::string WithoutBubbles(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool line_begins = out.empty() || out.back() == '\n';
    if (c == ',' && (line_begins || out.back() == ',')) continue;
    if (c == '\r' && !out.empty() && out.back() == ',') out.pop_back();
    out.push_back(c);
  }
  return out;
}

TorchFile ReadGood(const std::string& path) {
  const Source source(path, Bytes(path));
  Diagnostics diagnostics;
  std::optional<TorchFile> file = ReadTorchCsv(source, &diagnostics);
  EXPECT_TRUE(file) << Render(diagnostics, source);
  return file.value_or(TorchFile());
}

std::string Written(const TorchFile& file, TorchForm form) {
  Diagnostics diagnostics;
  const auto text = PrintTorchCsv(file.plan, file.waits, form, &diagnostics);
  EXPECT_TRUE(text) << Render(diagnostics, Source("x", ""));
  return text.value_or("");
}

// Lowered as torch does.
TorchFile Lowered(const Plan& plan, bool waits) {
  std::optional<TorchFile> lowered = LowerAsTorch(AddCollectives(plan), waits);
  EXPECT_TRUE(lowered);
  if (!lowered) return {};
  if (waits) lowered->waits = AllTorchWaits(lowered->plan, lowered->waits);
  return *std::move(lowered);
}

std::vector<std::string> TorchFiles(const std::string& ending) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(TorchFolder())) {
    const std::string name = entry.path().filename().string();
    // Torch's own 1F1B is wrong: the last rank skips microbatch 0 (see the README there).
    if (name.rfind("1f1b", 0) == 0 || name.size() < ending.size()) continue;
    if (name.substr(name.size() - ending.size()) == ending) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST(TorchCsvTest, ComputeFilesComeBackWithoutTheirBubbles) {
  EXPECT_GE(TorchFiles("_compute.csv").size(), 15u);
  for (const std::string& path : TorchFiles("_compute.csv")) {
    const TorchFile file = ReadGood(path);
    EXPECT_FALSE(file.plan.lowered) << path;
    EXPECT_EQ(Written(file, TorchForm::kCompute), WithoutBubbles(Bytes(path))) << path;
  }
}

TEST(TorchCsvTest, CommsFilesComeBackByteByByte) {
  EXPECT_GE(TorchFiles("_comms.csv").size(), 14u);
  for (const std::string& path : TorchFiles("_comms.csv")) {
    const TorchFile file = ReadGood(path);
    EXPECT_TRUE(file.plan.lowered) << path;
    EXPECT_EQ(Written(file, TorchForm::kComms), Bytes(path)) << path;
  }
}

TEST(TorchCsvTest, LoweringIsTorchsOwn) {
  for (const std::string& path : TorchFiles("_comms.csv")) {
    const std::string compute = path.substr(0, path.size() - 9) + "compute.csv";
    const TorchFile lowered = Lowered(ReadGood(compute).plan, true);
    EXPECT_EQ(Written(lowered, TorchForm::kComms), Bytes(path)) << path;
  }
}

// Torch before 2.15 waits nowhere by name; all else stays, but for the turn a wait takes.
TEST(TorchCsvTest, WithoutWaitsNoneAreWritten) {
  for (const std::string& path : TorchFiles("_comms.csv")) {
    const std::string compute = path.substr(0, path.size() - 9) + "compute.csv";
    const TorchFile lowered = Lowered(ReadGood(compute).plan, false);
    EXPECT_TRUE(lowered.waits.empty());
    const std::string text = Written(lowered, TorchForm::kCommsNoWaits);
    EXPECT_EQ(text.find("WAIT"), std::string::npos) << path;
    EXPECT_NE(text.find("REDUCE_GRAD"), std::string::npos) << path;
  }
}

struct SameOrder {
  const char* schedule;
  std::vector<Parameter> parameters;
  const char* torch;
};

// looped_bfs is not here: torch runs the backwards from the last microbatch to the first.
const SameOrder kSame[] = {
    {"gpipe", {{"P", 4}, {"M", 8}}, "gpipe_p4_v1_m8"},
    {"interleaved", {{"P", 2}, {"M", 4}}, "interleaved1f1b_p2_v2_m4"},
    {"interleaved", {{"P", 4}, {"M", 8}}, "interleaved1f1b_p4_v2_m8"},
    {"interleaved", {{"P", 4}, {"M", 16}, {"V", 3}}, "interleaved1f1b_p4_v3_m16"},
    {"interleaved_zb", {{"P", 2}, {"M", 4}}, "interleavedzerobubble_p2_v2_m4"},
    {"interleaved_zb", {{"P", 4}, {"M", 8}}, "interleavedzerobubble_p4_v2_m8"},
    {"interleaved_zb", {{"P", 4}, {"M", 12}, {"V", 3}}, "interleavedzerobubble_p4_v3_m12"},
    {"zb_v", {{"P", 2}, {"M", 2}}, "zbvzerobubble_p2_v2_m2"},
    {"zb_v", {{"P", 4}, {"M", 8}}, "zbvzerobubble_p4_v2_m8"},
    {"zb_v", {{"P", 4}, {"M", 16}}, "zbvzerobubble_p4_v2_m16"},
    {"dualpipe_v", {{"P", 2}, {"M", 4}}, "dualpipev_p2_v2_m4"},
    {"dualpipe_v", {{"P", 3}, {"M", 7}}, "dualpipev_p3_v2_m7"},
    {"dualpipe_v", {{"P", 4}, {"M", 10}}, "dualpipev_p4_v2_m10"},
};

TEST(TorchCsvTest, LibrarySchedulesAreTorchs) {
  for (const SameOrder& same : kSame) {
    const std::string path =
        std::string(STRINGLINE_SOURCE_DIR) + "/schedules/" + same.schedule + ".sched";
    const Source source(path, Bytes(path));
    Diagnostics diagnostics;
    const auto ast = Parse(source, &diagnostics);
    ASSERT_TRUE(ast) << path;
    const auto plan = Elaborate(*ast, "", same.parameters, &diagnostics);
    ASSERT_TRUE(plan) << Render(diagnostics, source);
    TorchFile file;
    file.plan = *plan;
    const std::string torch = TorchFolder() + "/" + same.torch + "_compute.csv";
    EXPECT_EQ(Written(file, TorchForm::kCompute), WithoutBubbles(Bytes(torch))) << same.torch;
  }
}

struct BadCsv {
  const char* text;
  const char* says;  // the first finding, from its line on
};

const BadCsv kBadCsv[] = {
    // A cell
    {"0F0,0B0xyz", "1:5: error: 'xyz' behind 0B0; torch would skip it silently"},
    {"0F0,0B", "1:5: error: '0B' lacks its microbatch"},
    {"F0,0B0", "1:1: error: 'F0' lacks its stage"},
    {"0F0, 0B-1", "1:6: error: '-1' behind 0B; torch would skip it silently"},
    {"0F0,0Q0", "1:5: error: torch has no action 'Q'"},
    {"0F0,hello", "1:5: error: expected an action like 3F7"},
    {"0F0,\"0B0\"", "1:5: error: expected an action like 3F7"},
    {"0F0,0WAIT_F0", "1:5: error: torch has no action 'WAIT_F'"},
    {"0UNSHARD3,0F0,0B0", "1:1: error: '0UNSHARD3': UNSHARD has no microbatch"},
    {"0F99999999999999999999", "1:1: error: microbatch 99999999999999999999 is over a million"},
    {"99999999F0", "1:1: error: stage 99999999 is over a million"},
    // A group
    {"0F0,(0F1;0B0)", "1:5: error: expected OVERLAP_F_B behind the ')'"},
    {"0F0,(0F1;0B0)F", "1:5: error: expected OVERLAP_F_B behind the ')'"},
    {"0F0,(0F1;0B0", "1:5: error: the '(' is never closed"},
    {"0F0,((0F1;0B0)OVERLAP_F_B;0F1)OVERLAP_F_B",
     "1:5: error: a group inside a group; torch has no such thing"},
    {"0F0,(0F1;0I0)OVERLAP_F_B,0W0", "1:5: error: OVERLAP_F_B holds a forward and then a whole"},
    {"0F0,(0B0;0F1)OVERLAP_F_B,0B1", "1:5: error: OVERLAP_F_B holds a forward and then a whole"},
    {"0F0,(0F1)OVERLAP_F_B", "1:5: error: OVERLAP_F_B holds a forward and then a whole"},
    {"0F0,()OVERLAP_F_B", "1:6: error: expected an action like 3F7"},
    {"0F0,(0F1;0Bx)OVERLAP_F_B", "1:10: error: 'x' behind 0B; torch would skip it silently"},
    {"0F0,0OVERLAP_F_B1", "1:5: error: 'OVERLAP_F_B' stands behind its two parts"},
    // Rows
    {"", "1:1: error: the file is empty"},
    {"0F0,0B0\n\n1F0,1B0\n", "2:1: error: rank 1 does nothing; torch takes every line for a rank"},
    {"0F0,0B0\n,,\n", "2:1: error: rank 1 does nothing; torch takes every line for a rank"},
    {"0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,,1F0,1B0,1SEND_B0\n",
     "2:10: error: an empty cell; torch takes none in a file with communication"},
    // The whole
    {"0F0,0B0\n0F1,0B1\n", "2:1: error: stage 0 on rank 1, but it lives on rank 0"},
    {"0F0,0B0\n2F0,2B0\n", "2:1: error: stage 2, but there is no stage 1"},
    {"0F0,0F2,0B0,0B2\n", "1:5: error: 0F2, but nothing is done for microbatch 1"},
    {"0F0,0B0\n1F0,1F1,1B0,1B1\n2F0,2B0\n", "2:5: error: 1F1: most stages have only 1 microbatch"},
    {"0B0", "1:1: error: most stages have no forward"},
};

TEST(TorchCsvTest, WhatTorchMisreadsIsRefused) {
  for (const BadCsv& bad : kBadCsv) {
    const Source source("x.csv", bad.text);
    Diagnostics diagnostics;
    EXPECT_FALSE(ReadTorchCsv(source, &diagnostics)) << bad.text;
    const std::string found = Render(diagnostics, source);
    EXPECT_EQ(found.rfind(std::string("x.csv:") + bad.says, 0), 0u) << bad.text << "\n" << found;
  }
}

TEST(TorchCsvTest, OldLettersAreRead) {
  const Source with_bw("x.csv", "0F0,0BW0\n1F0,1B0,1W0\n");
  const Source without("x.csv", "0F0,0B0,0W0\n1F0,1B0,1W0\n");
  Diagnostics diagnostics;
  const auto first = ReadTorchCsv(with_bw, &diagnostics);
  const auto second = ReadTorchCsv(without, &diagnostics);
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(first->legacy && second->legacy);
  EXPECT_EQ(Written(*first, TorchForm::kCompute), "0F0,0B0\r\n1F0,1I0,1W0\r\n");
  EXPECT_EQ(Written(*second, TorchForm::kCompute), "0F0,0I0,0W0\r\n1F0,1I0,1W0\r\n");
}

TEST(TorchCsvTest, FindingsPointAtCells) {
  const Source source("x.csv", "0F0, 0F1 ,(0F2;0B0)OVERLAP_F_B,0B1,0B2\n");
  Diagnostics diagnostics;
  const auto file = ReadTorchCsv(source, &diagnostics);
  ASSERT_TRUE(file);
  std::vector<std::string> texts;
  for (const Action& action : file->plan.actions) {
    const Span span = SpanOf(file->plan, action);
    texts.emplace_back(source.text().substr(span.begin, span.end - span.begin));
  }
  EXPECT_EQ(texts, (std::vector<std::string>{"0F0", "0F1", "0F2", "0B0", "0B1", "0B2"}));
}

}  // namespace
}  // namespace stringline
