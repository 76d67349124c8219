#include "executor/engine/repeated_step.h"

#include <algorithm>

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

void RepeatedStep::Give(int phase, int64_t start_ns) {
  if (!device_->CanCapture()) return;
  if (phase == 0) {
    ++steps_;
    step_ns_ = 0;
    tried_ = false;
  }
  if (captures_ && phases_[phase] < 0 && refusal_.empty() && steps_ > kIssuedFirst) Capture(phase);
  if (phases_[phase] >= 0) {
    device_->Replay(phases_[phase]);
  } else {
    device_->Submit();
  }
  step_ns_ += NowNs() - start_ns;
  if (phase + 1 == static_cast<int>(phases_.size())) EndStep();
}

void RepeatedStep::Capture(int phase) {
  tried_ = true;
  const absl::StatusOr<int> captured = device_->Capture();
  if (captured.ok()) {
    phases_[phase] = *captured;
  } else {
    refusal_ = std::string(captured.status().message());
  }
}

void RepeatedStep::EndStep() {
  if (steps_ == 1 || tried_) return;
  const bool captured =
      std::all_of(phases_.begin(), phases_.end(), [](int phase) { return phase >= 0; });
  ++(captured ? host_.captured_steps : host_.issued_steps);
  (captured ? host_.captured_ns : host_.issued_ns) += step_ns_;
}

}  // namespace stringline
