// Times in the rings are by the device's clock; a record shifts them to start at its beginning.
#include "executor/engine/flight_log.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stringline {
namespace {

int64_t MostActions(const Plan& plan) {
  int64_t most = 0;
  for (int r = 0; r < plan.ranks(); ++r) {
    most = std::max<int64_t>(most, plan.first[r + 1] - plan.first[r]);
  }
  return most;
}

}  // namespace

FlightLog::FlightLog(const Plan& lowered, std::vector<Recorder*> recorders, const LocalRanks& local,
                     const Device* device)
    : plan_(lowered),
      recorders_(std::move(recorders)),
      local_(local),
      device_(device),
      known_(MostActions(lowered)),
      rings_(recorders_.size() * lowered.ranks()) {
  for (Ring& ring : rings_) ring.commands.resize(kCommands);
}

void FlightLog::StartStep(int64_t now_ns) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (size_t c = 0; c < recorders_.size() && step_ > 0; ++c) {
    for (int r = 0; r < plan_.ranks(); ++r) {
      const uint32_t begin = plan_.first[r], end = plan_.first[r + 1];
      recorders_[c]->Look(begin, end, absl::MakeSpan(known_));
      Ring& ring = RingOf(static_cast<int>(c), r);
      for (uint32_t i = begin; i < end; ++i) {
        ring.commands[ring.count++ % kCommands] = {i, static_cast<int32_t>(step_),
                                                   known_[i - begin]};
      }
    }
  }
  for (Recorder* const recorder : recorders_) recorder->StartStep(now_ns);
  ++step_;
  doing_ = {};
}

void FlightLog::Say(const char* doing) {
  const std::lock_guard<std::mutex> lock(mutex_);
  doing_ = {doing, device_->NowNs()};
}

std::string FlightLog::NameOf(const Command& command) const {
  return absl::StrCat(PrintWithLine(plan_, plan_.actions[command.action]), " of step ",
                      command.step);
}

std::vector<RankState> FlightLog::Now() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<RankState> states;
  const int64_t now_ns = device_->NowNs();
  for (size_t c = 0; c < recorders_.size(); ++c) {
    for (const RankId rank : local_.Of(static_cast<int>(c))) {
      RankState& state = states.emplace_back();
      state.rank = static_cast<int>(c) * plan_.ranks() + rank.value;
      state.doing = doing_.text;
      state.doing_ns = now_ns - doing_.since_ns;
      const std::vector<Command> commands = CommandsOf(static_cast<int>(c), rank.value);
      int64_t completed_ns = 0;
      for (const Command& command : commands) {
        const bool computes = IsCompute(plan_.actions[command.action].kind);
        if (command.times.end_ns == 0 && computes) {
          state.computes = true;
          state.needs = command.action;
          state.doing = absl::StrCat("computes ", NameOf(command));
          state.doing_ns = now_ns - command.times.start_ns;
        }
        if (command.times.end_ns <= completed_ns) continue;
        completed_ns = command.times.end_ns;
        state.completed = NameOf(command);
      }
      state.ago_ns = now_ns - completed_ns;
      const uint32_t begin = plan_.first[rank.value], end = plan_.first[rank.value + 1];
      std::vector<ActionTimes> known(end - begin);
      recorders_[c]->Look(begin, end, absl::MakeSpan(known));
      if (step_ > 0 && !state.computes) state.needs = NeedsOf(begin, known);
    }
  }
  return states;
}

// The first computation not yet begun, or the end of the step, depends on a message or collective
// under way: the first for its value or the parameters of its stage, or at the end any.
int64_t FlightLog::NeedsOf(uint32_t begin, absl::Span<const ActionTimes> known) const {
  size_t next = 0;
  while (next < known.size() &&
         (!IsCompute(plan_.actions[begin + next].kind) || known[next].start_ns != 0)) {
    ++next;
  }
  const bool at_end = next == known.size();
  for (size_t i = 0; i < next; ++i) {
    if (known[i].start_ns == 0 || known[i].end_ns != 0) continue;
    const Action& action = plan_.actions[begin + i];
    if (at_end) return begin + static_cast<int64_t>(i);
    const Action& waits = plan_.actions[begin + next];
    const bool collects = IsCollective(action.kind) && action.stage == waits.stage;
    const bool gives = (IsRecv(action.kind) || IsCopy(action.kind)) &&
                       action.stage == waits.stage && action.microbatch == waits.microbatch;
    if (collects || gives) return begin + static_cast<int64_t>(i);
  }
  return -1;
}

// Commands that never began are left out.
std::vector<FlightLog::Command> FlightLog::CommandsOf(int coordinate, int rank) const {
  std::vector<Command> commands;
  const Ring& ring = rings_[coordinate * plan_.ranks() + rank];
  const auto add = [&](const Command& command) {
    if (command.times.start_ns != 0) commands.push_back(command);
  };
  for (int64_t i = ring.oldest(); i < ring.count; ++i) add(ring.at(i));
  const uint32_t begin = plan_.first[rank], end = plan_.first[rank + 1];
  std::vector<ActionTimes> known(end - begin);
  recorders_[coordinate]->Look(begin, end, absl::MakeSpan(known));
  for (uint32_t i = begin; i < end && step_ > 0; ++i) {
    add({i, static_cast<int32_t>(step_), known[i - begin]});
  }
  if (commands.size() > kCommands) {
    commands.erase(commands.begin(), commands.end() - kCommands);
  }
  return commands;
}

int64_t FlightLog::Begin(int coordinate) const {
  int64_t begin_ns = std::numeric_limits<int64_t>::max();
  for (int r = 0; r < plan_.ranks(); ++r) {
    for (const Command& command : CommandsOf(coordinate, r)) {
      begin_ns = std::min(begin_ns, command.times.start_ns);
    }
  }
  return begin_ns;
}

Timeline FlightLog::Record(int coordinate) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  Timeline record;
  record.origin = "flight";
  record.schedule = plan_.schedule;
  record.parameters = plan_.parameters;
  record.pipes = plan_.pipes;
  const int64_t begin_ns = Begin(coordinate), now_ns = device_->NowNs();
  for (int r = 0; r < plan_.ranks(); ++r) {
    const std::vector<Command> commands = CommandsOf(coordinate, r);
    for (size_t i = 0; i < commands.size(); ++i) {
      const Action& action = plan_.actions[commands[i].action];
      const ActionTimes& times = commands[i].times;
      Event event{.kind = action.kind, .stage = action.stage, .microbatch = action.microbatch};
      // The group's first part may have dropped out of the ring.
      event.joined = action.joined && i > 0 && commands[i - 1].action + 1 == commands[i].action &&
                     commands[i - 1].step == commands[i].step;
      event.unfinished = times.end_ns == 0;
      event.start_ns = times.start_ns - begin_ns;
      event.end_ns =
          (event.unfinished ? std::max(now_ns, times.start_ns) : times.end_ns) - begin_ns;
      record.events.push_back(event);
    }
    record.first.push_back(static_cast<uint32_t>(record.events.size()));
  }
  return record;
}

bool FlightLog::HasUnfinished() const {
  for (int c = 0; c < coordinates(); ++c) {
    const Timeline record = Record(c);
    for (const RankId rank : local_.Of(c)) {
      for (const Event& event : record.of(rank)) {
        if (event.unfinished) return true;
      }
    }
  }
  return false;
}

std::vector<std::string> FlightLog::DescribeSteps(int coordinate) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::map<int32_t, int64_t> starts_ns;
  for (int r = 0; r < plan_.ranks(); ++r) {
    for (const Command& command : CommandsOf(coordinate, r)) {
      int64_t& start_ns = starts_ns.try_emplace(command.step, command.times.start_ns).first->second;
      start_ns = std::min(start_ns, command.times.start_ns);
    }
  }
  const int64_t begin_ns = Begin(coordinate);
  std::vector<std::string> lines;
  for (const auto& [step, start_ns] : starts_ns) {
    lines.push_back(absl::StrCat("step ", step, " starts at ", start_ns - begin_ns));
  }
  return lines;
}

}  // namespace stringline
