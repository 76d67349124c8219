#include "executor/processes/tree_links.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "executor/engine/lost_process.h"
#include "executor/processes/frames.h"
#include "executor/processes/sockets.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr int64_t kAgainNs = 50'000'000;
constexpr int64_t kConnectNs = 250'000'000;  // of one attempt: the process answers nobody meanwhile
constexpr int kMostFailures = 20;

std::string PurposeIn(const Identity& identity) { return absl::StrCat("tree ", identity.nonce); }

}  // namespace

TreeLinks::TreeLinks(const Identity* identity, const TreePlace& place)
    : identity_(*identity), place_(place), came_(place.children.size()) {
  parent_.reached = place.parent <= 0;
}

absl::StatusOr<std::optional<std::string>> TreeLinks::Listen(const std::string& address) {
  if (place_.children.empty()) return std::nullopt;
  SL_ASSIGN_OR_RETURN(std::vector<int> listeners, ListenOn(address, 0));
  const int port = PortOf(listeners.front());
  gate_.emplace(std::move(listeners), &identity_.secret,
                ProofSubject{PurposeIn(identity_), 0, place_.block.first});
  return Pack({address, absl::StrCat(port)});
}

absl::Status TreeLinks::FindParent(absl::string_view told) {
  auto parts = Unpack(told);
  if (!parts.has_value() || parts->size() != 2 || !absl::SimpleAtoi((*parts)[1], &parent_.port)) {
    return absl::InternalError("the place of a process cannot be read");
  }
  parent_.host = std::move((*parts)[0]);
  return absl::OkStatus();
}

void TreeLinks::AddTo(std::vector<pollfd>* polled) const {
  if (prover_.has_value()) polled->push_back({prover_->fd(), POLLIN, 0});
  if (gate_.has_value()) gate_->AddTo(polled);
}

std::optional<int64_t> TreeLinks::again_ns() const {
  if (parent_.reached || parent_.host.empty() || prover_.has_value()) return std::nullopt;
  return parent_.again_ns;
}

absl::Status TreeLinks::Connect() {
  const absl::StatusOr<int> fd = ConnectTo(parent_.host, parent_.port, NowNs() + kConnectNs);
  if (fd.ok()) {
    parent_.failures = 0;
    prover_.emplace(*fd, &identity_.secret,
                    ProofSubject{PurposeIn(identity_), place_.block.first, place_.parent});
    return absl::OkStatus();
  }
  parent_.again_ns = NowNs() + kAgainNs;
  if (++parent_.failures < kMostFailures) return absl::OkStatus();
  return AsLost(absl::UnavailableError(absl::StrCat(
      "process ", place_.block.first, " on ", HostName(), " cannot reach process ", place_.parent,
      " at ", AddressText(parent_.host, parent_.port), ": ", fd.status().message())));
}

absl::StatusOr<std::vector<TreeLinks::Made>> TreeLinks::Advance() {
  std::vector<Made> made;
  const std::optional<int64_t> due_ns = again_ns();
  if (due_ns.has_value() && NowNs() >= *due_ns) SL_RETURN_IF_ERROR(Connect());
  if (prover_.has_value()) {
    // A connection that is dropped without a proof is made anew: strangers may have come in a
    // flood.
    const Prover::State state = prover_->Advance();
    if (state == Prover::State::kProven) {
      parent_.reached = true;
      made.push_back({place_.parent, prover_->Release()});
    }
    if (state != Prover::State::kUnderWay) {
      parent_.again_ns = NowNs() + kAgainNs;
      prover_.reset();
    }
  }
  if (!gate_.has_value()) return made;
  SL_ASSIGN_OR_RETURN(const std::vector<Gate::Guest> guests, gate_->Admit());
  for (const auto [fd, from] : guests) {
    const auto child =
        std::find_if(place_.children.begin(), place_.children.end(),
                     [from = from](const ProcessBlock& of) { return of.first == from; });
    const size_t index = child - place_.children.begin();
    if (child == place_.children.end() || came_[index]) {
      (void)close(fd);
      continue;
    }
    came_[index] = true;
    made.push_back({from, fd});
  }
  return made;
}

}  // namespace stringline
