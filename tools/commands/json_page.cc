// A table of the page has a row for each key of its shape; a shape that is named in a row, or above
// the table, is a link to its own table. Whole paths follow the same names.
#include "tools/commands/json_page.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "schedlang/base/sl_check.h"

namespace stringline {
namespace {

constexpr const char* kHead =
    "# JSON of commands\n\n"
    "With `--json` a command prints one object on one line of standard output, whatever happens;\n"
    "only `--help` prints its text. New keys may come; these stay, with their meaning and unit\n"
    "([promise](../CONTRIBUTING.md#versions-and-formats)).\n\n"
    "`ranks[].busy_us` is the key `busy_us` of every entry of the list `ranks`, and "
    "`parameters.*`\n"
    "are keys that are not always the same. A key may be missing where its meaning says so. This\n"
    "page is made from the table in `commands/json_keys.cc`.\n";

constexpr const char* kTimes =
    "`makespan` is the latest end of anything; `span` the longest time between a rank's first\n"
    "start and last end, of computations and collectives. Bubbles are shares: `bubble` is the "
    "mean\n"
    "over ranks of idle time / makespan, `busiest_bubble` and `idlest_bubble` those of one rank,\n"
    "`span_bubble` is (span − the busiest rank's work) / span.\n";

constexpr const char kOrNull[] = " or null";

// The shape of this name, or of an answer; null if it is none.
const JsonShape* FindShape(absl::string_view name) {
  for (const absl::Span<const JsonShape> shapes : {SharedShapes(), JsonAnswers()}) {
    const auto found = std::find_if(shapes.begin(), shapes.end(),
                                    [name](const JsonShape& shape) { return shape.name == name; });
    if (found != shapes.end()) return &*found;
  }
  return nullptr;
}

void AddWhole(const JsonShape& shape, const std::string& prefix, std::vector<WholeKey>* keys) {
  for (const char* const name : shape.also) {
    if (name == nullptr) break;
    const JsonShape* const also = FindShape(name);
    SL_CHECK(also != nullptr) << name;
    AddWhole(*also, prefix, keys);
  }
  for (const JsonKey& row : shape.keys) {
    absl::string_view type = row.type;
    const bool or_null = absl::ConsumeSuffix(&type, kOrNull);
    const JsonShape* const inner = FindShape(type);
    WholeKey key{absl::StrCat(prefix, row.path), std::string(inner ? "object" : type), or_null,
                 &row};
    keys->push_back(key);
    if (inner != nullptr) AddWhole(*inner, key.path + ".", keys);
  }
}

// "check --for" -> "check---for", as the headings of a page are addressed.
std::string AnchorOf(absl::string_view heading) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(heading), {{" ", "-"}});
}

std::string LinkTo(absl::string_view name) {
  return absl::StrCat("[", name, "](#", AnchorOf(name), ")");
}

std::string PrintedType(absl::string_view type) {
  const bool or_null = absl::ConsumeSuffix(&type, kOrNull);
  return absl::StrCat(FindShape(type) ? LinkTo(type) : std::string(type), or_null ? kOrNull : "");
}

void AddTable(const JsonShape& shape, std::string* page) {
  absl::StrAppend(page, "\n## ", shape.name, "\n\n");
  if (shape.about[0] != '\0') absl::StrAppend(page, shape.about, "\n\n");
  if (shape.also[0] != nullptr) {
    absl::StrAppend(page, "The keys of ", LinkTo(shape.also[0]),
                    shape.also[1] == nullptr ? "" : " and " + LinkTo(shape.also[1]), ", and:\n\n");
  }
  absl::StrAppend(page, "| key | type | meaning |\n|---|---|---|\n");
  for (const JsonKey& row : shape.keys) {
    absl::StrAppend(page, "| `", row.path, "` | ", PrintedType(row.type), " | ", row.meaning,
                    row.meaning[0] == '\0' ? "|\n" : " |\n");
  }
}

// Links to the tables of all answers.
void AddContents(std::string* page) {
  const char* separator = "\n";
  for (const JsonShape& answer : JsonAnswers()) {
    absl::StrAppend(page, separator, LinkTo(answer.name));
    separator = " ·\n";
  }
  absl::StrAppend(page, "\n");
}

void AddTypes(std::string* page) {
  absl::StrAppend(page, "\n| type | |\n|---|---|\n");
  for (const JsonType& type : JsonTypes()) {
    if (type.meaning[0] == '\0') continue;
    absl::StrAppend(page, "| ", type.name, " | ", type.meaning, " |\n");
  }
}

}  // namespace

std::vector<WholeKey> WholeKeysOf(const JsonShape& shape) {
  std::vector<WholeKey> keys;
  AddWhole(shape, "", &keys);
  return keys;
}

std::string JsonPage() {
  std::string page = kHead;
  AddContents(&page);
  AddTypes(&page);
  absl::StrAppend(&page, "\n", kTimes);
  AddTable(EveryAnswer(), &page);
  for (const JsonShape& answer : JsonAnswers()) AddTable(answer, &page);
  absl::StrAppend(&page, "\n# What several answers have\n");
  for (const JsonShape& shape : SharedShapes()) AddTable(shape, &page);
  return page;
}

}  // namespace stringline
