#include "schedlang/write/schedule_lines.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace stringline::search {
namespace {

std::string OneLine(const Statement& statement);

// "{ F r; B r }"
std::string OneLineBody(const Statement& statement) {
  std::string out = "{ ";
  for (size_t i = 0; i < statement.body.size(); ++i) {
    const bool is_last = i + 1 == statement.body.size();
    const bool has_end = statement.body[i].body.empty() && !is_last;
    absl::StrAppend(&out, OneLine(statement.body[i]), has_end ? "; " : is_last ? "" : "  ");
  }
  return absl::StrCat(out, " }");
}

std::string OneLine(const Statement& statement) {
  if (statement.body.empty()) return statement.text;
  return absl::StrCat(statement.text, " ", OneLineBody(statement));
}

int DepthOf(const Statement& statement) {
  int depth = 0;
  for (const Statement& part : statement.body) depth = std::max(depth, 1 + DepthOf(part));
  return depth;
}

bool FitsInOne(const Statement& statement, size_t indent) {
  return !statement.body.empty() && DepthOf(statement) <= 3 &&
         indent + OneLine(statement).size() <= kWidestLine;
}

// Adds statements without bodies, as many per line as fit.
size_t AddPlain(const std::vector<Statement>& all, size_t i, size_t indent,
                std::vector<std::string>* lines) {
  std::string line;
  for (; i < all.size() && all[i].body.empty(); ++i) {
    const std::string text = absl::StrCat(all[i].text, ";");
    if (!line.empty() && indent + line.size() + 1 + text.size() > kWidestLine) {
      lines->push_back(absl::StrCat(std::string(indent, ' '), line));
      line.clear();
    }
    absl::StrAppend(&line, line.empty() ? "" : " ", text);
  }
  lines->push_back(absl::StrCat(std::string(indent, ' '), line));
  return i;
}

// Adds blocks of one line each, with aligned `{`.
size_t AddAligned(const std::vector<Statement>& all, size_t i, size_t indent,
                  std::vector<std::string>* lines) {
  size_t end = i, widest = 0, narrowest = kWidestLine, longest_body = 0;
  for (; end < all.size() && FitsInOne(all[end], indent); ++end) {
    widest = std::max(widest, all[end].text.size());
    narrowest = std::min(narrowest, all[end].text.size());
    longest_body = std::max(longest_body, OneLineBody(all[end]).size());
  }
  const bool is_aligned = widest > narrowest && indent + widest + 2 + longest_body <= kWidestLine;
  for (; i < end; ++i) {
    const size_t gap = is_aligned ? widest + 2 - all[i].text.size() : 1;
    lines->push_back(absl::StrCat(std::string(indent, ' '), all[i].text, std::string(gap, ' '),
                                  OneLineBody(all[i])));
  }
  return i;
}

}  // namespace

std::vector<std::string> LinesOf(const std::vector<Statement>& statements, size_t indent) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < statements.size();) {
    if (statements[i].body.empty()) {
      i = AddPlain(statements, i, indent, &lines);
    } else if (FitsInOne(statements[i], indent)) {
      i = AddAligned(statements, i, indent, &lines);
    } else {
      lines.push_back(absl::StrCat(std::string(indent, ' '), statements[i].text, " {"));
      for (std::string& line : LinesOf(statements[i].body, indent + 2)) {
        lines.push_back(std::move(line));
      }
      lines.push_back(absl::StrCat(std::string(indent, ' '), "}"));
      ++i;
    }
  }
  return lines;
}

std::vector<std::string> BrokenLines(const std::string& statement, size_t indent) {
  std::vector<std::string> lines;
  std::string rest = statement;
  for (size_t in = indent;; in = indent + 4) {
    const std::string blanks(in, ' ');
    const size_t at = in + rest.size() > kWidestLine ? rest.rfind(" : ", kWidestLine - in - 3)
                                                     : std::string::npos;
    if (at == std::string::npos) {
      lines.push_back(absl::StrCat(blanks, rest));
      return lines;
    }
    lines.push_back(absl::StrCat(blanks, rest.substr(0, at + 2)));
    rest = rest.substr(at + 3);
  }
}

void AddLets(const std::vector<Let>& lets, size_t indent, std::vector<std::string>* lines) {
  size_t widest = 0;
  for (const Let& let : lets) widest = std::max(widest, let.name.size());
  for (const Let& let : lets) {
    const std::string gap(widest - let.name.size(), ' ');
    const auto more =
        BrokenLines(absl::StrCat("let ", let.name, gap, " = ", let.value, ";"), indent);
    lines->insert(lines->end(), more.begin(), more.end());
  }
}

}  // namespace stringline::search
