// A trouble that this process notices goes to the process that decides; if that is this process, it
// asks all others where their answers can say more, and settles the failure. Deadlines are looked
// at by the reading thread, so a process that does not decide is replaced without a clock of its
// own.
#include "executor/processes/wire_failure.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/engine/lost_process.h"
#include "schedlang/base/clock.h"

namespace stringline {
namespace {

absl::Status StatusOf(int64_t code, const std::string& text) {
  const bool known = code > 0 && code <= static_cast<int64_t>(absl::StatusCode::kUnauthenticated);
  return absl::Status(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kInternal,
                      text);
}

}  // namespace

WireFailure::WireFailure(const ProcessNames* names, const WireDeadlines& deadlines,
                         CpuDevice* device, std::deque<WireConnection>* connections,
                         const WireLanes* lanes)
    : names_(names),
      deadlines_(deadlines),
      device_(device),
      connections_(connections),
      lanes_(lanes),
      silent_(names->processes(), false),
      inquiry_({.answers = std::vector<std::optional<WireAnswer>>(names->processes())}) {}

bool WireFailure::WaitUntilSettled(std::unique_lock<std::mutex>& lock,
                                   std::chrono::milliseconds most) {
  return settles_.wait_for(lock, most, [this] { return settled(); });
}

std::chrono::milliseconds WireFailure::MostUntilSettled() const {
  const auto deciders = static_cast<int64_t>(deciders_.size()) + 1;
  return std::chrono::milliseconds(deadlines_.ask_ms + deadlines_.decide_ms * deciders);
}

// The own process, if all deciders before it are gone, or all are.
int WireFailure::Decider() const {
  const auto there = [this](int p) {
    const WireConnection& connection = (*connections_)[p];
    return p == names_->own() || (connection.open() && !connection.left() && !silent_[p]);
  };
  const auto first = std::find_if(deciders_.begin(), deciders_.end(), there);
  return first == deciders_.end() ? names_->own() : *first;
}

bool WireFailure::IsDecider(int process) const {
  return std::find(deciders_.begin(), deciders_.end(), process) != deciders_.end();
}

void WireFailure::Notice(Trouble trouble) {
  if (settled()) return;
  if (trouble.dead >= names_->processes()) trouble.dead = -1;
  if (trouble.by >= names_->processes() || trouble.dead < 0) trouble.by = -1;
  // A death that becomes known replaces an earlier report that somebody is late.
  const bool first = noticed_.status.ok();
  const bool surer = trouble.dead >= 0 && absl::IsDeadlineExceeded(noticed_.status);
  if (!first && !surer) return;
  noticed_ = std::move(trouble);
  if (first) noticed_ns_ = NowNs();
  told_ = -1;
  TellDecider();
}

void WireFailure::NoticeLost(int process, bool left, bool ending, const std::string& why) {
  AnswerFor(process, /*lives=*/false);
  if (!left && !ending) {
    return Notice({absl::UnavailableError(absl::StrCat(names_->NameOf(process),
                                                       " died, or ended without a word: ", why)),
                   process, names_->own()});
  }
  bool awaited = false;
  lanes_->ForWaitingEnds([&](const WireLanes::WaitingEnd& end) {
    awaited = awaited || names_->ProcessOf(end.peer) == process;
  });
  if (!awaited) return;
  Notice({absl::UnavailableError(absl::StrCat(names_->NameOf(process), " has ended its run")),
          process});
}

// Tells the decider again whenever it is another process.
void WireFailure::TellDecider() {
  const int decider = Decider();
  if (decider == told_) return;
  told_ = decider;
  if (decider == names_->own()) return Decide();
  Tell(decider, WireFrame::kNoticed, noticed_);
}

void WireFailure::Decide() {
  if (noticed_.dead < 0 && !absl::IsDeadlineExceeded(noticed_.status)) {
    return Settle(noticed_.status, /*tells=*/true);
  }
  const int of = noticed_.by >= 0 ? noticed_.dead : -1;
  if (inquiry_.number == 0 || inquiry_.of != of) Inquire(of);
  EndInquiry();
}

// Asks all others what they know, and where one seems dead whether it is.
void WireFailure::Inquire(int of) {
  inquiry_ = {.number = inquiry_.number + 1,
              .of = of,
              .lives = of == names_->own(),
              .answers = std::vector<std::optional<WireAnswer>>(names_->processes())};
  noticed_ns_ = NowNs();
  for (WireConnection& connection : *connections_) {
    connection.Put({{.kind = WireFrame::kAsk, .from = -1, .peer = of, .index = inquiry_.number}});
  }
}

// True while one that can answer has not.
bool WireFailure::IsAsked() {
  const size_t all = inquiry_.answers.size();
  const auto awaited = [this](size_t p) {
    return (*connections_)[p].reachable() && !inquiry_.answers[p];
  };
  while (inquiry_.done < all && !awaited(inquiry_.done)) ++inquiry_.done;
  return inquiry_.done < all;
}

void WireFailure::EndInquiry() {
  if (IsAsked() && NowNs() < noticed_ns_ + deadlines_.ask_ms * 1'000'000) return;
  const WireAnswers answers = AllAnswers();
  if (noticed_.dead >= 0) {
    return Settle(absl::Status(noticed_.status.code(), DescribeClosed(answers)), /*tells=*/true);
  }
  const std::string blame = DescribeBlame(answers);
  Settle(absl::DeadlineExceededError(blame.empty() ? DescribeLate(answers) : blame),
         /*tells=*/true);
}

// A process died, or a connection broke between two that live.
std::string WireFailure::DescribeClosed(const WireAnswers& answers) const {
  const std::string said(noticed_.status.message());
  const std::string lost = DescribeLost(answers, names_->RanksOf(noticed_.dead));
  if (noticed_.by < 0) return said + lost;
  const std::string between =
      absl::StrCat("the connection between ", names_->NameOf(std::min(noticed_.by, noticed_.dead)),
                   " and ", names_->NameOf(std::max(noticed_.by, noticed_.dead)), " broke");
  if (inquiry_.lives) return between + ", and both still run";
  if (names_->processes() > 2) return said + lost;
  return absl::StrCat(said, lost, "; or only ", between, ", which no third process can tell");
}

// No message is waited for: some process did not come to an exchange of the hosts.
std::string WireFailure::DescribeLate(const WireAnswers& answers) const {
  std::string text(noticed_.status.message());
  std::vector<int> ranks;
  for (const int process : noticed_.late) {
    for (const int rank : names_->RanksOf(process)) ranks.push_back(rank);
  }
  // A rank that does not answer is late, whether or not this is known.
  for (int rank = 0; rank < names_->ranks() && ranks.empty(); ++rank) {
    if (!answers.answered[rank]) ranks.push_back(rank);
  }
  if (ranks.empty()) return text;
  return absl::StrCat(DescribeDoing(answers, ranks), "; ", text, DescribeKnown(answers, ranks));
}

WireAnswer WireFailure::OwnAnswer() const {
  WireAnswer answer;
  const int64_t now_ns = NowNs();
  lanes_->ForWaitingEnds([&](const WireLanes::WaitingEnd& end) {
    const LazyName& action = end.call->action;
    answer.waits.push_back({end.rank, end.peer, now_ns - end.since_ns,
                            DescribeWithAction(*end.call),
                            action.print == nullptr ? -1 : action.index});
  });
  for (const WireLanes::Ended& ended : lanes_->ended()) {
    if (ended.rank < 0) continue;
    answer.messages.push_back(
        {ended.rank, ended.peer, now_ns - ended.ended_ns, DescribeWithAction(ended.call)});
  }
  if (states_ != nullptr) answer.states = states_->Now();
  return answer;
}

WireAnswers WireFailure::AllAnswers() const {
  WireAnswers answers;
  answers.Add(OwnAnswer());
  for (const std::optional<WireAnswer>& answer : inquiry_.answers) {
    if (answer) answers.Add(*answer);
  }
  for (int rank = 0; rank < names_->ranks(); ++rank) {
    answers.names.push_back(names_->NameOfRank(rank));
    answers.answered.push_back(names_->IsHere(rank) ||
                               inquiry_.answers[names_->ProcessOf(rank)].has_value());
  }
  return answers;
}

void WireFailure::Settle(absl::Status status, bool tells) {
  if (settled()) return;
  settled_ = AsTold(std::move(status));
  for (int p = 0; tells && p < names_->processes(); ++p) Tell(p, WireFrame::kFail, {settled_});
  for (const int p : noticers_) Tell(p, WireFrame::kFail, {settled_});
  device_->Fail(settled_);
  settles_.notify_all();
}

void WireFailure::Tell(int process, WireFrame kind, const Trouble& trouble) {
  Outgoing told;
  told.header.kind = kind;
  told.header.peer = trouble.dead;
  told.header.from = trouble.by;
  told.header.to = trouble.late.empty() ? -1 : trouble.late[0];
  told.header.index = static_cast<int64_t>(trouble.status.code());
  told.text = std::string(trouble.status.message().substr(0, kMostWireText));
  (*connections_)[process].Put(std::move(told));
}

void WireFailure::Come(WireConnection* from) {
  switch (from->header().kind) {
    case WireFrame::kNoticed:
      return ComeNoticed(*from);
    case WireFrame::kFail:
      // A decider tells all; another process only its peers.
      return Settle(StatusOf(from->header().index, from->text()), !IsDecider(from->process()));
    case WireFrame::kAsk:
      return ComeAsk(*from);
    case WireFrame::kAnswer:
      return ComeAnswer(*from);
    default:
      return;
  }
}

// The sender takes the deciders before this one for lost; one to which only its connection broke,
// and not this process's, decides all the same.
void WireFailure::ComeNoticed(const WireConnection& from) {
  const WireHeader& header = from.header();
  noticers_.push_back(from.process());
  for (const int p : deciders_) {
    if (p == names_->own()) break;
    silent_[p] = silent_[p] || header.from < 0 || p != header.peer;
  }
  Notice({StatusOf(header.index, from.text()), header.peer, header.from,
          header.to < 0 ? std::vector<int>() : std::vector<int>{header.to}});
}

void WireFailure::ComeAsk(const WireConnection& from) {
  const WireHeader& header = from.header();
  const int of = header.peer;
  const bool knows = of >= 0 && of < names_->processes() && of != names_->own() &&
                     of != from.process() && IsDecider(names_->own()) &&
                     (*connections_)[of].reachable();
  if (!knows) {
    const bool asked_for_another = header.from >= 0;
    if (!asked_for_another) return Answer(from.process(), header.index, -1);
    return (*connections_)[from.process()].Put({{.kind = WireFrame::kAnswer, .from = header.from}});
  }
  questions_.push_back({of, from.process(), header.index});
  (*connections_)[of].Put({{.kind = WireFrame::kAsk, .from = from.process(), .peer = -1}});
}

void WireFailure::ComeAnswer(const WireConnection& from) {
  const WireHeader& header = from.header();
  if (header.from >= 0) return AnswerFor(from.process(), /*lives=*/true);
  if (header.index != inquiry_.number) return;
  inquiry_.answers[from.process()] = UnpackAnswer(from.text(), names_->ranks());
  inquiry_.lives =
      inquiry_.lives ||
      (inquiry_.of >= 0 && (header.peer == inquiry_.of || from.process() == inquiry_.of));
}

// Answers those who asked whether this process lives.
void WireFailure::AnswerFor(int process, bool lives) {
  for (const Question& question : std::exchange(questions_, {})) {
    if (question.of != process) {
      questions_.push_back(question);
    } else {
      Answer(question.asker, question.number, lives ? process : -1);
    }
  }
}

void WireFailure::Answer(int asker, int64_t number, int lives) {
  Outgoing answer;
  answer.header.kind = WireFrame::kAnswer;
  answer.header.from = -1;
  answer.header.peer = lives;
  answer.header.index = number;
  answer.text = PackAnswer(OwnAnswer(), kMostWireText);
  (*connections_)[asker].Put(std::move(answer));
}

void WireFailure::CheckDeadlines() {
  if (settled()) return;
  if (noticed_.status.ok()) return NoticeLateMessage();
  TellDecider();
  if (inquiry_.number > 0) return EndInquiry();
  if (NowNs() < noticed_ns_ + deadlines_.decide_ms * 1'000'000) return;
  silent_[told_] = true;
  noticed_ns_ = NowNs();
  TellDecider();
}

void WireFailure::NoticeLateMessage() {
  if (deadlines_.wait_ms == 0) return;
  const int64_t before_ns = NowNs() - deadlines_.wait_ms * 1'000'000;
  const std::optional<WireLanes::WaitingEnd> late = lanes_->Oldest();
  if (!late || late->since_ns > before_ns) return;
  Notice({absl::DeadlineExceededError(absl::StrCat(
      names_->NameOfRank(late->rank), " waited ", static_cast<double>(deadlines_.wait_ms) / 1000,
      " s in ", DescribeWithAction(*late->call), " for ", names_->NameOfRank(late->peer)))});
}

}  // namespace stringline
