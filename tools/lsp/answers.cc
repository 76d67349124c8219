// Each request is a function from an open text and the request's parameters to JSON. A table lists
// them with the capability that announces each. Their knowledge comes from the table of names and
// the analysis, which are made anew when the text changes.
#include "tools/lsp/answers.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/text/format.h"
#include "tools/lsp/complete.h"
#include "tools/lsp/hover.h"
#include "tools/lsp/rename.h"
#include "tools/lsp/symbols.h"
#include "tools/lsp/used_texts.h"

namespace stringline {
namespace {

Json PositionAsJson(EditorPosition position) {
  return {{"line", position.line}, {"character", position.character}};
}

Json RangeAsJson(const EditorText& text, Span span) {
  return {{"start", PositionAsJson(text.PositionAt(span.begin))},
          {"end", PositionAsJson(text.PositionAt(span.end))}};
}

Json PlaceAsJson(const OpenText& open, Span span) {
  return {{"uri", open.uri}, {"range", RangeAsJson(open.text, span)}};
}

Json EditAsJson(const OpenText& open, Span span, const std::string& text) {
  return {{"range", RangeAsJson(open.text, span)}, {"newText", text}};
}

uint32_t OffsetIn(const OpenText& open, const Json& params) {
  return open.text.OffsetAt(ReadPosition(params.at("position")));
}

std::string WithWhere(std::string text, const std::string& where) {
  return where.empty() ? text : absl::StrCat(text, "  (", where, ")");
}

Json FindingAsJson(const OpenText& open, const Diagnostic& finding) {
  constexpr int kError = 1;
  std::string message = finding.text;
  if (finding.count > 1) absl::StrAppend(&message, " (and ", finding.count - 1, " more like this)");
  message = WithWhere(std::move(message), finding.where);
  Json related = Json::array();
  for (const Note& note : finding.notes) {
    if (!note.has_place) {
      absl::StrAppend(&message, "\n", note.text);
      continue;
    }
    related.push_back({{"location", PlaceAsJson(open, note.span)},
                       {"message", WithWhere(note.text, note.where)}});
  }
  return {{"range", RangeAsJson(open.text, finding.span)},
          {"severity", kError},
          {"code", SlugOf(finding.code)},
          {"source", "stringline"},
          {"message", std::move(message)},
          {"relatedInformation", std::move(related)}};
}

// The protocol's numbers for the symbols that an editor draws beside a name.
struct SortRow {
  NameSort sort;
  int completion;  // CompletionItemKind
  int symbol;      // SymbolKind
};
constexpr SortRow kSorts[] = {
    {NameSort::kSchedule, 9, 2},        // Module, Module
    {NameSort::kParameter, 10, 7},      // Property, Property
    {NameSort::kValue, 21, 14},         // Constant, Constant
    {NameSort::kFunction, 3, 12},       // Function, Function
    {NameSort::kArgument, 6, 13},       // Variable, Variable
    {NameSort::kOrder, 23, 24},         // Event, Event
    {NameSort::kPipe, 7, 5},            // Class, Class
    {NameSort::kRankVariable, 6, 3},    // Variable; as a symbol the rank's block: Namespace
    {NameSort::kLoopVariable, 6, 13},   // Variable, Variable
    {NameSort::kStageVariable, 6, 13},  // Variable, Variable
    {NameSort::kOwnValue, 8, 14},       // Field, Constant
    {NameSort::kOwnAction, 23, 24},     // Event, Event
};

const SortRow& RowOf(NameSort sort) {
  for (const SortRow& row : kSorts) {
    if (row.sort == sort) return row;
  }
  return kSorts[0];
}

int CompletionKindOf(const Completion& item) {
  switch (item.sort) {
    case Completion::Sort::kName:
      return RowOf(item.name->sort).completion;
    case Completion::Sort::kAction:
      return 20;  // EnumMember
    case Completion::Sort::kPart:
      return 5;  // Field
    case Completion::Sort::kLibrary:
      return 17;  // File
    case Completion::Sort::kWord:
      break;
  }
  return 14;  // Keyword
}

Json Complete(const OpenText& open, const Json& params) {
  const uint32_t offset = OffsetIn(open, params);
  const Completions found = CompleteAt(*open.source, *open.names, offset);
  Json items = Json::array();
  for (const Completion& item : found.items) {
    Json json = {{"label", item.label}, {"kind", CompletionKindOf(item)}, {"detail", item.detail}};
    const std::string meaning =
        item.name != nullptr ? DefinitionText(*open.source, *item.name) : item.meaning;
    if (!meaning.empty()) json["documentation"] = {{"kind", "markdown"}, {"value", meaning}};
    const std::string& text = item.inserted.empty() ? item.label : item.inserted;
    json["textEdit"] = EditAsJson(open, found.replaced, text);
    items.push_back(std::move(json));
  }
  return items;
}

absl::StatusOr<Json> AnswerCompletion(const OpenText& open, const Json& params) {
  return Complete(open, params);
}

absl::StatusOr<Json> AnswerHover(const OpenText& open, const Json& params) {
  const auto hover = HoverAt(*open.source, *open.names, open.analysis, OffsetIn(open, params));
  if (!hover) return Json();
  return Json{{"contents", {{"kind", "markdown"}, {"value", hover->markdown}}},
              {"range", RangeAsJson(open.text, hover->span)}};
}

absl::StatusOr<Json> AnswerDefinition(const OpenText& open, const Json& params) {
  const DefinedName* const name = open.names->Find(open.names->TokenAt(OffsetIn(open, params)));
  if (name == nullptr) return Json();
  return PlaceAsJson(open, name->span);
}

absl::StatusOr<Json> AnswerReferences(const OpenText& open, const Json& params) {
  const NameTable& names = *open.names;
  const bool with_definition = params.at("context").at("includeDeclaration").get<bool>();
  const int32_t name = names.NameOf(names.TokenAt(OffsetIn(open, params)));
  if (name < 0) return Json();
  Json places = Json::array();
  for (const size_t word : names.WordsOf(name)) {
    const Span span = names.tokens()[word].span;
    if (!with_definition && span == names.names()[static_cast<size_t>(name)].span) continue;
    places.push_back(PlaceAsJson(open, span));
  }
  return places;
}

absl::StatusOr<Json> AnswerPrepareRename(const OpenText& open, const Json& params) {
  const absl::StatusOr<size_t> word = RenamableAt(*open.names, OffsetIn(open, params));
  if (!word.ok()) return word.status();
  const Token& token = open.names->tokens()[*word];
  return Json{{"range", RangeAsJson(open.text, token.span)},
              {"placeholder", std::string(token.text)}};
}

absl::StatusOr<Json> AnswerRename(const OpenText& open, const Json& params) {
  const auto to = params.at("newName").get<std::string>();
  const auto spans = Rename(*open.source, *open.names, OffsetIn(open, params), to);
  if (!spans.ok()) return spans.status();
  Json edits = Json::array();
  for (const Span& span : *spans) edits.push_back(EditAsJson(open, span, to));
  return Json{{"changes", {{open.uri, std::move(edits)}}}};
}

Json SymbolsAsJson(const OpenText& open, const std::vector<OutlineEntry>& entries) {
  Json symbols = Json::array();
  for (const OutlineEntry& entry : entries) {
    symbols.push_back({{"name", entry.title},
                       {"detail", entry.detail},
                       {"kind", RowOf(entry.name->sort).symbol},
                       {"range", RangeAsJson(open.text, entry.name->whole)},
                       {"selectionRange", RangeAsJson(open.text, entry.name->span)},
                       {"children", SymbolsAsJson(open, entry.inside)}});
  }
  return symbols;
}

absl::StatusOr<Json> AnswerSymbols(const OpenText& open, const Json&) {
  return SymbolsAsJson(open, OutlineOf(*open.names));
}

absl::StatusOr<Json> AnswerFormatting(const OpenText& open, const Json&) {
  Diagnostics findings;
  const std::optional<std::string> text = Format(*open.source, &findings);
  if (!text || *text == open.text.text()) return Json::array();
  const Span all = {0, static_cast<uint32_t>(open.text.text().size())};
  return Json::array({EditAsJson(open, all, *text)});
}

constexpr TextRequest kTextRequests[] = {
    {"textDocument/completion", "completionProvider", R"({"triggerCharacters": [".", "\""]})",
     AnswerCompletion},
    {"textDocument/hover", "hoverProvider", "true", AnswerHover},
    {"textDocument/definition", "definitionProvider", "true", AnswerDefinition},
    {"textDocument/references", "referencesProvider", "true", AnswerReferences},
    {"textDocument/rename", "renameProvider", R"({"prepareProvider": true})", AnswerRename},
    {"textDocument/prepareRename", nullptr, nullptr, AnswerPrepareRename},
    {"textDocument/documentSymbol", "documentSymbolProvider", "true", AnswerSymbols},
    {"textDocument/formatting", "documentFormattingProvider", "true", AnswerFormatting},
};

}  // namespace

OpenText::OpenText(std::string name, std::string written)
    : uri(std::move(name)), path(PathOfUri(uri)), text(std::move(written)) {}

void OpenText::Update(const ReadUsed& read) {
  source = std::make_unique<Source>(path, text.text());
  names = std::make_unique<NameTable>(source->text());
  analysis = Analyze(*source, read);
}

absl::Span<const TextRequest> TextRequests() { return kTextRequests; }

EditorPosition ReadPosition(const Json& json) {
  // Whole numbers only: no place lies at a fraction.
  return {json.at("line").get_ref<const Json::number_integer_t&>(),
          json.at("character").get_ref<const Json::number_integer_t&>()};
}

Json FindingsOf(const OpenText& open) {
  Json findings = Json::array();
  for (const Diagnostic& finding : open.analysis.findings.findings()) {
    findings.push_back(FindingAsJson(open, finding));
  }
  return findings;
}

}  // namespace stringline
