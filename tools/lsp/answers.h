// What an editor can ask about an open text, as JSON in and JSON out: the one list of requests,
// each with the capability that announces it.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tools/json.h"
#include "tools/lsp/analysis.h"
#include "tools/lsp/document.h"
#include "tools/lsp/names.h"

namespace stringline {

// An open text and all that is known of it.
struct OpenText {
  OpenText(std::string uri, std::string written);
  // Finds out all the rest, from `text` and the files that it uses.
  void Update(const ReadUsed& read);

  std::string uri;
  std::string path;  // of the file that the URI names
  EditorText text;
  std::unique_ptr<Source> source;
  std::unique_ptr<NameTable> names;
  TextAnalysis analysis;
};

struct TextRequest {
  const char* method;      // "textDocument/hover"
  const char* capability;  // "hoverProvider"; null: the row before announces it too
  const char* value;       // of the capability, as JSON
  // `params` is what came with the request; it throws Json::exception where a part of it is missing
  // or of another type. An error is one for the person who asked: a name that is taken.
  absl::StatusOr<Json> (*answer)(const OpenText& open, const Json& params);
};
absl::Span<const TextRequest> TextRequests();

// {"line": …, "character": …}. Throws as above.
EditorPosition ReadPosition(const Json& json);

// What is wrong with the text, as the protocol's diagnostics.
Json FindingsOf(const OpenText& open);

}  // namespace stringline
