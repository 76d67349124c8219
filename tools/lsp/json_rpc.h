// The framing of the language server protocol: JSON messages behind a Content-Length header.
#pragma once

#include <istream>
#include <optional>
#include <ostream>
#include <string>

#include "tools/io/json.h"

namespace stringline {

// The body of the next message; nothing at the end of the input. Lines other than headers are
// skipped, and so is a body over 64 MiB.
std::optional<std::string> ReadMessage(std::istream& in);

void WriteMessage(std::ostream& out, const Json& message);

// The error code of a response without a result; the numbers of JSON-RPC and the protocol.
enum class RpcError : int {
  kParse = -32700,
  kInvalidRequest = -32600,
  kNoSuchMethod = -32601,
  kInvalidParams = -32602,
  kNotInitialized = -32002,
  kRequestFailed = -32803,  // a valid request that cannot be granted; the message gives the reason
};

Json RpcResult(const Json& id, Json result);
Json RpcFailure(const Json& id, RpcError error, const std::string& message);
Json RpcNotification(const std::string& method, Json params);

}  // namespace stringline
