#include "executor/repeated_step.h"

#include "absl/strings/str_cat.h"

namespace stringline {

std::string Describe(const HostTime& host, const std::string& refusal) {
  const auto us = [](int64_t ns) { return absl::StrCat((ns + 500) / 1000, " us"); };
  std::string text;
  if (host.captured_steps > 0) {
    text = absl::StrCat(us(host.captured()), " a step captured");
    if (host.issued_steps > 0) absl::StrAppend(&text, " (", us(host.issued()), " issued)");
  } else if (host.issued_steps > 0) {
    text = absl::StrCat(us(host.issued()), " a step issued");
  }
  if (!refusal.empty()) absl::StrAppend(&text, text.empty() ? "" : ", ", "not captured: ", refusal);
  return text;
}

void RepeatedStep::Give(int64_t start_ns) {
  if (!device_->CanCapture()) return;
  const bool first = steps_ == 0;
  bool captures = false;
  if (captures_ && captured_ < 0 && refusal_.empty() && steps_ >= kIssuedFirst) {
    captures = true;
    const absl::StatusOr<int> captured = device_->Capture();
    if (captured.ok()) {
      captured_ = *captured;
    } else {
      refusal_ = std::string(captured.status().message());
    }
  }
  if (captured_ >= 0) {
    device_->Replay(captured_);
  } else {
    device_->Submit();
  }
  ++steps_;
  if (first || captures) return;
  ++(captured_ >= 0 ? host_.captured_steps : host_.issued_steps);
  (captured_ >= 0 ? host_.captured_ns : host_.issued_ns) += NowNs() - start_ns;
}

}  // namespace stringline
