// What an interpreter's streams, events, marks and messages are called, for whoever is told what a
// step waits for.
#include "absl/strings/str_cat.h"
#include "executor/interpreter.h"

namespace stringline {

std::string Interpreter::PrintStream(const void* self, int64_t index) {
  const auto& step = *static_cast<const Interpreter*>(self);
  const StreamRow& row = step.stream_rows_[index];
  const std::string rank = absl::StrCat("rank ", row.rank.value, "'s ");
  if (row.kind == StreamKind::kCompute) return rank + "computation";
  if (row.kind == StreamKind::kNetwork) return rank + "network";
  if (row.kind == StreamKind::kCollectives) return rank + "collectives";
  if (row.kind == StreamKind::kFlight) {
    return absl::StrCat(rank, "flight of ",
                        PrintWithLine(step.plan_, step.plan_.actions[row.index]));
  }
  const Channel& channel = step.channels_.all[row.index];
  return row.kind == StreamKind::kSend
             ? absl::StrCat(rank, "send stream to rank ", channel.to.value)
             : absl::StrCat(rank, "receive stream from rank ", channel.from.value);
}

std::string Interpreter::PrintAction(const ActionRow& row) const {
  const Action& action = plan_.actions[row.action];
  return absl::StrCat(Print(plan_, action), row.partly ? ":" : "",
                      row.partly ? Print(row.part) : "", PrintLine(plan_, action));
}

std::string Interpreter::PrintPlanned(const void* self, int64_t index) {
  const Plan& plan = static_cast<const Interpreter*>(self)->plan_;
  return PrintWithLine(plan, plan.actions[static_cast<size_t>(index)]);
}

std::string Interpreter::PrintEvent(const void* self, int64_t index) {
  const auto& step = *static_cast<const Interpreter*>(self);
  return step.PrintAction(step.event_rows_[index]);
}

std::string Interpreter::PrintMark(const void* self, int64_t index) {
  const auto& step = *static_cast<const Interpreter*>(self);
  return step.PrintAction(step.mark_rows_[index]);
}

std::string Interpreter::PrintMessage(const void* self, int64_t index) {
  const MessageName name = NameOfMessage(static_cast<const Interpreter*>(self)->plan_, index);
  return absl::StrCat("the ", name.gradient ? "gradient" : "activation", " of stage ",
                      name.producer.value, ", microbatch ", name.microbatch.value);
}

}  // namespace stringline
