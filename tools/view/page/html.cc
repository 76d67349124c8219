#include "tools/view/page/html.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/view/page/columns.h"
#include "tools/view/page/page_data.h"
#include "tools/view/page/page_files.h"
#include "tools/view/words.h"

namespace stringline {
namespace {

// Text between tags. Non-ASCII bytes pass through JSON's check of UTF-8 and become references, so a
// page is the same in every encoding.
std::string Escape(absl::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const bool plain = c >= ' ' && c < 0x7f && c != '<' && c != '>' && c != '&' && c != '"';
    if (plain) {
      escaped.push_back(c);
    } else {
      absl::StrAppend(&escaped, "&#", static_cast<int>(static_cast<unsigned char>(c)), ";");
    }
  }
  return escaped;
}

// Replaces every {{NAME}} of the markup.
std::string Fill(absl::string_view markup,
                 const std::vector<std::pair<absl::string_view, std::string>>& values) {
  std::string filled;
  size_t at = 0;
  while (at < markup.size()) {
    const size_t open = markup.find("{{", at);
    if (open == absl::string_view::npos) break;
    const size_t close = markup.find("}}", open);
    const absl::string_view name = markup.substr(open + 2, close - open - 2);
    absl::StrAppend(&filled, markup.substr(at, open - at));
    for (const auto& [key, value] : values) {
      if (key == name) absl::StrAppend(&filled, value);
    }
    at = close + 2;
  }
  absl::StrAppend(&filled, markup.substr(at));
  return filled;
}

}  // namespace

std::string WritePage(absl::Span<const PageTimeline> timelines) {
  nlohmann::ordered_json headers = nlohmann::ordered_json::array();
  std::string title, columns;
  for (const PageTimeline& page : timelines) {
    PageData data = PageDataOf(page);
    absl::StrAppend(&title, title.empty() ? "" : " | ", TitleOf(page.timeline));
    absl::StrAppend(&columns, "<script type=\"text/plain\" class=\"columns\">", Base64(data.bytes),
                    "</script>\n");
    headers.push_back(std::move(data.header));
  }
  return Fill(kPageMarkup, {{"TITLE", Escape(title)},
                            {"STYLE", std::string(kPageStyle)},
                            {"HEADERS", JsonForMarkup(headers)},
                            {"COLUMNS", std::move(columns)},
                            {"PROGRAM", std::string(kPageProgram)}});
}

}  // namespace stringline
