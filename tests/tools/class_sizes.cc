// Definitions begin at the left margin and end with a "};" there, functions with a "}". The first
// pass finds all classes, the second adds the functions whose name begins with a class of the same
// namespace. Templates' arguments and initializers are cut off before a declaration is read.
#include "tests/tools/class_sizes.h"

#include <algorithm>
#include <regex>

namespace stringline {
namespace {

bool StartsWith(const std::string& text, const std::string& start) {
  return text.rfind(start, 0) == 0;
}

std::string Trimmed(const std::string& line) {
  const size_t begin = line.find_first_not_of(' ');
  return begin == std::string::npos ? "" : line.substr(begin);
}

bool IsCode(const std::string& line) {
  const std::string text = Trimmed(line);
  return !text.empty() && !StartsWith(text, "//");
}

int CodeLines(const std::vector<std::string>& lines, size_t begin, size_t end) {
  return static_cast<int>(std::count_if(lines.begin() + begin, lines.begin() + end, IsCode));
}

std::string WithoutComment(const std::string& line) { return line.substr(0, line.find("  //")); }

// The namespaces around each line.
std::vector<std::string> SpacesOf(const SourceFile& file) {
  std::vector<std::string> open, all;
  static const std::regex begins("namespace ([a-z_:]*) ?\\{");
  for (const std::string& line : file.lines) {
    std::smatch match;
    if (std::regex_match(line, match, begins)) {
      open.push_back(match[1].str().empty() ? file.path : match[1].str());
    } else if (StartsWith(line, "}  // namespace") && !open.empty()) {
      open.pop_back();
    }
    std::string space;
    for (const std::string& one : open) space += one + "::";
    all.push_back(space);
  }
  return all;
}

// Cuts off template arguments and initializers.
std::string Declared(std::string text) {
  std::string kept;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (depth == 0 && (c == '=' || c == '{')) break;
    if (c == '<') ++depth;
    if (depth == 0) kept += c;
    if (c == '>' && depth > 0) --depth;
  }
  return kept;
}

// The data members that a statement of a class declares.
int MembersIn(const std::string& statement) {
  for (const char* const other :
       {"using ", "friend ", "static ", "constexpr ", "template ", "typedef ", "enum ", "struct ",
        "class ", "public:", "private:", "protected:", "explicit ", "virtual ", "~", "#"}) {
    if (StartsWith(statement, other)) return 0;
  }
  const std::string declared = Declared(statement);
  const size_t open = declared.find('(');
  if (open != std::string::npos) return StartsWith(declared.substr(open), "(*") ? 1 : 0;
  if (declared.find(' ') == std::string::npos) return 0;
  return 1 + static_cast<int>(std::count(declared.begin(), declared.end(), ','));
}

// Of a definition in lines [begin .. end).
int MembersOf(const std::vector<std::string>& lines, size_t begin, size_t end) {
  int members = 0, depth = 0;
  std::string statement;
  for (size_t i = begin; i < end; ++i) {
    const std::string line = WithoutComment(lines[i]);
    const std::string text = IsCode(line) ? Trimmed(line) : "";
    if (text.empty()) continue;
    if (depth == 1 && statement.empty() && text.back() == ':') continue;  // private:
    if (depth == 1) statement += text + " ";
    for (const char c : text) depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    if (depth != 1) continue;
    if (text.back() == ';') members += MembersIn(statement);
    if (text.back() == ';' || text.back() == '}' || text.back() == '{') statement.clear();
  }
  return members;
}

size_t EndOf(const std::vector<std::string>& lines, size_t begin, const std::string& end) {
  size_t i = begin;
  while (i < lines.size() && !StartsWith(lines[i], end)) ++i;
  return std::min(i + 1, lines.size());
}

class ClassReader {
 public:
  std::map<std::string, ClassSize> sizes;

  void AddDefinitions(const SourceFile& file) {
    static const std::regex begins(
        "(class|struct) (?:alignas\\(.*\\) )?([A-Z][A-Za-z0-9]*)( final)?( :.*)?( \\{)?");
    const std::vector<std::string> spaces = SpacesOf(file);
    for (size_t i = 0; i < file.lines.size(); ++i) {
      std::smatch match;
      if (!std::regex_match(file.lines[i], match, begins)) continue;
      const size_t end = EndOf(file.lines, i, "};");
      ClassSize& size = sizes[spaces[i] + match[2].str()];
      size.file = file.path;
      size.is_class = match[1].str() == "class";
      size.lines += CodeLines(file.lines, i, end);
      size.members = MembersOf(file.lines, i, end);
      i = end - 1;
    }
  }

  void AddFunctions(const SourceFile& file) {
    const std::vector<std::string> spaces = SpacesOf(file);
    for (size_t i = 0; i < file.lines.size(); ++i) {
      size_t head_end = i;
      const std::string owner = OwnerAt(file.lines, i, &head_end);
      if (owner.empty()) continue;
      const auto found = sizes.find(spaces[i] + owner);
      const bool one_line = file.lines[head_end].back() == '}';
      const size_t end = one_line ? head_end + 1 : EndOf(file.lines, head_end + 1, "}");
      if (found != sizes.end()) found->second.lines += CodeLines(file.lines, i, end);
      i = end - 1;
    }
  }

 private:
  // The class of the member function that the line begins to define; "" for none. *end: the last
  // line of its head.
  static std::string OwnerAt(const std::vector<std::string>& lines, size_t begin, size_t* end) {
    const std::string& first = lines[begin];
    if (first.empty() || !(std::isalpha(first[0]) || first[0] == '[')) return "";
    for (const char* const other : {"namespace", "using", "class ", "struct ", "enum ", "extern"}) {
      if (StartsWith(first, other)) return "";
    }
    std::string head;
    for (*end = begin; *end < lines.size(); ++*end) {
      const std::string text = Trimmed(WithoutComment(lines[*end]));
      head += text + " ";
      if (text.empty() || text.back() == ';') return "";
      if (text.back() == '{' || text.back() == '}') break;
    }
    static const std::regex name("([A-Z][A-Za-z0-9]*)::(?:[A-Z][A-Za-z0-9]*::)*~?[A-Za-z_]+\\(");
    std::smatch match;
    return std::regex_search(head, match, name) ? match[1].str() : "";
  }
};

}  // namespace

std::map<std::string, ClassSize> ClassSizesOf(const std::vector<SourceFile>& files) {
  ClassReader reader;
  for (const SourceFile& file : files) reader.AddDefinitions(file);
  for (const SourceFile& file : files) reader.AddFunctions(file);
  return reader.sizes;
}

}  // namespace stringline
