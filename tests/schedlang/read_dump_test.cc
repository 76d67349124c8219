// The readers of dumps: both forms give the same records, and no file makes them execute, run on or
// take memory beyond its own bytes.
#include <gtest/gtest.h>

#include <random>

#include "schedlang/diagnose/dump_value.h"
#include "schedlang/diagnose/records.h"
#include "tests/schedlang/made_dumps.h"

namespace stringline {
namespace {

using Kind = DumpValues::Kind;

std::string Text(const std::string& text) {
  return absl::StrCat(std::string("X", 1), std::string(1, static_cast<char>(text.size())),
                      std::string(3, '\0'), text);
}

std::string MessageOf(const std::string& bytes) {
  return std::string(ReadPickle(bytes).status().message());
}

TEST(ReadPickleTest, PlainValues) {
  // {"a": [1, -2, None, True, 1.5, ("b",)]} in protocol 2, with a memo.
  const std::string bytes = std::string("\x80\x02}q\0", 5) + Text("a") +
                            std::string("q\x01]q\x02(K\x01J", 9) + "\xfe\xff\xff\xff" +
                            std::string("N\x88G?\xf8\0\0\0\0\0\0", 11) + Text("b") + "\x85" + "es.";
  const auto values = ReadPickle(bytes);
  ASSERT_TRUE(values.ok()) << values.status();
  ASSERT_EQ(values->KindOf(values->top()), Kind::kDict);
  const std::vector<DumpNode>& pair = values->EntriesOf(values->top());
  ASSERT_EQ(pair.size(), 2u);
  EXPECT_EQ(values->TextOf(pair[0]), "a");
  const std::vector<DumpNode>& list = values->EntriesOf(pair[1]);
  ASSERT_EQ(list.size(), 6u);
  EXPECT_EQ(values->IntegerOf(list[0]), 1);
  EXPECT_EQ(values->IntegerOf(list[1]), -2);
  EXPECT_EQ(values->KindOf(list[2]), Kind::kNone);
  EXPECT_EQ(values->IntegerOf(list[3]), 1);
  EXPECT_EQ(values->IntegerOf(list[4]), 1);
  EXPECT_EQ(values->TextOf(values->EntriesOf(list[5])[0]), "b");
  // Every beginning of it is cut short, and says so.
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    EXPECT_TRUE(IsCutShort(ReadPickle(bytes.substr(0, cut)).status())) << cut;
  }
}

TEST(ReadPickleTest, LongIntegers) {
  const auto value = ReadPickle(std::string("\x80\x02\x8a\x02\xfe\xff.", 7));
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->IntegerOf(value->top()), -2);
  EXPECT_NE(MessageOf(std::string("\x8a\x09", 2) + std::string(9, '\1') + ".").find("64 bits"),
            std::string::npos);
}

TEST(ReadPickleTest, WhatWouldReachOutIsRefusedByNameAndPlace) {
  const std::pair<const char*, const char*> kRefused[] = {
      {"c", "GLOBAL"},
      {"\x93", "STACK_GLOBAL"},
      {"R", "REDUCE"},
      {"b", "BUILD"},
      {"i", "INST"},
      {"o", "OBJ"},
      {"\x81", "NEWOBJ"},
      {"\x92", "NEWOBJ_EX"},
      {"\x82", "EXT1"},
      {"\x83", "EXT2"},
      {"\x84", "EXT4"},
      {"P", "PERSID"},
      {"Q", "BINPERSID"},
      {"\x97", "NEXT_BUFFER"},
      {"\x98", "READONLY_BUFFER"},
  };
  for (const auto& [code, name] : kRefused) {
    const std::string said = MessageOf(absl::StrCat("\x80\x02}", code, "os\nsystem\n"));
    EXPECT_EQ(said.find("byte 3: the opcode "), 0u) << said;
    EXPECT_NE(said.find(name), std::string::npos) << said;
  }
  EXPECT_EQ(MessageOf("\xff"), "byte 0: no opcode of a dump: 0xff");
}

TEST(ReadPickleTest, BrokenPrograms) {
  for (const char* const bytes : {"a", "u", "t", "(u", "]K\1K\1s.", "}K\1a.", "(K\1d.", "h\1",
                                  "q\1", "0", "\x85", "K\1K\1.", "(K\1.", "K\1.K", "](a."}) {
    const absl::Status status = ReadPickle(bytes).status();
    EXPECT_FALSE(status.ok() || IsCutShort(status)) << bytes << ": " << status;
  }
  // A memo that would take gigabytes, a text longer than the file, a list inside itself.
  EXPECT_NE(MessageOf("]r\xff\xff\xff\x7f.").find("memo"), std::string::npos);
  EXPECT_TRUE(IsCutShort(ReadPickle("X\xff\xff\xff\x7fshort").status()));
  EXPECT_TRUE(IsCutShort(ReadPickle(std::string("\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
                                                "a",
                                                10))
                             .status()));
  EXPECT_TRUE(ReadPickle(std::string("]q\0h\0a.", 7)).ok());
  EXPECT_TRUE(IsCutShort(ReadPickle(std::string(1'000'000, '(')).status()));
  EXPECT_TRUE(IsCutShort(ReadPickle(std::string(1'000'000, ']')).status()));
  EXPECT_NE(MessageOf(std::string(kMostDumpValues + 2, 'N')).find("more than"), std::string::npos);
}

TEST(ReadPickleTest, ChangedBytesNeverHarm) {
  const std::string good = std::string("\x80\x02}q\0(", 6) + Text("version") + "q\1" +
                           Text("2.10") + "q\2" + Text("entries") + "q\3]q\4(}q\5es" + "u.";
  const unsigned seed = std::random_device()();
  std::cout << "seed " << seed << "\n";
  std::mt19937 random(seed);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = good;
    for (int change = 0; change < 3; ++change) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    RecordCollector collector;
    collector.Add(0, "rank0", bytes).IgnoreError();
  }
}

TEST(ReadJsonValuesTest, DepthAndEnds) {
  EXPECT_NE(std::string(ReadJsonValues(std::string(100, '[')).status().message()).find("64 levels"),
            std::string::npos);
  EXPECT_TRUE(IsCutShort(ReadJsonValues("{\"a\": [1, 2").status()));
  EXPECT_TRUE(IsCutShort(ReadJsonValues("{\"a").status()));
  EXPECT_FALSE(IsCutShort(ReadJsonValues("{\"a\": ]").status()));
  EXPECT_TRUE(ReadJsonValues("{\"a\": [1, 2.5, null, true]}").ok());
}

TEST(RecordCollectorTest, FaultsAreNamed) {
  const auto said = [](const std::string& bytes) {
    RecordCollector collector;
    return std::string(collector.Add(0, "rank0", bytes).message());
  };
  EXPECT_NE(said("{}").find("'version'"), std::string::npos);
  EXPECT_NE(said("{\"version\": \"1.5\"}").find("2.x is read"), std::string::npos);
  EXPECT_NE(said("{\"version\": \"2.1\", \"entries\": 3}").find("no list"), std::string::npos);
  EXPECT_NE(said("{\"version\": \"2.1\", \"entries\": [3]}").find("no dict"), std::string::npos);
  EXPECT_NE(said("{\"version\": \"2.1\", \"entries\": [{}]}").find("process_group"),
            std::string::npos);
  std::string bad = MadeDump(2, {{.name = "send 0-1"}});
  EXPECT_NE(said(bad).find("no message from a rank"), std::string::npos) << said(bad);
  EXPECT_NE(said("{\"version\": \"2.1\", \"pg_config\": {\"0\": {\"name\": \"0\", \"ranks\": "
                 "\"[0, -1]\"}}}")
                .find("a rank that is none"),
            std::string::npos);
}

TEST(RecordCollectorTest, ValuesThatShareTooMuchAreRefused) {
  // One list of 1,000 sizes, in one list 1,000 times, in 1,000 entries: 10^9 in some kilobytes.
  std::string bytes =
      std::string("\x80\x02}(", 4) + Text("version") + Text("2.1") + Text("entries") + "](";
  std::string sizes = "](";
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&sizes, "K\1");
  std::string entry = absl::StrCat("}(", Text("process_group"), Text("0"), Text("d"), "\x86",
                                   Text("profiling_name"), Text("nccl:all_reduce"),
                                   Text("input_sizes"), "](", sizes, "e", "q\1");
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&entry, "h\1");
  absl::StrAppend(&bytes, entry, "eu", "q\2");
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&bytes, "h\2");
  absl::StrAppend(&bytes, "eu.");
  RecordCollector collector;
  const absl::Status status = collector.Add(0, "rank0", bytes);
  EXPECT_EQ(status.message(), "refers to its values too often");
}

TEST(RecordCollectorTest, RanksOfNames) {
  EXPECT_EQ(RankOfName("/tmp/nccl_trace_rank_17"), 17);
  EXPECT_EQ(RankOfName("rank3.json"), 3);
  EXPECT_EQ(RankOfName("a1/b"), -1);
  EXPECT_EQ(RankOfName("dump_5.pickle"), 5);
  EXPECT_EQ(RankOfName("7"), 7);
  EXPECT_EQ(RankOfName("99999999999"), -1);
}

}  // namespace
}  // namespace stringline
