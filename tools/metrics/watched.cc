#include "tools/metrics/watched.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedlang/base/bytes.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

std::string PrintAge(double seconds) {
  if (seconds < 120) return absl::StrFormat("%.0f s", seconds);
  if (seconds < 7200) return absl::StrFormat("%.0f min", seconds / 60);
  return absl::StrFormat("%.1f h", seconds / 3600);
}

std::string TimeOf(const Json& us) {
  return PrintTime(static_cast<int64_t>(us.get<double>() * 1000));
}

// "bubble 18.2 %: activation 7.0 %, warm-up 6.1 %"
std::string BubbleLine(const Json& metrics) {
  std::vector<std::pair<double, std::string>> causes;
  for (const auto& [name, share] : metrics.at("causes").items()) {
    if (share.get<double>() >= 0.0005) causes.emplace_back(share.get<double>(), name);
  }
  std::stable_sort(causes.begin(), causes.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string line = absl::StrFormat("bubble %.1f %%", 100 * metrics.at("bubble").get<double>());
  const char* separator = ": ";
  for (const auto& [share, name] : causes) {
    absl::StrAppendFormat(&line, "%s%s %.1f %%", separator, name, 100 * share);
    separator = ", ";
  }
  return line + "\n";
}

std::string TableOf(const Json& ranks) {
  std::vector<size_t> order(ranks.size());
  for (size_t r = 0; r < order.size(); ++r) order[r] = r;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return ranks[a].at("busy").get<double>() > ranks[b].at("busy").get<double>();
  });
  std::vector<std::vector<std::string>> rows = {
      {"", "computes", "waits", "for", "so long", "step", "memory"}};
  for (const size_t r : order) {
    const Json& rank = ranks[r];
    const Json& other = rank.at("waits_for");
    rows.push_back({rank.at("name").get<std::string>(),
                    absl::StrFormat("%.1f %%", 100 * rank.at("busy").get<double>()),
                    TimeOf(rank.at("waits_us")),
                    other.is_null() ? "" : absl::StrCat("rank ", other.get<int>()),
                    other.is_null() ? "" : TimeOf(rank.at("waits_for_us")),
                    TimeOf(rank.at("step_us")), PrintBytes(rank.at("bytes").get<int64_t>())});
  }
  return PrintColumns(rows, {.first_left = true});
}

std::string Table(const Json& metrics, double age_s) {
  std::string text = absl::StrFormat(
      "step %d of %d   loss %.4f   gradient %.4g   rate %.3g   %.0f tokens/s   step %.4g s\n",
      metrics.at("step").get<int64_t>(), metrics.at("steps").get<int64_t>(),
      metrics.at("loss_nats").get<double>(), metrics.at("grad_norm").get<double>(),
      metrics.at("learning_rate").get<double>(), metrics.at("tokens_per_second").get<double>(),
      metrics.at("step_seconds").get<double>());
  absl::StrAppend(&text, "noted ", PrintAge(age_s), " ago");
  const Json& checkpoint = metrics.at("checkpoint_age_seconds");
  if (!checkpoint.is_null()) {
    absl::StrAppend(&text, "; the last checkpoint was taken ", PrintAge(checkpoint.get<double>()),
                    " before");
  }
  absl::StrAppend(&text, "\n", BubbleLine(metrics), "\n", TableOf(metrics.at("ranks")));
  for (const Json& slow : metrics.at("slow")) {
    const Json& rank = metrics.at("ranks").at(slow.at("rank").get<size_t>());
    absl::StrAppendFormat(&text,
                          "\n%s takes %.2f of its equals' time in %s of stage %d since step "
                          "%d",
                          rank.at("name").get<std::string>(), slow.at("ratio").get<double>(),
                          slow.at("action").get<std::string>(), slow.at("stage").get<int>(),
                          slow.at("since").get<int64_t>());
  }
  if (!metrics.at("slow").empty()) text += "\n";
  return text;
}

}  // namespace

absl::StatusOr<std::string> WatchTable(const Json& metrics, double age_s) {
  try {
    return Table(metrics, age_s);
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("the last line has no metrics of a step: ", error.what()));
  }
}

}  // namespace stringline
