#include "tools/lsp/server.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/text/format.h"
#include "tools/lsp/analysis.h"
#include "tools/lsp/document.h"
#include "tools/lsp/hover.h"
#include "tools/lsp/json_rpc.h"
#include "tools/lsp/names.h"
#include "tools/lsp/used_texts.h"
#include "tools/open_source.h"
#include "tools/output.h"

namespace stringline {
namespace {

// An open text and all that is known of it.
struct OpenText {
  OpenText(std::string its_path, std::string written)
      : path(std::move(its_path)), text(std::move(written)) {}

  void Update(const ReadUsed& read) {
    source = std::make_unique<Source>(path, text.text());
    names = std::make_unique<NameTable>(source->text());
    analysis = Analyze(*source, read);
  }

  std::string path;
  EditorText text;
  std::unique_ptr<Source> source;
  std::unique_ptr<NameTable> names;
  TextAnalysis analysis;
};

Json PositionAsJson(EditorPosition position) {
  return {{"line", position.line}, {"character", position.character}};
}

Json RangeAsJson(const EditorText& text, Span span) {
  return {{"start", PositionAsJson(text.PositionAt(span.begin))},
          {"end", PositionAsJson(text.PositionAt(span.end))}};
}

EditorPosition ReadPosition(const Json& json) {
  return {json.at("line").get<int64_t>(), json.at("character").get<int64_t>()};
}

std::string WithWhere(std::string text, const std::string& where) {
  return where.empty() ? text : absl::StrCat(text, "  (", where, ")");
}

Json FindingAsJson(const std::string& uri, const OpenText& open, const Diagnostic& finding) {
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
    related.push_back({{"location", {{"uri", uri}, {"range", RangeAsJson(open.text, note.span)}}},
                       {"message", WithWhere(note.text, note.where)}});
  }
  return {{"range", RangeAsJson(open.text, finding.span)},
          {"severity", kError},
          {"code", SlugOf(finding.code)},
          {"source", "stringline"},
          {"message", std::move(message)},
          {"relatedInformation", std::move(related)}};
}

class EditorServer {
 public:
  EditorServer(std::istream& in, std::ostream& out) : in_(in), out_(out) {}

  int Run() {
    while (!ended_) {
      const std::optional<std::string> body = ReadMessage(in_);
      if (!body) break;
      Handle(Json::parse(*body, nullptr, false));
    }
    return shut_down_ ? kOk : kFindings;
  }

 private:
  using Request = Json (EditorServer::*)(const Json& params);
  using Notification = void (EditorServer::*)(const Json& params);

  struct RequestRow {
    const char* method;
    Request answer;
  };
  struct NotificationRow {
    const char* method;
    Notification take;
  };
  static constexpr size_t kRequestCount = 5;
  static constexpr size_t kNotificationCount = 4;
  static const RequestRow kRequests[kRequestCount];
  static const NotificationRow kNotifications[kNotificationCount];

  void Handle(const Json& message) {
    if (message.is_discarded()) {
      return WriteMessage(out_, RpcFailure(nullptr, RpcError::kParse, "the message is no JSON"));
    }
    const bool is_message =
        message.is_object() && message.contains("method") && message["method"].is_string();
    const bool has_id = message.is_object() && message.contains("id") &&
                        (message["id"].is_number_integer() || message["id"].is_string());
    // The answer to a question that this server never asks.
    if (message.is_object() && !message.contains("method") && has_id) return;
    if (!is_message) {
      return WriteMessage(
          out_, RpcFailure(nullptr, RpcError::kInvalidRequest, "the message has no method"));
    }
    const auto method = message["method"].get<std::string>();
    const Json params = message.contains("params") ? message["params"] : Json::object();
    try {
      has_id ? Answer(message["id"], method, params) : Take(method, params);
    } catch (const Json::exception& error) {
      // A part of the message is missing or of another type.
      if (has_id) {
        WriteMessage(out_, RpcFailure(message["id"], RpcError::kInvalidParams, error.what()));
      }
    }
  }

  void Answer(const Json& id, const std::string& method, const Json& params) {
    if (shut_down_) {
      return WriteMessage(out_, RpcFailure(id, RpcError::kInvalidRequest, "it is shut down"));
    }
    if (!initialized_ && method != "initialize") {
      return WriteMessage(out_, RpcFailure(id, RpcError::kNotInitialized, "not initialized"));
    }
    for (const RequestRow& row : kRequests) {
      if (method == row.method) {
        return WriteMessage(out_, RpcResult(id, (this->*row.answer)(params)));
      }
    }
    WriteMessage(out_, RpcFailure(id, RpcError::kNoSuchMethod,
                                  absl::StrCat("there is no method '", method, "'")));
  }

  void Take(const std::string& method, const Json& params) {
    for (const NotificationRow& row : kNotifications) {
      if (method == row.method) return (this->*row.take)(params);
    }
  }

  Json Initialize(const Json&) {
    constexpr int kIncremental = 2;
    initialized_ = true;
    return {{"capabilities",
             {{"textDocumentSync", {{"openClose", true}, {"change", kIncremental}}},
              {"hoverProvider", true},
              {"definitionProvider", true},
              {"documentFormattingProvider", true}}},
            {"serverInfo", {{"name", "stringline"}, {"version", STRINGLINE_VERSION}}}};
  }

  Json Shutdown(const Json&) {
    shut_down_ = true;
    return nullptr;
  }

  void Exit(const Json&) { ended_ = true; }

  void DidOpen(const Json& params) {
    const Json& document = params.at("textDocument");
    const auto uri = document.at("uri").get<std::string>();
    const std::string path = PathOfUri(uri);
    texts_.insert_or_assign(uri, OpenText(path, document.at("text").get<std::string>()));
    texts_.at(uri).Update(read_);
    Publish(uri, document);
    UpdateUsersOf(path);
  }

  void DidChange(const Json& params) {
    const Json& document = params.at("textDocument");
    const auto uri = document.at("uri").get<std::string>();
    const auto open = texts_.find(uri);
    if (open == texts_.end()) return;
    EditorText text = open->second.text;
    for (const Json& change : params.at("contentChanges")) {
      const auto written = change.at("text").get<std::string>();
      if (change.contains("range")) {
        const Json& range = change.at("range");
        text.Replace(ReadPosition(range.at("start")), ReadPosition(range.at("end")), written);
      } else {
        text = EditorText(written);
      }
    }
    open->second.text = std::move(text);
    open->second.Update(read_);
    Publish(uri, document);
    UpdateUsersOf(open->second.path);
  }

  void DidClose(const Json& params) {
    const auto uri = params.at("textDocument").at("uri").get<std::string>();
    if (texts_.erase(uri) == 0) return;
    WriteMessage(out_, RpcNotification("textDocument/publishDiagnostics",
                                       {{"uri", uri}, {"diagnostics", Json::array()}}));
    UpdateUsersOf(PathOfUri(uri));
  }

  // Looks again at the open texts that use the file at `path`, which has changed.
  void UpdateUsersOf(const std::string& path) {
    for (auto& [uri, open] : texts_) {
      if (open.analysis.used.count(path) == 0) continue;
      open.Update(read_);
      Publish(uri, Json::object());
    }
  }

  // The text of an open file.
  const std::string* UnsavedAt(const std::string& path) const {
    for (const auto& [uri, open] : texts_) {
      if (open.path == path) return &open.text.text();
    }
    return nullptr;
  }

  void Publish(const std::string& uri, const Json& document) {
    const OpenText& open = texts_.at(uri);
    Json findings = Json::array();
    for (const Diagnostic& finding : open.analysis.findings.findings()) {
      findings.push_back(FindingAsJson(uri, open, finding));
    }
    Json params = {{"uri", uri}, {"diagnostics", std::move(findings)}};
    if (document.contains("version")) params["version"] = document["version"];
    WriteMessage(out_, RpcNotification("textDocument/publishDiagnostics", std::move(params)));
  }

  // The open text that the parameters name; null if it is not open.
  const OpenText* TextOf(const Json& params) const {
    const auto open = texts_.find(params.at("textDocument").at("uri").get<std::string>());
    return open == texts_.end() ? nullptr : &open->second;
  }

  Json Hover(const Json& params) {
    const OpenText* const open = TextOf(params);
    if (open == nullptr) return nullptr;
    const uint32_t offset = open->text.OffsetAt(ReadPosition(params.at("position")));
    const auto hover = HoverAt(*open->source, *open->names, open->analysis, offset);
    if (!hover) return nullptr;
    return {{"contents", {{"kind", "markdown"}, {"value", hover->markdown}}},
            {"range", RangeAsJson(open->text, hover->span)}};
  }

  Json Definition(const Json& params) {
    const OpenText* const open = TextOf(params);
    if (open == nullptr) return nullptr;
    const uint32_t offset = open->text.OffsetAt(ReadPosition(params.at("position")));
    const DefinedName* const name = open->names->Find(open->names->TokenAt(offset));
    if (name == nullptr) return nullptr;
    return {{"uri", params.at("textDocument").at("uri")},
            {"range", RangeAsJson(open->text, name->span)}};
  }

  Json Formatting(const Json& params) {
    const OpenText* const open = TextOf(params);
    if (open == nullptr) return nullptr;
    Diagnostics findings;
    const std::optional<std::string> text = Format(*open->source, &findings);
    if (!text || *text == open->text.text()) return Json::array();
    const Span all = {0, static_cast<uint32_t>(open->text.text().size())};
    return Json::array({{{"range", RangeAsJson(open->text, all)}, {"newText", *text}}});
  }

  std::istream& in_;
  std::ostream& out_;
  std::map<std::string, OpenText> texts_;  // by URI
  const ReadUsed read_ = [this](const std::string& name, const std::string& user) {
    return OpenUsed(name, user, [this](const std::string& path) { return UnsavedAt(path); });
  };
  bool initialized_ = false;
  bool shut_down_ = false;
  bool ended_ = false;
};

const EditorServer::RequestRow EditorServer::kRequests[] = {
    {"initialize", &EditorServer::Initialize},
    {"shutdown", &EditorServer::Shutdown},
    {"textDocument/hover", &EditorServer::Hover},
    {"textDocument/definition", &EditorServer::Definition},
    {"textDocument/formatting", &EditorServer::Formatting},
};

const EditorServer::NotificationRow EditorServer::kNotifications[] = {
    {"exit", &EditorServer::Exit},
    {"textDocument/didOpen", &EditorServer::DidOpen},
    {"textDocument/didChange", &EditorServer::DidChange},
    {"textDocument/didClose", &EditorServer::DidClose},
};

}  // namespace

int ServeEditor(std::istream& in, std::ostream& out) { return EditorServer(in, out).Run(); }

}  // namespace stringline
