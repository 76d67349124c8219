// Plan's text form, read back.
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/plan.h"
#include "schedlang/text_form.h"

namespace stringline {
namespace {

constexpr int64_t kMostRanks = 1 << 20;

class PlanReader {
 public:
  PlanReader(const Source& source, Diagnostics* diagnostics)
      : lines_(WordLines(source)), diagnostics_(diagnostics) {
    end_ = static_cast<uint32_t>(source.text().size());
  }

  std::optional<Plan> Read() {
    if (!ReadHeader() || !ReadStages()) return std::nullopt;
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      const size_t line = static_cast<size_t>(rank) + 2;
      if (line >= lines_.size()) {
        Complain({end_, end_}, absl::StrCat("the line of rank ", rank, " is missing"));
        return std::nullopt;
      }
      if (!ReadRank(rank, lines_[line])) return std::nullopt;
    }
    if (lines_.size() > static_cast<size_t>(ranks_) + 2) {
      Complain(lines_[ranks_ + 2][0].span,
               absl::StrCat("unexpected line after rank ", ranks_ - 1, ", the last of P=", ranks_));
      return std::nullopt;
    }
    return std::move(plan_);
  }

 private:
  bool Complain(Span span, std::string text) {
    diagnostics_->Add(Code::kPlanText, span, std::move(text));
    return false;
  }

  bool ReadHeader() {
    if (lines_.empty() || lines_[0][0].text != "plan" || lines_[0].size() < 2) {
      return Complain(lines_.empty() ? Span{end_, end_} : lines_[0][0].span,
                      "expected 'plan NAME P=… M=…'");
    }
    const std::vector<Word>& words = lines_[0];
    plan_.schedule = std::string(words[1].text);
    plan_.header = words[1].span;
    for (size_t i = 2; i < words.size(); ++i) {
      if (words[i].text == "lowered" && i + 1 == words.size()) {
        plan_.lowered = true;
        continue;
      }
      const auto parameter = ReadParameter(words[i].text);
      if (!parameter) return Complain(words[i].span, "expected a parameter like P=4");
      plan_.parameters.push_back(*parameter);
    }
    const auto p = ValueOf(plan_.parameters, "P"), m = ValueOf(plan_.parameters, "M");
    if (!p || !m) return Complain(plan_.header, "the plan's parameters P and M are missing");
    if (*p < 1 || *p > kMostRanks) return Complain(plan_.header, absl::StrCat("P is ", *p));
    if (*m < 1 || *m > kMostRanks) return Complain(plan_.header, absl::StrCat("M is ", *m));
    ranks_ = *p;
    plan_.microbatches = static_cast<int>(*m);
    return true;
  }

  bool ReadStages() {
    if (lines_.size() < 2 || lines_[1][0].text != "stages" || lines_[1].size() < 2) {
      return Complain(lines_.size() < 2 ? Span{end_, end_} : lines_[1][0].span,
                      "expected 'stages' and the rank of every stage");
    }
    const int count = static_cast<int>(lines_[1].size()) - 1;
    if (static_cast<int64_t>(count) * plan_.microbatches > (1 << 28)) {
      return Complain(lines_[1][0].span, "stages times microbatches is over 268 million");
    }
    for (int s = 0; s < count; ++s) {
      const Word& word = lines_[1][s + 1];
      const auto rank = ReadNumber(word.text, ranks_ - 1);
      if (!rank) return Complain(word.span, absl::StrCat("expected a rank below ", ranks_));
      plan_.stages.push_back({RankId(static_cast<int32_t>(*rank)), StageId(s - 1),
                              s + 1 < count ? StageId(s + 1) : StageId()});
    }
    return true;
  }

  bool ReadRank(int64_t rank, const std::vector<Word>& words) {
    const std::string head = absl::StrCat(rank, ":");
    if (words.size() < 2 || words[0].text != "rank" || words[1].text != head) {
      return Complain(words[0].span, absl::StrCat("expected 'rank ", head, "'"));
    }
    for (size_t i = 2; i < words.size(); ++i) {
      if (!ReadGroup(RankId(static_cast<int32_t>(rank)), words[i])) return false;
    }
    plan_.first.push_back(static_cast<uint32_t>(plan_.actions.size()));
    return true;
  }

  bool ReadGroup(RankId rank, const Word& word) {
    const auto place = static_cast<uint32_t>(plan_.places.size());
    plan_.places.push_back(word.span);
    absl::string_view rest = word.text;
    for (bool joined = false;; joined = true) {
      Action action;
      action.joined = joined;
      action.place = place;
      if (!ReadAction(&rest, &action)) return Complain(word.span, "expected an action like 3F7");
      if (!Allowed(rank, word, action)) return false;
      plan_.actions.push_back(action);
      if (rest.empty()) return true;
      if (rest[0] != '&') return Complain(word.span, "expected '&' or a space after an action");
      rest.remove_prefix(1);
    }
  }

  bool Allowed(RankId rank, const Word& word, const Action& action) {
    if (action.stage.value >= static_cast<int>(plan_.stages.size())) {
      return Complain(word.span, absl::StrCat(Print(action), ": there are only ",
                                              plan_.stages.size(), " stages"));
    }
    if (action.microbatch.value >= plan_.microbatches) {
      return Complain(word.span, absl::StrCat(Print(action), ": there are only ",
                                              plan_.microbatches, " microbatches"));
    }
    const RankId home = plan_.stage(action.stage).rank;
    if (home != rank) {
      return Complain(word.span,
                      absl::StrCat(Print(action), ": stage ", action.stage.value, " lives on rank ",
                                   home.value, ", not on rank ", rank.value));
    }
    if (IsCompute(action.kind)) return true;
    if (!plan_.lowered) {
      return Complain(word.span, absl::StrCat(Print(action),
                                              ": only a plan marked 'lowered' holds "
                                              "sends and receives"));
    }
    const bool in_group = word.text.find('&') != absl::string_view::npos;
    return !in_group ||
           Complain(word.span, absl::StrCat(Print(action), " cannot be part of a group"));
  }

  const std::vector<std::vector<Word>> lines_;
  Diagnostics* diagnostics_;
  uint32_t end_ = 0;
  int64_t ranks_ = 0;
  Plan plan_;
};

}  // namespace

std::optional<Plan> ReadPlan(const Source& source, Diagnostics* diagnostics) {
  return PlanReader(source, diagnostics).Read();
}

}  // namespace stringline
