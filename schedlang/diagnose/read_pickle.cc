// A pickle is a program for a machine with a stack and a memo. The machine here knows the opcodes
// that put plain values together, and no others; it keeps its marks as places on the stack, so
// nesting costs no recursion, and every opcode costs time and memory by its own bytes at most.
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedlang/base/status.h"
#include "schedlang/diagnose/dump_value.h"

namespace stringline {
namespace {

// The opcodes of plain values.
enum Opcode : unsigned char {
  kMark = 0x28,
  kEmptyTuple = 0x29,
  kStop = 0x2e,
  kPop = 0x30,
  kBinFloat = 0x47,
  kBinInt = 0x4a,
  kBinInt1 = 0x4b,
  kBinInt2 = 0x4d,
  kNone = 0x4e,
  kBinUnicode = 0x58,
  kEmptyList = 0x5d,
  kAppend = 0x61,
  kDict = 0x64,
  kAppends = 0x65,
  kBinGet = 0x68,
  kLongBinGet = 0x6a,
  kList = 0x6c,
  kBinPut = 0x71,
  kLongBinPut = 0x72,
  kSetItem = 0x73,
  kTuple = 0x74,
  kSetItems = 0x75,
  kEmptyDict = 0x7d,
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kMemoize = 0x94,
  kFrame = 0x95,
};

// Opcodes that would reach outside of the file's values.
struct ReachingOpcode {
  unsigned char code;
  const char* name;
};
constexpr ReachingOpcode kReaching[] = {
    {'c', "GLOBAL"},    {0x93, "STACK_GLOBAL"}, {'R', "REDUCE"},
    {'b', "BUILD"},     {'i', "INST"},          {'o', "OBJ"},
    {0x81, "NEWOBJ"},   {0x92, "NEWOBJ_EX"},    {0x82, "EXT1"},
    {0x83, "EXT2"},     {0x84, "EXT4"},         {'P', "PERSID"},
    {'Q', "BINPERSID"}, {0x97, "NEXT_BUFFER"},  {0x98, "READONLY_BUFFER"},
};

class PickleMachine {
 public:
  explicit PickleMachine(absl::string_view bytes) : bytes_(bytes) {}

  absl::StatusOr<DumpValues> Run() {
    while (!stopped_) {
      if (at_ == bytes_.size()) return CutShort(bytes_.size());
      const size_t begin = at_;
      const auto code = static_cast<unsigned char>(bytes_[at_++]);
      const absl::Status done = Perform(code);
      if (IsCutShort(done)) return done;
      if (!done.ok()) {
        return absl::InvalidArgumentError(absl::StrCat("byte ", begin, ": ", done.message()));
      }
      if (values_.size() > kMostDumpValues) {
        return absl::InvalidArgumentError(
            absl::StrCat("holds more than ", kMostDumpValues, " values"));
      }
    }
    return std::move(values_);
  }

 private:
  static absl::Status Fault(absl::string_view what) { return absl::InvalidArgumentError(what); }

  absl::Status Perform(unsigned char code) {
    switch (code) {
      case kProto:
        return Take(1).status();
      case kFrame:  // its length only helps to read ahead
        return Take(8).status();
      case kStop:
        return Stop();
      case kMark:
        marks_.push_back(stack_.size());
        return absl::OkStatus();
      case kPop:
        return Pop().status();
      case kAppend:
      case kSetItem:
        return AddTo(code == kAppend ? 1 : 2);
      case kAppends:
      case kSetItems:
        return AddMarked(code == kSetItems);
      default:
        break;
    }
    const std::optional<absl::Status> remembered = Remember(code);
    if (remembered) return *remembered;
    absl::StatusOr<DumpNode> value = Value(code);
    if (!value.ok()) return value.status();
    stack_.push_back(*value);
    return absl::OkStatus();
  }

  // The opcodes of the memo; nothing for others.
  std::optional<absl::Status> Remember(unsigned char code) {
    switch (code) {
      case kBinPut:
        return Put(1);
      case kLongBinPut:
        return Put(4);
      case kMemoize:
        return Keep(memo_.size());
      case kBinGet:
        return Get(1);
      case kLongBinGet:
        return Get(4);
      default:
        return std::nullopt;
    }
  }

  // The opcodes that push a value.
  absl::StatusOr<DumpNode> Value(unsigned char code) {
    switch (code) {
      case kNone:
        return values_.AddNone();
      case kNewTrue:
      case kNewFalse:
        return values_.AddBool(code == kNewTrue);
      case kBinInt:
        return Integer(4, /*is_signed=*/true);
      case kBinInt1:
        return Integer(1, false);
      case kBinInt2:
        return Integer(2, false);
      case kLong1:
        return Long();
      case kBinFloat:
        return Float();
      case kBinUnicode:
        return Text(4);
      case kShortBinUnicode:
        return Text(1);
      case kBinUnicode8:
        return Text(8);
      case kEmptyList:
      case kEmptyTuple:
        return values_.AddList();
      case kEmptyDict:
        return values_.AddDict();
      case kList:
      case kTuple:
        return Marked(values_.AddList());
      case kDict:
        return Marked(values_.AddDict());
      case kTuple1:
      case kTuple2:
      case kTuple3:
        return Tuple(code - kTuple1 + 1u);
      default:
        return Refused(code);
    }
  }

  static absl::Status Refused(unsigned char code) {
    for (const ReachingOpcode& reaching : kReaching) {
      if (reaching.code != code) continue;
      return Fault(absl::StrCat("the opcode ", reaching.name,
                                " would import or call something; a dump has only plain values"));
    }
    return Fault(absl::StrFormat("no opcode of a dump: 0x%02x", code));
  }

  absl::StatusOr<absl::string_view> Take(uint64_t count) {
    if (count > bytes_.size() - at_) return CutShort(bytes_.size());
    const absl::string_view taken = bytes_.substr(at_, static_cast<size_t>(count));
    at_ += static_cast<size_t>(count);
    return taken;
  }

  // Little-endian, without a sign.
  absl::StatusOr<uint64_t> Number(size_t width) {
    SL_ASSIGN_OR_RETURN(const absl::string_view taken, Take(width));
    uint64_t number = 0;
    for (size_t i = 0; i < width; ++i) {
      number |= uint64_t{static_cast<unsigned char>(taken[i])} << (8 * i);
    }
    return number;
  }

  absl::StatusOr<DumpNode> Integer(size_t width, bool is_signed) {
    SL_ASSIGN_OR_RETURN(const uint64_t number, Number(width));
    return values_.AddInteger(is_signed ? static_cast<int32_t>(number)
                                        : static_cast<int64_t>(number));
  }

  absl::StatusOr<DumpNode> Long() {
    SL_ASSIGN_OR_RETURN(const uint64_t width, Number(1));
    if (width > 8) return Fault("an integer of more than 64 bits");
    if (width == 0) return values_.AddInteger(0);
    SL_ASSIGN_OR_RETURN(const uint64_t number, Number(width));
    const auto shift = static_cast<unsigned>(64 - 8 * width);
    return values_.AddInteger(static_cast<int64_t>(number << shift) >> shift);
  }

  absl::StatusOr<DumpNode> Float() {
    SL_ASSIGN_OR_RETURN(const absl::string_view taken, Take(8));
    uint64_t bits = 0;
    for (const char byte : taken) bits = bits << 8 | static_cast<unsigned char>(byte);
    double number = 0;
    std::memcpy(&number, &bits, sizeof(number));
    return values_.AddNumber(number);
  }

  absl::StatusOr<DumpNode> Text(size_t width) {
    SL_ASSIGN_OR_RETURN(const uint64_t length, Number(width));
    SL_ASSIGN_OR_RETURN(const absl::string_view text, Take(length));
    return values_.AddText(text);
  }

  // The lowest place of the stack that an opcode may take away.
  size_t Floor() const { return marks_.empty() ? 0 : marks_.back(); }

  absl::StatusOr<DumpNode> Pop() {
    if (stack_.size() <= Floor()) return Fault("takes a value from an empty stack");
    const DumpNode node = stack_.back();
    stack_.pop_back();
    return node;
  }

  absl::StatusOr<DumpNode> Tuple(size_t count) {
    if (stack_.size() < Floor() + count) return Fault("takes a value from an empty stack");
    const DumpNode tuple = values_.AddList();
    for (size_t i = stack_.size() - count; i < stack_.size(); ++i) {
      values_.Append(tuple, stack_[i]);
    }
    stack_.resize(stack_.size() - count);
    return tuple;
  }

  // Moves all above the last mark into `node`.
  absl::StatusOr<DumpNode> Marked(DumpNode node) {
    if (marks_.empty()) return Fault("there is no mark");
    const size_t first = marks_.back();
    marks_.pop_back();
    const bool is_dict = values_.KindOf(node) == DumpValues::Kind::kDict;
    if (is_dict && (stack_.size() - first) % 2 != 0) return Fault("a key without a value");
    for (size_t i = first; i < stack_.size(); ++i) values_.Append(node, stack_[i]);
    stack_.resize(first);
    return node;
  }

  // The list, or the dict, that stands below the top `above` values.
  absl::StatusOr<DumpNode> Holder(size_t above, bool is_dict) {
    if (above >= stack_.size()) return Fault("takes a value from an empty stack");
    const DumpNode holder = stack_[stack_.size() - 1 - above];
    const auto wanted = is_dict ? DumpValues::Kind::kDict : DumpValues::Kind::kList;
    if (values_.KindOf(holder) != wanted) return Fault("adds to a value of another kind");
    return holder;
  }

  absl::Status AddTo(size_t count) {
    if (stack_.size() < Floor() + count + 1) return Fault("takes a value from an empty stack");
    SL_ASSIGN_OR_RETURN(const DumpNode holder, Holder(count, count == 2));
    for (size_t i = stack_.size() - count; i < stack_.size(); ++i) {
      values_.Append(holder, stack_[i]);
    }
    stack_.resize(stack_.size() - count);
    return absl::OkStatus();
  }

  absl::Status AddMarked(bool is_dict) {
    if (marks_.empty()) return Fault("there is no mark");
    SL_ASSIGN_OR_RETURN(const DumpNode holder, Holder(stack_.size() - marks_.back(), is_dict));
    return Marked(holder).status();
  }

  absl::Status Put(size_t width) {
    SL_ASSIGN_OR_RETURN(const uint64_t number, Number(width));
    return Keep(number);
  }

  absl::Status Keep(uint64_t number) {
    if (stack_.size() <= Floor()) return Fault("remembers a value of an empty stack");
    if (number > kMostDumpValues) return Fault("a memo of more values than a dump may hold");
    // A pickler numbers without gaps, so the memo is never much longer than what was read.
    if (number > at_) return Fault("a number of the memo beyond all values before");
    if (number >= memo_.size()) memo_.resize(number + 1, kUnset);
    memo_[number] = stack_.back();
    return absl::OkStatus();
  }

  absl::Status Get(size_t width) {
    SL_ASSIGN_OR_RETURN(const uint64_t number, Number(width));
    if (number >= memo_.size() || memo_[number] == kUnset) {
      return Fault(absl::StrCat("the memo has no value ", number));
    }
    stack_.push_back(memo_[number]);
    return absl::OkStatus();
  }

  absl::Status Stop() {
    if (stack_.size() != 1 || !marks_.empty()) return Fault("stops with an unfinished value");
    if (at_ != bytes_.size()) return Fault("more bytes follow the value");
    values_.set_top(stack_.back());
    stopped_ = true;
    return absl::OkStatus();
  }

  static constexpr DumpNode kUnset = UINT32_MAX;

  const absl::string_view bytes_;
  size_t at_ = 0;
  bool stopped_ = false;
  DumpValues values_;
  std::vector<DumpNode> stack_;
  std::vector<size_t> marks_;  // places on the stack
  std::vector<DumpNode> memo_;
};

}  // namespace

absl::StatusOr<DumpValues> ReadPickle(absl::string_view bytes) {
  return PickleMachine(bytes).Run();
}

}  // namespace stringline
