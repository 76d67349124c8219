#include "schedlang/words.h"

#include <algorithm>
#include <iterator>

namespace stringline {
namespace {

constexpr absl::string_view kKeywords[] = {
    "schedule", "stages", "on",        "pad",    "microbatches", "to",      "rank",    "order",
    "let",      "repeat", "as",        "if",     "else",         "require", "and",     "or",
    "not",      "pipe",   "timetable", "greedy", "overlap",      "split",   "at",      "tighten",
    "fill",     "hold",   "prefer",    "costs",  "then",         "unshard", "reshard", "reduce",
};

constexpr absl::string_view kFutureKeywords[] = {"search", "within", "minimize"};

template <size_t n>
bool Has(const absl::string_view (&words)[n], absl::string_view text) {
  return std::find(std::begin(words), std::end(words), text) != std::end(words);
}

}  // namespace

bool IsActionLetter(absl::string_view text) {
  return text == "F" || text == "B" || text == "I" || text == "W";
}

bool IsKeyword(absl::string_view text) { return Has(kKeywords, text); }

bool IsFutureKeyword(absl::string_view text) { return Has(kFutureKeywords, text); }

const std::vector<std::string>& StatementWords() {
  static const auto* words = new std::vector<std::string>{
      "F",      "B",     "I",       "W",        "let",     "repeat",  "if",      "require", "order",
      "stages", "pad",   "rank",    "schedule", "pipe",    "at",      "tighten", "fill",    "hold",
      "prefer", "costs", "overlap", "split",    "unshard", "reshard", "reduce"};
  return *words;
}

}  // namespace stringline
