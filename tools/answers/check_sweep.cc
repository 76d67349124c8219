// Verdicts are counted once: for each value of the first parameter, and again by the place among
// its points, in forty places. The table and the JSON are both made of these rows; for the table
// neighbouring rows are added up if they are many.
#include "tools/answers/check_sweep.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace stringline {
namespace {

constexpr size_t kMostRows = 24;
constexpr size_t kStrip = 40;

// The verdicts for a value of the first parameter, or for several adjacent values.
struct SweepRow {
  int64_t first = 0, last = 0;      // values of the first parameter
  size_t counts[3] = {0, 0, 0};     // by verdict
  size_t strip[kStrip][3] = {{0}};  // the same by the place among the points of a value
  size_t plans() const { return counts[0] + counts[1] + counts[2]; }
};

// Adds the points [begin, end), which have the same first value.
void AddPoints(const CheckSweepReport& report, size_t begin, size_t end, SweepRow* row) {
  const size_t count = end - begin;
  for (size_t i = begin; i < end; ++i) {
    const auto verdict = static_cast<size_t>(report.result.verdicts[i]);
    ++row->counts[verdict];
    // A point covers the places from its share to the next point's.
    const size_t from = (i - begin) * kStrip / count;
    const size_t to = std::max(from + 1, (i - begin + 1) * kStrip / count);
    for (size_t place = from; place < to; ++place) ++row->strip[place][verdict];
  }
}

// A row for each value of the first parameter, in the order of the points.
std::vector<SweepRow> RowsOf(const CheckSweepReport& report) {
  std::vector<SweepRow> rows;
  for (size_t begin = 0; begin < report.sweep.points.size();) {
    const int64_t value = report.sweep.points.at(begin)[0];
    size_t end = begin + 1;
    while (end < report.sweep.points.size() && report.sweep.points.at(end)[0] == value) ++end;
    rows.push_back({value, value});
    AddPoints(report, begin, end, &rows.back());
    begin = end;
  }
  return rows;
}

std::vector<SweepRow> Merged(const std::vector<SweepRow>& rows) {
  const size_t together = (rows.size() + kMostRows - 1) / kMostRows;
  std::vector<SweepRow> merged;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i % together == 0) {
      merged.push_back(rows[i]);
      continue;
    }
    SweepRow& row = merged.back();
    row.last = rows[i].last;
    for (size_t v = 0; v < 3; ++v) {
      row.counts[v] += rows[i].counts[v];
      for (size_t place = 0; place < kStrip; ++place) {
        row.strip[place][v] += rows[i].strip[place][v];
      }
    }
  }
  return merged;
}

// A character for each place: the worst verdict of its points that are not refused.
std::string StripOf(const SweepRow& row) {
  std::string strip;
  for (const auto& counts : row.strip) {
    const auto [right, refused, wrong] = std::tie(counts[0], counts[1], counts[2]);
    absl::StrAppend(&strip, wrong > 0 ? "x" : refused == 0 ? "█" : right == 0 ? "·" : "▒");
  }
  return strip;
}

std::string Asked(const CheckSweepReport& report) {
  std::vector<std::string> words;
  for (const Parameter& p : report.sweep.fixed) words.push_back(absl::StrCat(p.name, "=", p.value));
  for (const SweepRange& range : report.ranges) {
    words.push_back(absl::StrCat(range.name, "=", range.text));
  }
  return absl::StrJoin(words, " ");
}

std::string PointText(const CheckSweepReport& report, size_t point) {
  return absl::StrJoin(
      report.sweep.ParametersAt(point), " ",
      [](std::string* out, const Parameter& p) { absl::StrAppend(out, p.name, "=", p.value); });
}

void PrintTable(const CheckSweepReport& report, std::ostream& out) {
  std::vector<std::string> rest;
  for (size_t i = 1; i < report.ranges.size(); ++i) {
    rest.push_back(absl::StrCat(report.ranges[i].name, "=", report.ranges[i].text));
  }
  const bool strips = !rest.empty();
  out << absl::StreamFormat("  %8s %7s %7s %7s", report.ranges[0].name, "right", "refused",
                            "wrong");
  if (strips) out << "   " << absl::StrJoin(rest, ", ");
  out << "\n";
  for (const SweepRow& row : Merged(RowsOf(report))) {
    const std::string values =
        row.first == row.last ? absl::StrCat(row.first) : absl::StrCat(row.first, "..", row.last);
    out << absl::StreamFormat("  %8s %7d %7d %7d", values, row.counts[0], row.counts[1],
                              row.counts[2]);
    if (strips) out << "   " << StripOf(row);
    out << "\n";
  }
  if (!strips) return;
  out << "  █ right   · refused   ▒ some of both   x wrong; from the first to the last of a row\n";
}

double PlansPerSecond(const CheckSweepReport& report) {
  return report.elapsed_s > 0 ? static_cast<double>(report.sweep.points.size()) / report.elapsed_s
                              : 0;
}

const char* Plans(size_t count) { return count == 1 ? " plan" : " plans"; }

}  // namespace

void PrintCheckSweep(const CheckSweepReport& report, std::ostream& out) {
  const CheckedSweep& result = report.result;
  const size_t right = result.Count(SweepVerdict::kRight);
  const size_t wrong = result.Count(SweepVerdict::kWrong);
  out << report.schedule().name << " " << Asked(report) << ": " << report.sweep.points.size()
      << Plans(report.sweep.points.size()) << "\n\n";
  PrintTable(report, out);
  out << "\n";
  for (const CheckedSweep::Refusal& refusal : result.refusals) {
    out << "refused: " << refusal.count << Plans(refusal.count) << ", the first "
        << PointText(report, refusal.first) << ": " << refusal.message << "\n";
  }
  if (result.first_wrong) {
    out << "wrong: " << wrong << Plans(wrong) << ", the first "
        << PointText(report, *result.first_wrong) << ":\n"
        << Render(result.findings, report.schedule().source);
  }
  const char* const proven = right == 0  ? "; not proven of any: "
                             : wrong > 0 ? "; proven of these: "
                                         : "; proven: ";
  out << (wrong == 0 ? "ok: " : "not ok: ") << right << " of " << report.sweep.points.size()
      << Plans(report.sweep.points.size()) << " right" << proven
      << absl::StrJoin(report.proven, ", ") << "\n";
  out << absl::StreamFormat("%.1f s, %.0f plans/s\n", report.elapsed_s, PlansPerSecond(report));
}

Json CheckSweepAsJson(const CheckSweepReport& report) {
  const CheckedSweep& result = report.result;
  Json ranges = Json::object();
  for (const SweepRange& range : report.ranges) ranges[range.name] = range.text;
  Json refusals = Json::array();
  for (const CheckedSweep::Refusal& refusal : result.refusals) {
    refusals.push_back({{"message", refusal.message},
                        {"plans", refusal.count},
                        {"first", ParametersAsJson(report.sweep.ParametersAt(refusal.first))}});
  }
  Json rows = Json::array();
  for (const SweepRow& row : RowsOf(report)) {
    rows.push_back({{"value", row.first},
                    {"plans", row.plans()},
                    {"right", row.counts[0]},
                    {"refused", row.counts[1]},
                    {"wrong", row.counts[2]}});
  }
  const bool is_any_right = result.Count(SweepVerdict::kRight) > 0;
  Json json = {{"ok", !result.first_wrong.has_value()},
               {"schedule", report.schedule().name},
               {"parameters", ParametersAsJson(report.sweep.fixed)},
               {"for", std::move(ranges)},
               {"plans", report.sweep.points.size()},
               {"right", result.Count(SweepVerdict::kRight)},
               {"refused", result.Count(SweepVerdict::kRefused)},
               {"wrong", result.Count(SweepVerdict::kWrong)},
               {"proven", is_any_right ? report.proven : std::vector<std::string>()},
               {"refusals", std::move(refusals)},
               {"rows", std::move(rows)}};
  if (result.first_wrong) {
    json["first_wrong"] = ParametersAsJson(report.sweep.ParametersAt(*result.first_wrong));
  }
  json["elapsed_s"] = report.elapsed_s;
  json["plans_per_second"] = PlansPerSecond(report);
  json["findings"] = FindingsAsJson(result.findings, report.schedule().source);
  return json;
}

}  // namespace stringline
