// Every layout is tried, straight and reversed. On a layout, a stage's role is its pass over the
// ranks; otherwise it is the number of earlier stages on its rank.
#include "schedlang/write/stage_text.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "schedlang/write/rank_expression.h"

namespace stringline::search {
namespace {

using StageValues = std::vector<std::optional<int64_t>>;

// A longer name of a stage is unreadable.
constexpr size_t kLongestStageName = 90;
// Stages of a rank; beyond, each gets a name.
constexpr size_t kMostByExpression = 2;

struct NamedLayout {
  const char* name;
  int stages_per_rank;  // 0: any number
  bool turns;
};
constexpr NamedLayout kNamedLayouts[] = {
    {"line", 1, false}, {"v", 2, true}, {"loop", 0, false}, {"wave", 0, true}};

// The stages of a pipe.
struct Row {
  int first = 0;
  int count = 0;
  const NamedLayout* layout = nullptr;
  bool reversed = false;
  std::vector<int> role;                   // by stage of the row, from 0
  std::vector<StageValues> stage_of_rank;  // by role
};

bool IsOn(const Plan& plan, const Row& row, const NamedLayout& layout, bool reversed) {
  const int ranks = plan.ranks();
  if (row.count % ranks != 0) return false;
  if (layout.stages_per_rank > 0 && row.count != layout.stages_per_rank * ranks) return false;
  for (int k = 0; k < row.count; ++k) {
    const bool back = layout.turns && k / ranks % 2 == 1;
    const int rank = back != reversed ? ranks - 1 - k % ranks : k % ranks;
    if (plan.stage(StageId(row.first + k)).rank.value != rank) return false;
  }
  return true;
}

Row RowOf(const Plan& plan, int first, int count) {
  Row row{.first = first, .count = count};
  for (const bool reversed : {false, true}) {
    for (const NamedLayout& layout : kNamedLayouts) {
      if (row.layout != nullptr || !IsOn(plan, row, layout, reversed)) continue;
      row.layout = &layout;
      row.reversed = reversed;
    }
  }
  std::vector<int> before(static_cast<size_t>(plan.ranks()), 0);
  for (int k = 0; k < count; ++k) {
    const auto rank = static_cast<size_t>(plan.stage(StageId(first + k)).rank.value);
    const int role = row.layout != nullptr ? k / plan.ranks() : before[rank]++;
    row.role.push_back(role);
    if (static_cast<size_t>(role) >= row.stage_of_rank.size()) {
      row.stage_of_rank.emplace_back(static_cast<size_t>(plan.ranks()));
    }
    row.stage_of_rank[static_cast<size_t>(role)][rank] = k;
  }
  return row;
}

std::string StagesLine(const Plan& plan, const Row& row) {
  const int ranks = plan.ranks();
  const std::string count = row.count == ranks       ? "P"
                            : row.count % ranks == 0 ? absl::StrCat(row.count / ranks, " * P")
                                                     : absl::StrCat(row.count);
  if (row.layout != nullptr) {
    return absl::StrCat("stages ", count, " on ", row.reversed ? "reversed " : "", row.layout->name,
                        ";");
  }
  StageValues ranks_of;
  for (int k = 0; k < row.count; ++k) {
    ranks_of.emplace_back(plan.stage(StageId(row.first + k)).rank.value);
  }
  return absl::StrCat("stages ", count, " on s -> ", WriteCases(ranks_of, "s", 0), ";");
}

// The name of a value, new or already defined by a let. Names of pipes are taken too.
std::string NameOf(const std::string& value, const std::string& wanted,
                   const std::vector<Pipe>& pipes, std::vector<Let>* lets) {
  for (const Let& let : *lets) {
    if (let.value == value) return let.name;
  }
  std::string name = wanted;
  const auto is_it = [&](const auto& named) { return named.name == name; };
  const auto is_taken = [&] {
    return std::any_of(lets->begin(), lets->end(), is_it) ||
           std::any_of(pipes.begin(), pipes.end(), is_it);
  };
  for (int i = 2; is_taken(); ++i) {
    name = absl::StrCat(wanted, i);
  }
  lets->push_back({name, value});
  return name;
}

// The stage of the role, if it is linear in the rank.
std::optional<Affine> LineOf(const Row& row, int role, int ranks) {
  if (row.layout == nullptr) {
    const StageValues& values = row.stage_of_rank[static_cast<size_t>(role)];
    const bool is_everywhere = std::count(values.begin(), values.end(), std::nullopt) == 0;
    return is_everywhere && ranks > 1 ? AffineThrough(values) : std::nullopt;
  }
  const bool back = row.layout->turns && role % 2 == 1;
  if (back != row.reversed) return Affine{(role + 1) * ranks - 1, -1};
  return Affine{role * ranks, 1};
}

// The name of the role, or "" if only numbers are readable.
std::string RoleName(const Plan& plan, const Row& row, int role, StageText* text) {
  const int ranks = plan.ranks();
  const auto line = LineOf(row, role, ranks);
  const bool has_one_each = row.count == ranks && row.stage_of_rank.size() == 1;
  if (!line && !has_one_each) return "";
  std::string value =
      line ? WriteAffine(*line, ranks) : WriteCases(row.stage_of_rank[0], "r", ranks);
  if (value.size() > kLongestStageName) return "";
  if (row.layout != nullptr && row.layout->turns && plan.pipes.empty()) {
    return NameOf(value, role % 2 == 0 ? "down" : "up", plan.pipes, &text->lets);
  }
  const bool is_short = row.layout != nullptr && !row.reversed && !row.layout->turns;
  if (value == "r" || (is_short && row.stage_of_rank.size() <= kMostByExpression)) return value;
  return NameOf(value, is_short ? absl::StrCat("s", role) : "s", plan.pipes, &text->lets);
}

void AddRoles(const Plan& plan, const Row& row, const std::string& pipe, StageText* text) {
  std::vector<std::string> names;
  const std::vector<Let> lets = text->lets;
  for (size_t role = 0; role < row.stage_of_rank.size(); ++role) {
    names.push_back(RoleName(plan, row, static_cast<int>(role), text));
  }
  const bool by_number = std::count(names.begin(), names.end(), "") > 0;
  if (by_number) text->lets = lets;
  const auto first = static_cast<int>(text->roles.size());
  const auto call = [&](const std::string& name) {
    text->roles.push_back(pipe.empty() ? name : absl::StrCat(pipe, "[", name, "]"));
  };
  for (int k = 0; k < row.count; ++k) {
    if (by_number) call(absl::StrCat(k));
    text->role_of_stage.push_back(first + (by_number ? k : row.role[static_cast<size_t>(k)]));
  }
  if (by_number) return;
  for (const std::string& name : names) call(name);
}

}  // namespace

StageText TextOfStages(const Plan& plan) {
  StageText text;
  if (plan.pipes.empty()) {
    const Row row = RowOf(plan, 0, static_cast<int>(plan.stages.size()));
    text.lines.push_back(StagesLine(plan, row));
    AddRoles(plan, row, "", &text);
    return text;
  }
  text.parts = static_cast<int>(plan.pipes.size());
  if (text.parts > 1) text.microbatches = absl::StrCat("M / ", text.parts);
  std::vector<std::string> stages;
  size_t widest_name = 0, widest_stages = 0;
  for (const Pipe& pipe : plan.pipes) {
    const Row row = RowOf(plan, pipe.first_stage.value, pipe.stages);
    AddRoles(plan, row, pipe.name, &text);
    stages.push_back(StagesLine(plan, row));
    widest_name = std::max(widest_name, pipe.name.size());
    widest_stages = std::max(widest_stages, stages.back().size());
    if (pipe.microbatches * text.parts != plan.microbatches) text.holds_for_all = false;
  }
  for (size_t i = 0; i < stages.size(); ++i) {
    const Pipe& pipe = plan.pipes[i];
    text.lines.push_back(absl::StrCat(
        "pipe ", pipe.name, std::string(widest_name - pipe.name.size(), ' '), " { ", stages[i],
        std::string(widest_stages - stages[i].size(), ' '), " microbatches ",
        text.holds_for_all ? text.microbatches : absl::StrCat(pipe.microbatches), "; }"));
  }
  return text;
}

}  // namespace stringline::search
