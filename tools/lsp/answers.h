// Requests of an editor about an open text, as JSON in and JSON out: the table of all, each with
// the capability that announces the request.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tools/io/json.h"
#include "tools/lsp/analysis.h"
#include "tools/lsp/document.h"
#include "tools/lsp/names.h"

namespace stringline {

// An open text and its analysis.
struct OpenText {
  OpenText(std::string uri, std::string written);
  // Analyses `text` and the files that `text` uses.
  void Update(const ReadUsed& read);

  std::string uri;
  std::string path;  // the URI's file
  EditorText text;
  std::unique_ptr<Source> source;
  std::unique_ptr<NameTable> names;
  TextAnalysis analysis;
};

struct TextRequest {
  const char* method;      // "textDocument/hover"
  const char* capability;  // "hoverProvider"; null: announced by the row before
  const char* value;       // the capability's, as JSON
  // `params` comes with the request; throws Json::exception where a part is missing or of another
  // type. An error is for the user: a name is taken, for example.
  absl::StatusOr<Json> (*answer)(const OpenText& open, const Json& params);
};
absl::Span<const TextRequest> TextRequests();

// {"line": …, "character": …}. Throws as above.
EditorPosition ReadPosition(const Json& json);

// The text's findings, as the protocol's diagnostics.
Json FindingsOf(const OpenText& open);

}  // namespace stringline
