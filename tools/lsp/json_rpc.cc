#include "tools/lsp/json_rpc.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"

namespace stringline {
namespace {

constexpr int64_t kLargestBody = 64 << 20;

// The next line, without its end, cut to kMost characters. False at the end of the input.
bool ReadHeaderLine(std::istream& in, std::string* line) {
  constexpr size_t kMost = 1000;
  line->clear();
  for (int c = in.get(); c != std::istream::traits_type::eof(); c = in.get()) {
    if (c == '\n') {
      if (!line->empty() && line->back() == '\r') line->pop_back();
      return true;
    }
    if (line->size() < kMost) line->push_back(static_cast<char>(c));
  }
  return false;
}

}  // namespace

std::optional<std::string> ReadMessage(std::istream& in) {
  constexpr absl::string_view kHeader = "content-length:";
  int64_t length = -1;  // none yet
  for (std::string line; ReadHeaderLine(in, &line);) {
    if (absl::StartsWithIgnoreCase(line, kHeader)) {
      if (!absl::SimpleAtoi(line.substr(kHeader.size()), &length)) length = -1;
      continue;
    }
    if (!line.empty() || length < 0) continue;
    if (length > kLargestBody) {
      in.ignore(length);
      length = -1;
      continue;
    }
    std::string body(static_cast<size_t>(length), '\0');
    in.read(body.data(), length);
    if (in.gcount() != length) return std::nullopt;
    return body;
  }
  return std::nullopt;
}

void WriteMessage(std::ostream& out, const Json& message) {
  const std::string body = message.dump(-1, ' ', false, Json::error_handler_t::replace);
  out << "Content-Length: " << body.size() << "\r\n\r\n" << body << std::flush;
}

Json RpcResult(const Json& id, Json result) {
  return {{"jsonrpc", "2.0"}, {"id", id}, {"result", std::move(result)}};
}

Json RpcFailure(const Json& id, RpcError error, const std::string& message) {
  return {{"jsonrpc", "2.0"},
          {"id", id},
          {"error", {{"code", static_cast<int>(error)}, {"message", message}}}};
}

Json RpcNotification(const std::string& method, Json params) {
  return {{"jsonrpc", "2.0"}, {"method", method}, {"params", std::move(params)}};
}

}  // namespace stringline
