// Two tables give each method its function: requests, which are answered, and notifications. A
// changed text is analysed anew. A missing part of a message throws, and a single place turns the
// exception into an error.
#include "tools/lsp/server.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/ask/open_source.h"
#include "tools/io/output.h"
#include "tools/lsp/answers.h"
#include "tools/lsp/json_rpc.h"
#include "tools/lsp/used_texts.h"

namespace stringline {
namespace {

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
  static constexpr size_t kRequestCount = 2;
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
    // A response, although this server asks nothing.
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
    for (const TextRequest& request : TextRequests()) {
      if (method == request.method) return AnswerAbout(id, request, params);
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
    Json capabilities = {{"textDocumentSync", {{"openClose", true}, {"change", kIncremental}}}};
    for (const TextRequest& request : TextRequests()) {
      if (request.capability == nullptr) continue;
      capabilities[request.capability] = Json::parse(request.value);
    }
    return {{"capabilities", std::move(capabilities)},
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
    const auto [open, is_new] =
        texts_.insert_or_assign(uri, OpenText(uri, document.at("text").get<std::string>()));
    open->second.Update(read_);
    Publish(uri, document);
    UpdateUsersOf(open->second.path);
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

  // Analyses the open texts that use the changed file at `path` again.
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
    Json params = {{"uri", uri}, {"diagnostics", FindingsOf(open)}};
    if (document.contains("version")) params["version"] = document["version"];
    WriteMessage(out_, RpcNotification("textDocument/publishDiagnostics", std::move(params)));
  }

  // Nothing is known of a text that is not open.
  void AnswerAbout(const Json& id, const TextRequest& request, const Json& params) {
    const auto open = texts_.find(params.at("textDocument").at("uri").get<std::string>());
    if (open == texts_.end()) return WriteMessage(out_, RpcResult(id, nullptr));
    absl::StatusOr<Json> answer = request.answer(open->second, params);
    if (answer.ok()) return WriteMessage(out_, RpcResult(id, *std::move(answer)));
    WriteMessage(out_,
                 RpcFailure(id, RpcError::kRequestFailed, std::string(answer.status().message())));
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
