// The beginning of safetensors files: good ones are read as they were written, bad ones refused.
#include "executor/checkpoint/tensor_header.h"

#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"

namespace stringline {
namespace {

TEST(TensorHeader, ReadsWhatOthersWrite) {
  const std::string json =
      R"({"b":{"shape":[2,3],"dtype":"BF16","data_offsets":[4,16]},"__metadata__":{"format":"pt"},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
      R"("none":{"dtype":"I64","shape":[3,0],"data_offsets":[4,4]}}   )";
  const auto header = ParseTensorHeader(json, 16);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->metadata, (std::map<std::string, std::string>{{"format", "pt"}}));
  const std::vector<StoredTensor> wanted = {
      {"a", "F32", {}, 0, 4}, {"none", "I64", {3, 0}, 4, 4}, {"b", "BF16", {2, 3}, 4, 16}};
  EXPECT_EQ(header->tensors, wanted);
}

TEST(TensorHeader, WhatIsPrintedReadsBack) {
  TensorHeader header;
  header.metadata = {{"format", "pt"}, {"with \"quotes\"\n", "\x01 and ü"}};
  header.tensors = {{"x", "F32", {2, 2}, 0, 16}, {"a.\\b", "F64", {1}, 16, 24}};
  const std::string text = PrintTensorHeader(header);
  EXPECT_EQ(text.size() % 8, 0u);
  const auto bytes = HeaderBytes(text, text.size() + 24);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  ASSERT_EQ(*bytes + 8, text.size());
  const auto back = ParseTensorHeader(text.substr(8), 24);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, header);
}

struct BadLength {
  std::string start;
  uint64_t file_bytes;
  const char* says;
};

TEST(TensorHeader, LengthsThatLieAreRefused) {
  const BadLength bad[] = {
      {"", 0, "0 bytes are too few"},
      {"1234567", 7, "7 bytes are too few"},
      {std::string("\x09\0\0\0\0\0\0\0", 8), 16, "has 9 bytes, but only 8 are there"},
      {std::string("\x01\xe1\xf5\x05\0\0\0\0", 8), 1 << 30, "a header of 100000001 bytes"},
      {"\xff\xff\xff\xff\xff\xff\xff\xff", 100, "a header of 18446744073709551615 bytes"},
      {"PK\x03\x04 a zip archive", 1000, "not a safetensors file"},
  };
  for (const BadLength& length : bad) {
    const auto bytes = HeaderBytes(length.start, length.file_bytes);
    ASSERT_FALSE(bytes.ok()) << length.says;
    EXPECT_NE(bytes.status().message().find(length.says), absl::string_view::npos)
        << bytes.status();
  }
}

// A replacement in the header, and words of the message. Two tensors of 8 and 4 bytes; 12 bytes.
struct BadHeader {
  const char* from;
  const char* to;
  const char* says;
};

constexpr const char* kGood =
    R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
    R"("b":{"dtype":"I8","shape":[2,2],"data_offsets":[8,12]}})";

const BadHeader kBadHeaders[] = {
    {"{\"__", " {\"__", "does not begin with '{'"},
    {"12]}}", "12]}", "is not JSON"},
    {"12]}}", "12]}}x", "is not JSON"},
    {"\"v\"", "\"\xff\"", "is not JSON"},
    {"\"v\"", "1", "'k' is not a text"},
    {"{\"k\":\"v\"}", "[]", "__metadata__ is not an object"},
    {"{\"k\":\"v\"}", "[[[[[[[[]]]]]]]]", "nests too deep"},
    {"\"b\":", "\"a\":", "'a' stands there twice"},
    {"\"shape\":[2],", "\"shape\":[2],\"shape\":[2],", "'shape' stands there twice"},
    {"{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}", "7", "'a': its entry is not"},
    {"\"dtype\":\"F32\",", "", "'a': no 'dtype'"},
    {"\"shape\":[2],", "", "'a': no 'shape'"},
    {",\"data_offsets\":[0,8]", "", "'a': no 'data_offsets'"},
    {"\"shape\":[2],", "\"shape\":[2],\"device\":\"cpu\",", "'a': a key beside"},
    {"\"F32\"", "32", "'a': dtype is not a text"},
    {"\"F32\"", "\"F33\"", "unknown dtype 'F33'"},
    {"[2],", "2,", "'a': shape is not a list"},
    {"[2],", "[-2],", "shape holds something"},
    {"[2],", "[2.0],", "shape holds something"},
    {"[2],", "[18446744073709551616],", "shape holds something"},
    {"[2],", "[4294967296,4294967296],", "more elements than can be counted"},
    {"[2],", "[3],", "'a': its shape takes 12 bytes, but it has 8"},
    {"[0,8]", "[0]", "data_offsets are not two"},
    {"[0,8]", "[0,8,8]", "data_offsets are not two"},
    {"[0,8]", "[\"0\",8]", "data_offsets holds something"},
    {"[0,8]", "[8,0]", "'a': it ends before it begins"},
    {"[8,12]", "[4,8]", "'b': it overlaps the tensor before it"},
    {"[8,12]", "[9,13]", "'b': it ends at byte 13 of the data, but 12 are there"},
    {"[0,8]", "[4,12]", "4 bytes before it belong to no tensor"},
    {"[2],\"data_offsets\":[0,8]", "[1],\"data_offsets\":[0,4]", "'b': 4 bytes before it"},
    {"[2,2],\"data_offsets\":[8,12]", "[3],\"data_offsets\":[8,11]", "the last 1 bytes belong"},
};

TEST(TensorHeader, EveryMalformedHeaderIsRefused) {
  ASSERT_TRUE(ParseTensorHeader(kGood, 12).ok());
  for (const BadHeader& bad : kBadHeaders) {
    const std::string json = absl::StrReplaceAll(kGood, {{bad.from, bad.to}});
    ASSERT_NE(json, kGood) << bad.from;
    const auto header = ParseTensorHeader(json, 12);
    ASSERT_FALSE(header.ok()) << json;
    EXPECT_NE(header.status().message().find(bad.says), absl::string_view::npos) << json << "\n"
                                                                                 << header.status();
  }
  EXPECT_FALSE(ParseTensorHeader("", 0).ok());
  EXPECT_FALSE(ParseTensorHeader(std::string(1 << 20, '{'), 0).ok());
}

// With any byte of a good header changed, the header is refused, or its tensors still cover the
// data.
TEST(TensorHeader, NoChangedByteGivesTensorsOutsideTheData) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  int read = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string json = kGood;
    json[random() % json.size()] = static_cast<char>(random());
    const auto header = ParseTensorHeader(json, 12);
    if (!header.ok()) continue;
    ++read;
    uint64_t end = 0;
    for (const StoredTensor& tensor : header->tensors) {
      EXPECT_EQ(tensor.begin, end) << json;
      end = tensor.end;
    }
    EXPECT_EQ(end, 12u) << json;
  }
  EXPECT_GT(read, 0);
}

// Messages show names from files safely, whatever their bytes.
TEST(TensorHeader, NamesInMessagesAreShortAndPrintable) {
  EXPECT_EQ(Quoted("head.weight"), "'head.weight'");
  EXPECT_EQ(Quoted("a\n\x1b[31m"), "'a\\n\\x1b[31m'");
  EXPECT_LT(Quoted(std::string(1000, 'a')).size(), 100u);
}

}  // namespace
}  // namespace stringline
