// Statements of a schedule as lines: a statement that fits is on a single line, and the bodies of
// adjacent repeats are aligned.
#pragma once

#include <string>
#include <vector>

namespace stringline::search {

// A statement without its end, `F r`; or `HEAD { … }`, where a body follows.
struct Statement {
  std::string text;
  std::vector<Statement> body;  // not empty: the text is a head
};

inline constexpr size_t kWidestLine = 100;

// The lines of the statements, `indent` columns in. A line is at most kWidestLine wide, unless a
// single statement is wider.
std::vector<std::string> LinesOf(const std::vector<Statement>& statements, size_t indent);

// A statement of expressions on as many lines as needed, broken behind a `:`.
std::vector<std::string> BrokenLines(const std::string& statement, size_t indent);

// "let NAME = VALUE;"
struct Let {
  std::string name;
  std::string value;
};
void AddLets(const std::vector<Let>& lets, size_t indent, std::vector<std::string>* lines);

}  // namespace stringline::search
