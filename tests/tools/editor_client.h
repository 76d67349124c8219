// An editor's side of the language server: starts the real tool and talks to it over pipes. No wait
// is longer than half a minute; a test that waits so long fails.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace stringline {

class EditorClient {
 public:
  // Starts `stringline lsp`.
  EditorClient();
  // Ends the server, at once if it is still running.
  ~EditorClient();
  EditorClient(const EditorClient&) = delete;
  EditorClient& operator=(const EditorClient&) = delete;

  // Bytes as they are.
  void SendBytes(const std::string& bytes);
  void Send(const nlohmann::json& message);
  // The next message; null, and a failure, if none comes.
  nlohmann::json Receive();

  // Sends a request and receives its answer, with "result" or "error".
  nlohmann::json Ask(const std::string& method, const nlohmann::json& params);
  void Notify(const std::string& method, const nlohmann::json& params);

  // No more input comes.
  void CloseInput();
  // Waits for the server's end. Its exit status; -1, and a failure, if the server does not end.
  int Wait();

 private:
  int process_ = -1;
  int to_ = -1;
  int from_ = -1;
  int asked_ = 0;
  std::string received_;
};

}  // namespace stringline
