// The language itself reads a bound, as the default of a parameter in a schedule made up for the
// purpose, and evaluates it with the values so far. The ranges are nested loops.
#include "schedlang/ask/sweep_range.h"

#include <algorithm>
#include <map>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "schedlang/base/fields.h"
#include "schedlang/base/status.h"
#include "schedlang/elaborate/eval.h"
#include "schedlang/elaborate/resolve.h"
#include "schedlang/text/parse.h"
#include "schedlang/text/tokens.h"

namespace stringline {
namespace {

absl::Status RangeError(absl::string_view name, absl::string_view text, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat("`ranges=", name, "=", text, "`: ", message));
}

// The parts between separators outside brackets.
std::vector<std::string> SplitOutside(absl::string_view text, absl::string_view separator) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')') --depth;
    if (depth == 0 && text.substr(i, separator.size()) == separator) {
      parts.emplace_back();
      i += separator.size() - 1;
    } else {
      parts.back() += text[i];
    }
  }
  return parts;
}

// An expression over parameters, ready to be evaluated often.
class ParameterExpression {
 public:
  // `known`: the names that the text may use.
  static absl::StatusOr<ParameterExpression> Read(const std::string& text,
                                                  const std::vector<std::string>& known) {
    SL_RETURN_IF_ERROR(CheckWords(text, known));
    // The language itself reads the text, as the default of a schedule's last parameter.
    std::vector<std::string> names = {"P", "M"};
    std::string header = "P, M";
    for (const std::string& name : known) {
      if (name == "P" || name == "M") continue;
      names.push_back(name);
      absl::StrAppend(&header, ", ", name, " = 0");
    }
    const std::string schedule =
        absl::StrCat("schedule s(", header, ", value_of_it = ", text,
                     "\n) { stages P on line; rank rank_of_it { F rank_of_it } }");
    Diagnostics findings;
    const std::optional<ast::File> file = Parse(Source("", schedule), &findings);
    const bool whole = file && file->schedules.size() == 1 &&

                       file->schedules[0].parameters.size() == names.size() + 1;
    if (!whole) return absl::InvalidArgumentError(absl::StrCat("'", text, "' is no expression"));
    ParameterExpression expression;
    expression.names_ = std::move(names);
    std::optional<Program> program = Resolve(file->schedules[0], &findings);
    if (!program) return absl::InvalidArgumentError(findings.findings()[0].text);
    expression.program_ = std::make_shared<const Program>(std::move(*program));
    return expression;
  }

  absl::StatusOr<int64_t> Evaluate(const std::map<std::string, int64_t>& values) const {
    StepBudget steps(1'000'000);
    Evaluator evaluator(*program_, &steps);
    for (size_t i = 0; i < names_.size(); ++i) {
      const auto value = values.find(names_[i]);
      if (value != values.end()) evaluator.Set(static_cast<int32_t>(i), value->second);
    }
    const int64_t value = evaluator.Evaluate(program_->defaults[names_.size()]);
    if (!evaluator.failed()) return value;
    return absl::InvalidArgumentError(evaluator.TakeFailure().text);
  }

 private:
  static absl::Status CheckWords(const std::string& text, std::vector<std::string> known) {
    for (const char* const word : {"min", "max", "and", "or", "not"}) known.push_back(word);
    for (const Token& token : Tokenize(text)) {
      if (token.kind != Token::Kind::kName) continue;
      const std::string name(token.text);
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("'", name, "' is no parameter that has a value before it"));
    }
    return absl::OkStatus();
  }

  std::vector<std::string> names_;
  std::shared_ptr<const Program> program_;
};

struct ReadRange {
  struct Item {
    ParameterExpression first, last, step;
  };
  const SweepRange* written;
  std::vector<Item> items;
};

// Walks through the ranges as nested loops.
class Enumeration {
 public:
  Enumeration(std::vector<ReadRange> ranges, const std::vector<Parameter>& fixed)
      : ranges_(std::move(ranges)) {
    for (const Parameter& parameter : fixed) values_[parameter.name] = parameter.value;
    for (const ReadRange& range : ranges_) points_.names.push_back(range.written->name);
  }

  absl::StatusOr<SweepPoints> Run() {
    SL_RETURN_IF_ERROR(RunFrom(0));
    if (points_.values.empty()) return FieldError("ranges", "no values at all");
    return std::move(points_);
  }

 private:
  absl::Status RunFrom(size_t depth) {
    if (depth == ranges_.size()) return Add();
    const ReadRange& range = ranges_[depth];
    for (const ReadRange::Item& item : range.items) {
      const absl::Status status = RunItem(depth, *range.written, item);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status RunItem(size_t depth, const SweepRange& written, const ReadRange::Item& item) {
    int64_t bounds[3];
    const ParameterExpression* const expressions[3] = {&item.first, &item.last, &item.step};
    for (int i = 0; i < 3; ++i) {
      const auto value = expressions[i]->Evaluate(values_);
      if (!value.ok()) return RangeError(written.name, written.text, value.status().message());
      bounds[i] = *value;
    }
    const auto [first, last, step] = bounds;
    if (step < 1) {
      return RangeError(written.name, written.text, absl::StrCat("the step is ", step));
    }
    if (first > last) return absl::OkStatus();
    const uint64_t passes =
        (static_cast<uint64_t>(last) - static_cast<uint64_t>(first)) / static_cast<uint64_t>(step);
    if (passes > kMostSweepPoints) return TooMany();
    for (uint64_t i = 0; i <= passes; ++i) {
      values_[written.name] = first + static_cast<int64_t>(i) * step;
      SL_RETURN_IF_ERROR(RunFrom(depth + 1));
    }
    return absl::OkStatus();
  }

  absl::Status Add() {
    if (points_.size() == kMostSweepPoints) return TooMany();
    for (const std::string& name : points_.names) points_.values.push_back(values_[name]);
    return absl::OkStatus();
  }

  static absl::Status TooMany() {
    return FieldError("ranges", absl::StrCat("more than ", kMostSweepPoints, " plans"));
  }

  const std::vector<ReadRange> ranges_;
  std::map<std::string, int64_t> values_;
  SweepPoints points_;
};

absl::StatusOr<ReadRange> ReadOne(const SweepRange& range, const std::vector<std::string>& known) {
  ReadRange read{&range, {}};
  for (const SweepRange::Item& item : range.items) {
    absl::StatusOr<ParameterExpression> parts[3] = {ParameterExpression::Read(item.first, known),
                                                    ParameterExpression::Read(item.last, known),
                                                    ParameterExpression::Read(item.step, known)};
    for (const auto& part : parts) {
      if (!part.ok()) return RangeError(range.name, range.text, part.status().message());
    }
    read.items.push_back({*std::move(parts[0]), *std::move(parts[1]), *std::move(parts[2])});
  }
  return read;
}

}  // namespace

absl::StatusOr<SweepRange> ParseSweepRange(const std::string& text) {
  const size_t equals = text.find('=');
  const std::vector<Token> name = Tokenize(absl::string_view(text).substr(0, equals));
  if (equals == std::string::npos || name.size() != 2 || name[0].kind != Token::Kind::kName) {
    return absl::InvalidArgumentError(
        absl::StrCat("`ranges=", text, "`: write it as `ranges=P=2..64`"));
  }
  SweepRange range{std::string(name[0].text), text.substr(equals + 1), {}};
  for (const std::string& item : SplitOutside(range.text, ",")) {
    std::vector<std::string> parts = SplitOutside(item, "..");
    const bool empty = std::any_of(parts.begin(), parts.end(), [](const std::string& part) {
      return absl::StripAsciiWhitespace(part).empty();
    });
    if (empty || parts.size() > 3) {
      return RangeError(range.name, range.text, "write it as `ranges=P=2..64`");
    }
    if (parts.size() == 1) parts.push_back(parts[0]);
    if (parts.size() == 2) parts.push_back("1");
    range.items.push_back({parts[0], parts[1], parts[2]});
  }
  return range;
}

absl::StatusOr<SweepPoints> Enumerate(const std::vector<SweepRange>& ranges,
                                      const std::vector<Parameter>& fixed) {
  std::vector<std::string> known;
  for (const Parameter& parameter : fixed) known.push_back(parameter.name);
  std::vector<ReadRange> read;
  for (const SweepRange& range : ranges) {
    if (std::find(known.begin(), known.end(), range.name) != known.end()) {
      return absl::InvalidArgumentError(absl::StrCat("'", range.name, "' is given twice"));
    }
    SL_ASSIGN_OR_RETURN(ReadRange one, ReadOne(range, known));
    read.push_back(std::move(one));
    known.push_back(range.name);
  }
  return Enumeration(std::move(read), fixed).Run();
}

absl::StatusOr<int64_t> ValueWith(const std::string& expression,
                                  const std::vector<Parameter>& parameters) {
  std::vector<std::string> known;
  std::map<std::string, int64_t> values;
  for (const Parameter& parameter : parameters) {
    known.push_back(parameter.name);
    values[parameter.name] = parameter.value;
  }
  SL_ASSIGN_OR_RETURN(const ParameterExpression read, ParameterExpression::Read(expression, known));
  return read.Evaluate(values);
}

}  // namespace stringline
