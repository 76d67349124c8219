#include "tests/tools/editor_client.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace stringline {
namespace {

constexpr int kLongestWaitMs = 30'000;

}  // namespace

EditorClient::EditorClient() {
  signal(SIGPIPE, SIG_IGN);
  int in[2], out[2];
  EXPECT_EQ(pipe2(in, O_CLOEXEC), 0);
  EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
  process_ = fork();
  if (process_ == 0) {
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    execl(STRINGLINE_TOOL, STRINGLINE_TOOL, "lsp", nullptr);
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  to_ = in[1];
  from_ = out[0];
}

EditorClient::~EditorClient() {
  CloseInput();
  close(from_);
  if (process_ <= 0) return;
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

void EditorClient::SendBytes(const std::string& bytes) {
  for (size_t sent = 0; sent < bytes.size();) {
    pollfd ready = {to_, POLLOUT, 0};
    ASSERT_EQ(poll(&ready, 1, kLongestWaitMs), 1) << "the server does not read";
    const ssize_t count =
        write(to_, bytes.data() + sent, std::min<size_t>(4096, bytes.size() - sent));
    ASSERT_GT(count, 0) << "the server is gone";
    sent += static_cast<size_t>(count);
  }
}

void EditorClient::Send(const nlohmann::json& message) {
  const std::string body = message.dump();
  SendBytes("Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
}

nlohmann::json EditorClient::Receive() {
  while (true) {
    const size_t end = received_.find("\r\n\r\n");
    if (end != std::string::npos) {
      const size_t length = std::stoul(received_.substr(received_.find(':') + 1));
      if (received_.size() >= end + 4 + length) {
        const auto message = nlohmann::json::parse(received_.substr(end + 4, length));
        received_.erase(0, end + 4 + length);
        return message;
      }
    }
    pollfd ready = {from_, POLLIN, 0};
    char bytes[4096];
    if (poll(&ready, 1, kLongestWaitMs) != 1) break;
    const ssize_t count = read(from_, bytes, sizeof(bytes));
    if (count <= 0) break;
    received_.append(bytes, static_cast<size_t>(count));
  }
  ADD_FAILURE() << "no message came";
  return nullptr;
}

nlohmann::json EditorClient::Ask(const std::string& method, const nlohmann::json& params) {
  const int id = ++asked_;
  Send({{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", params}});
  nlohmann::json answer = Receive();
  EXPECT_TRUE(answer.is_object() && answer.value("id", nlohmann::json()) == id) << answer;
  return answer;
}

void EditorClient::Notify(const std::string& method, const nlohmann::json& params) {
  Send({{"jsonrpc", "2.0"}, {"method", method}, {"params", params}});
}

void EditorClient::CloseInput() {
  if (to_ >= 0) close(to_);
  to_ = -1;
}

int EditorClient::Wait() {
  for (int waited_ms = 0; waited_ms < kLongestWaitMs; ++waited_ms) {
    int status = 0;
    if (waitpid(process_, &status, WNOHANG) == process_) {
      process_ = -1;
      return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ADD_FAILURE() << "it does not end";
  return -1;
}

}  // namespace stringline
