#include "tools/answers/sizes_found.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "schedlang/base/bytes.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

std::string PrintSize(const FoundAtSize& size) {
  return absl::StrJoin(size.parameters, " ", [](std::string* out, const Parameter& parameter) {
    absl::StrAppend(out, parameter.name, "=", parameter.value);
  });
}

std::string PrintPercent(double share) { return absl::StrFormat("%.2f %%", 100 * share); }

// "v_adaptive with wide = P / 2"
std::string PrintFamily(const FoundForSizes& found) {
  const std::string values =
      absl::StrJoin(found.chosen, ", ", [](std::string* out, const auto& one) {
        absl::StrAppend(out, one.first, " = ", one.second);
      });
  return values.empty() ? found.family : absl::StrCat(found.family, " with ", values);
}

// "proven for all 5 plans of P=4..8 M=3*P"
std::string PrintProof(const SizesProof& proof) {
  std::string line = absl::StrCat("proven for ", proof.is_whole() ? "all " : "its sizes, and ");
  if (!proof.is_whole()) absl::StrAppend(&line, proof.right, " of the ");
  absl::StrAppend(&line, proof.plans, " plans of ", proof.range);
  if (!proof.is_whole()) absl::StrAppend(&line, "; not ", proof.first_wrong);
  if (proof.within < proof.right) {
    absl::StrAppend(&line, "; ", proof.within, " of them keep the limit of memory; not ",
                    proof.first_beyond);
  }
  return line;
}

std::string PrintMost(const FoundAtSize& size) {
  if (size.bytes.empty()) return absl::StrCat(size.activations);
  return PrintBytes(*std::max_element(size.bytes.begin(), size.bytes.end()));
}

}  // namespace

std::string SizesFoundText(const std::string& asked, const FoundForSizes& found) {
  std::string header = absl::StrCat("# Found by: ", asked, "\n# ", PrintFamily(found), "\n# ",
                                    PrintProof(found.proof), "\n");
  for (const FoundAtSize& size : found.sizes) {
    absl::StrAppend(&header, "# ", PrintSize(size), ": ", search::NameOf(found.objective), " ",
                    PrintTime(size.value), ", bound ", PrintTime(size.least()), ", gap ",
                    PrintPercent(size.gap()), "\n");
  }
  return absl::StrCat(header, "#\n", found.text);
}

Json SizesFoundAsJson(const FoundForSizes& found) {
  Json sizes = Json::array();
  for (const FoundAtSize& size : found.sizes) {
    Json entry = {{"parameters", Json::object()},
                  {"value_us", Microseconds(size.value)},
                  {"bound_us", Microseconds(size.least())},
                  {"bound", search::Print(size.bound, PrintTime)},
                  {"gap", size.gap()},
                  {"makespan_us", Microseconds(size.makespan)},
                  {"activations", size.activations},
                  {"bytes", size.bytes}};
    for (const Parameter& parameter : size.parameters) {
      entry["parameters"][parameter.name] = parameter.value;
    }
    if (!size.library.schedule.empty()) {
      entry["library"] = {{"schedule", size.library.schedule},
                          {"value_us", Microseconds(size.library.value)}};
    }
    sizes.push_back(std::move(entry));
  }
  Json chosen = Json::object();
  for (const auto& [name, value] : found.chosen) chosen[name] = value;
  return {{"ok", true},
          {"minimize", search::NameOf(found.objective)},
          {"family", found.family},
          {"chosen", std::move(chosen)},
          {"text", found.text},
          {"worst_gap", found.worst_gap()},
          {"sizes", std::move(sizes)},
          {"families", found.families},
          {"iterations", found.iterations},
          {"proof",
           {{"range", found.proof.range},
            {"plans", found.proof.plans},
            {"right", found.proof.right},
            {"within", found.proof.within},
            {"first_wrong", found.proof.first_wrong},
            {"first_beyond", found.proof.first_beyond}}}};
}

void PrintSizesFound(const FoundForSizes& found, std::ostream& out) {
  out << PrintFamily(found) << ", the best of " << found.families
      << " texts with their parameters\n\n";
  std::vector<std::vector<std::string>> rows = {
      {"size", search::NameOf(found.objective), "bound", "gap",
       found.sizes[0].bytes.empty() ? "activations" : "bytes", "best of the library"}};
  for (const FoundAtSize& size : found.sizes) {
    rows.push_back({PrintSize(size), PrintTime(size.value), PrintTime(size.least()),
                    PrintPercent(size.gap()), PrintMost(size),
                    size.library.schedule.empty()
                        ? "none fits"
                        : absl::StrCat(size.library.schedule, " ", PrintTime(size.library.value))});
  }
  out << PrintColumns(rows, {"  ", "   ", /*first_left=*/true});
  out << "\n" << PrintProof(found.proof) << "\n\n" << found.text;
}

}  // namespace stringline
