// Every type of a field has a reader, which keeps its error: a question is read to its end, and the
// first error is the answer. Costs of a table go key by key to the reader of cost files.
#include "python/core/questions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/costs/cost_keys.h"

namespace stringline::python {
namespace {

constexpr int kMostNumber = 1'000'000'000;

absl::Status Expected(absl::string_view field, absl::string_view what, const Json& got) {
  return FieldError(field, absl::StrCat("expected ", what, ", got ", got.dump()));
}

std::string EntryOf(absl::string_view field, absl::string_view index) {
  return absl::StrCat(field, "[", index, "]");
}

// A number as cost files write it, or a text; lists and keys of these.
CostValue CostOf(const Json& json) {
  if (json.is_number_integer()) return CostValue(json.dump());
  if (json.is_number_float()) return CostValue(json.get<double>());
  if (json.is_string()) return CostValue(json.get<std::string>());
  if (json.is_array()) {
    std::vector<CostValue> list;
    for (const Json& item : json) list.push_back(CostOf(item));
    return CostValue(std::move(list));
  }
  if (!json.is_object()) return CostValue(json.dump());
  CostTable table;
  for (const auto& [key, value] : json.items()) table.emplace_back(key, CostOf(value));
  return CostValue(std::move(table));
}

// The source of costs: an object with one field.
void ReadCostSource(const Json& json, CostRequest* costs, Fields* fields) {
  Fields source(json);
  if (const Json* const table = source.Take("table")) {
    if (!table->is_object()) return fields->Keep(Expected("costs", "keys and values", *table));
    costs->table = std::get<CostTable>(CostOf(*table).value);
  }
  source.Read("text", &costs->text);
  source.Read("file", &costs->file);
  source.Read("yaml", &costs->file_text);
  if (costs->file_text) costs->file = "<costs>";
  fields->Keep(source.Done());
  if (json.size() != 1) fields->Keep(Expected("costs", "one of table, text, yaml and file", json));
}

// "10%" or 0.1.
absl::StatusOr<int64_t> ShareOf(const std::string& field, const Json& json) {
  if (!json.is_number() && !json.is_string()) return Expected(field, "a share, as \"10%\"", json);
  const std::string text =
      json.is_number() ? std::get<std::string>(CostValue(100 * json.get<double>()).value) + "%"
                       : json.get<std::string>();
  const absl::StatusOr<int64_t> share = ParseInUnit(CostUnit::kShare, text);
  return share.ok() ? share : FieldError(field, share.status().message());
}

absl::StatusOr<int> RankOf(const char* field, const std::string& key) {
  int rank = 0;
  if (absl::SimpleAtoi(key, &rank) && rank >= 0 && rank < MemoryLimit::kMostRanks) return rank;
  return FieldError(field, absl::StrCat("expected a rank, got '", key, "'"));
}

void ReadSlow(Fields* fields, CostRequest* costs) {
  const Json* const json = fields->Take("slow");
  if (json == nullptr) return;
  if (!json->is_object()) return fields->Keep(Expected("slow", "shares by rank or link", *json));
  for (const auto& [key, value] : json->items()) {
    const absl::StatusOr<int64_t> share = ShareOf(EntryOf("slow", key), value);
    if (absl::StrContains(key, '-') && key[0] != '-') {
      const absl::StatusOr<RankLink> link = ParseRankLink(key);
      if (!link.ok()) return fields->Keep(FieldError("slow", link.status().message()));
      if (!share.ok()) return fields->Keep(share.status());
      costs->slow_links.push_back({*link, *share});
      continue;
    }
    const absl::StatusOr<int> rank = RankOf("slow", key);
    if (!rank.ok()) return fields->Keep(rank.status());
    if (!share.ok()) return fields->Keep(share.status());
    costs->slow.push_back({*rank, *share});
  }
}

absl::StatusOr<int64_t> BytesOf(const std::string& field, const Json& json) {
  constexpr int64_t kMostBytes = 1'000'000'000'000'000;
  if (json.is_number_integer()) {
    const auto bytes = json.get<int64_t>();
    if (bytes >= 0 && bytes <= kMostBytes) return bytes;
  }
  if (!json.is_string()) return Expected(field, "a number of bytes, or a text as \"80GB\"", json);
  const absl::StatusOr<int64_t> bytes = ParseWithUnit(CostUnit::kBytes, json.get<std::string>());
  return bytes.ok() ? bytes : FieldError(field, bytes.status().message());
}

// One limit; a list of them, for each rank; or those of some ranks.
absl::StatusOr<MemoryLimit> MemoryOf(const char* field, const Json& json) {
  if (json.is_string()) return ParseMemoryLimit(json.get<std::string>(), field);
  if (!json.is_structured()) {
    const absl::StatusOr<int64_t> bytes = BytesOf(field, json);
    if (!bytes.ok()) return bytes.status();
    return MemoryLimit(*bytes);
  }
  if (json.empty()) return FieldError(field, "there is no limit");
  MemoryLimit limit;
  limit.is_of_each = json.is_array();
  for (const auto& [key, value] : json.items()) {
    const absl::StatusOr<int> rank = RankOf(field, key);
    if (!rank.ok()) return rank.status();
    const absl::StatusOr<int64_t> bytes = BytesOf(EntryOf(field, key), value);
    if (!bytes.ok()) return bytes.status();
    const auto size = std::max(limit.ranks.size(), static_cast<size_t>(*rank) + 1);
    limit.ranks.resize(size, -1);
    limit.ranks[static_cast<size_t>(*rank)] = *bytes;
  }
  return limit;
}

void ReadMemory(const char* field, Fields* fields, MemoryLimit* memory) {
  const Json* const json = fields->Take(field);
  if (json == nullptr) return;
  const absl::StatusOr<MemoryLimit> limit = MemoryOf(field, *json);
  fields->Keep(limit.status());
  if (limit.ok()) *memory = *limit;
}

absl::StatusOr<SweepRange> RangeOf(const std::string& name, const Json& json) {
  if (json.is_string()) return ParseSweepRange(absl::StrCat(name, "=", json.get<std::string>()));
  SweepRange range{.name = name, .text = json.dump()};
  for (const Json& value : json.is_array() ? json : Json::array({json})) {
    if (!value.is_number_integer()) return Expected(name, "whole numbers", value);
    range.items.push_back({value.dump(), value.dump(), "1"});
  }
  if (range.items.empty()) return FieldError(name, "there are no values");
  return range;
}

}  // namespace

Fields::Fields(const Json& json) : json_(json) {
  if (!json.is_object()) error_ = absl::InvalidArgumentError("expected an object with fields");
}

const Json* Fields::Take(const char* name) {
  read_.insert(name);
  if (!json_.is_object()) return nullptr;
  const auto found = json_.find(name);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

void Fields::Require(const char* name) {
  if (Take(name) == nullptr) Keep(FieldError(name, "is missing"));
}

void Fields::Read(const char* name, std::string* text) {
  const Json* const json = Take(name);
  if (json == nullptr) return;
  if (!json->is_string()) return Keep(Expected(name, "a text", *json));
  *text = json->get<std::string>();
}

void Fields::Read(const char* name, std::optional<std::string>* text) {
  if (Take(name) != nullptr) Read(name, &text->emplace());
}

void Fields::Read(const char* name, bool* flag) {
  const Json* const json = Take(name);
  if (json == nullptr) return;
  if (!json->is_boolean()) return Keep(Expected(name, "True or False", *json));
  *flag = json->get<bool>();
}

void Fields::ReadWritten(const char* name, std::string* text) {
  const Json* const json = Take(name);
  if (json == nullptr || !json->is_number_integer()) return Read(name, text);
  *text = json->dump();
}

void Fields::ReadWord(const char* name, const std::vector<std::string>& words, std::string* word) {
  const Json* const json = Take(name);
  if (json == nullptr) return;
  const std::string said = json->is_string() ? json->get<std::string>() : "";
  if (std::find(words.begin(), words.end(), said) == words.end()) {
    return Keep(Expected(name, absl::StrCat("\"", absl::StrJoin(words, "\" or \""), "\""), *json));
  }
  *word = said;
}

void Fields::ReadNumber(const char* name, int least, int most, int* number) {
  const Json* const json = Take(name);
  if (json == nullptr) return;
  const auto is_inside = [&](double value) { return value >= least && value <= most; };
  if (!json->is_number_integer() || !is_inside(json->get<double>())) {
    return Keep(Expected(name, absl::StrCat("a whole number in ", least, " .. ", most), *json));
  }
  *number = json->get<int>();
}

void Fields::ReadNumber(const char* name, double least, double most, double* number) {
  const Json* const json = Take(name);
  if (json == nullptr) return;
  const double value = json->is_number() ? json->get<double>() : least - 1;
  if (value < least || value > most) {
    return Keep(Expected(name, absl::StrCat("a number in ", least, " .. ", most), *json));
  }
  *number = value;
}

absl::Status Fields::Done() {
  if (!error_.ok()) return error_;
  for (const auto& [name, value] : json_.items()) {
    if (read_.count(name) > 0) continue;
    const std::string close = ClosestName(name, {read_.begin(), read_.end()});
    return absl::InvalidArgumentError(
        absl::StrCat("there is no '", name, "'",
                     close.empty() ? absl::StrCat("; there are ", absl::StrJoin(read_, ", "))
                                   : absl::StrCat("; did you mean '", close, "'?")));
  }
  return absl::OkStatus();
}

void ReadParameters(Fields* fields, std::vector<Parameter>* parameters) {
  const Json* const json = fields->Take("parameters");
  if (json == nullptr) return;
  if (!json->is_object()) return fields->Keep(Expected("parameters", "numbers by name", *json));
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  for (const auto& [name, value] : json->items()) {
    const bool is_large =
        value.is_number_float() || (value.is_number_unsigned() && value.get<uint64_t>() > kMost);
    if (is_large) return fields->Keep(FieldError(name, "the value does not fit 64 bits"));
    if (!value.is_number_integer()) return fields->Keep(Expected(name, "a whole number", value));
    parameters->push_back({name, value.get<int64_t>()});
  }
}

void ReadPlan(Fields* fields, PlanRequest* plan) {
  fields->Require("file");
  fields->Read("file", &plan->file);
  fields->Read("text", &plan->text);
  fields->Read("schedule", &plan->schedule);
  fields->Read("again", &plan->again);
  ReadParameters(fields, &plan->parameters);
}

void ReadCosts(Fields* fields, CostRequest* costs) {
  if (const Json* const json = fields->Take("costs")) ReadCostSource(*json, costs, fields);
  ReadSlow(fields, costs);
  fields->ReadWord("work", {"stage", "rank", "model"}, &costs->work);
  fields->Read("mesh", &costs->copies.mesh);
  fields->Read("sharding", &costs->copies.sharding);
  fields->ReadWritten("bucket", &costs->copies.bucket);
}

std::optional<CommLayout> ReadLayout(Fields* fields) {
  std::string word;
  fields->ReadWord("layout", {"shared", "updown", "pair", "edge"}, &word);
  return ReadCommLayout(word);
}

void ReadMessages(Fields* fields, MessageRequest* messages) {
  messages->layout = ReadLayout(fields);
  std::string word;
  fields->ReadWord("messages", {"early", "as-written"}, &word);
  if (word == "as-written") messages->issue = MessageIssue::kAsWritten;
  if (word == "early") messages->issue = MessageIssue::kEarly;
}

void ReadCheck(Fields* fields, CheckRequest* check) {
  check->layout = ReadLayout(fields);
  fields->ReadNumber("buffers", 0, 1'000'000, &check->buffers);
  fields->Read("lazy", &check->lazy);
  fields->ReadNumber("activations", 0, kMostNumber, &check->activations);
  ReadMemory("memory", fields, &check->memory);
  ReadMemory("host_memory", fields, &check->host);
  ReadCosts(fields, &check->costs);
}

void ReadPicture(Fields* fields, PictureQuestion* picture) {
  fields->Read("svg", &picture->svg);
  fields->Read("html", &picture->html);
  fields->Read("perfetto", &picture->perfetto);
  fields->Read("chrome", &picture->chrome);
  fields->ReadNumber("width", 40, 10'000, &picture->width);
  fields->Read("fold", &picture->fold);
  fields->Read("lanes", &picture->lanes);
  fields->ReadWritten("ranks", &picture->ranks);
  fields->ReadWritten("time", &picture->time);
  fields->ReadWritten("microbatches", &picture->microbatches);
  fields->Read("no_title", &picture->no_title);
  fields->ReadWord("palette", {"color", "grey"}, &picture->palette);
  fields->Read("force", &picture->force);
}

void ReadSearch(Fields* fields, SearchQuestion* question) {
  ReadParameters(fields, &question->parameters);
  if (const Json* const json = fields->Take("begin")) {
    Fields begin(*json);
    ReadPlan(&begin, &question->begin.emplace());
    fields->Keep(begin.Done());
  }
  std::string split, minimize, kinds, recompute, offload;
  fields->Read("place", &question->place);
  fields->ReadWord("split", {"any"}, &split);
  fields->ReadNumber("layers", 1, 4096, &question->layers);
  fields->ReadWord("minimize", {"makespan", "span", "period"}, &minimize);
  fields->ReadWritten("jitter", &question->jitter);
  fields->ReadNumber("seeds", 1, 1'000, &question->seeds);
  fields->ReadWord("expect", {"mean", "worst"}, &question->expect);
  fields->ReadNumber("activations", 0, kMostNumber, &question->activations);
  ReadMemory("memory", fields, &question->memory);
  ReadMemory("host_memory", fields, &question->host);
  fields->ReadWord("kinds", {"F,B", "F,I,W", "F,B,I,W"}, &kinds);
  fields->Read("pairs", &question->pairs);
  fields->ReadWord("recompute", {"none", "all", "any"}, &recompute);
  fields->ReadWord("offload", {"none", "all", "any"}, &offload);
  fields->ReadNumber("seconds", 0.1, 1e6, &question->seconds);
  fields->ReadNumber("iterations", 1, 2'000'000'000, &question->iterations);
  fields->ReadNumber("seed", 0, kMostNumber, &question->seed);
  ReadCosts(fields, &question->costs);
  question->any_split = split == "any";
  question->minimize = search::ObjectiveOf(minimize).value_or(question->minimize);
  question->whole = kinds != "F,I,W";
  question->split = kinds != "F,B";
  question->recompute = SearchRecomputeOf(recompute);
  question->offload = SearchOffloadOf(offload);
}

void ReadSweep(Fields* fields, SimSweepQuestion* sweep) {
  bool again = false;
  fields->Read("again", &again);
  if (const Json* const json = fields->Take("schedules"); json != nullptr && json->is_array()) {
    for (const Json& one : *json) {
      Fields schedule(one);
      ReadPlan(&schedule, &sweep->plans.schedules.emplace_back());
      sweep->plans.schedules.back().again = again;
      fields->Keep(schedule.Done());
    }
  }
  if (sweep->plans.schedules.empty()) fields->Keep(FieldError("schedules", "there is none"));
  if (const Json* const json = fields->Take("ranges"); json != nullptr && json->is_object()) {
    for (const auto& [name, values] : json->items()) {
      absl::StatusOr<SweepRange> range = RangeOf(name, values);
      fields->Keep(range.status());
      if (range.ok()) sweep->plans.ranges.push_back(*std::move(range));
    }
  }
  sweep->layout = ReadLayout(fields).value_or(sweep->layout);
  ReadCosts(fields, &sweep->costs);
}

std::string AsPython(const NamedField& field) {
  if (field.name != "ranges" || field.value.empty()) return AsKeyword(field);
  const size_t equals = field.value.find('=');
  if (equals == absl::string_view::npos) return std::string(field.value);
  return absl::StrCat(field.value.substr(0, equals), "=\"", field.value.substr(equals + 1), "\"");
}

}  // namespace stringline::python
