#include "executor/nccl/nccl_comms.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "executor/engine/lost_process.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int kMostCtas = 32;               // NCCL's maximum
constexpr int kEagerPolls = 100;            // before the host sleeps between polls
constexpr int64_t kWorldEveryNs = 5 * kMs;  // interval of polls for failures of other processes
constexpr int64_t kEndNs = 10'000 * kMs;    // bound on the wait for the others

}  // namespace

absl::StatusOr<std::unique_ptr<NcclComms>> NcclComms::Make(const nccl::Library& library,
                                                           World* world,
                                                           const NcclSettings& settings) {
  std::unique_ptr<NcclComms> comms(new NcclComms(library, world, settings));
  const absl::Status status = comms->Start();
  if (!status.ok()) {
    comms->Abort(status);
    return status;
  }
  return comms;
}

absl::Status NcclComms::Start() {
  nccl::UniqueId id = {};
  std::string mine;
  if (world_->process() == 0) {
    SL_RETURN_IF_ERROR(ErrorOf(nullptr, library_.GetUniqueId(&id), "ncclGetUniqueId"));
    mine.assign(id.bytes, sizeof(id.bytes));
  }
  SL_ASSIGN_OR_RETURN(const std::vector<std::string> all, world_->Exchange(mine));
  if (all[0].size() != sizeof(id.bytes)) {
    return absl::InternalError("process 0 gave no NCCL id");
  }
  std::memcpy(id.bytes, all[0].data(), sizeof(id.bytes));
  nccl::Config config = NewConfig("all", 0);
  const nccl::Result result =
      library_.CommInitRankConfig(&all_, world_->processes(), id, world_->process(), &config);
  if (all_ != nullptr) comms_.push_back(all_);
  return Settle(all_, result, "ncclCommInitRankConfig");
}

// In the order of creation, so that all processes end the same communicator.
NcclComms::~NcclComms() {
  if (aborted_) return;
  const int64_t until_ns = NowNs() + kEndNs;
  for (nccl::Comm* const comm : comms_) {
    if (comm == nullptr) continue;
    nccl::Result result = library_.CommFinalize(comm);
    while (result == nccl::kInProgress && NowNs() < until_ns && world_->state().ok()) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      if (library_.CommGetAsyncError(comm, &result) != nccl::kSuccess) break;
    }
    if (result == nccl::kSuccess) {
      (void)library_.CommDestroy(comm);
    } else {
      (void)library_.CommAbort(comm);
    }
  }
}

nccl::Config NcclComms::NewConfig(absl::string_view name, int most_ctas) {
  nccl::Config config = library_.NewConfig();
  config.blocking = 0;
  // Sharing would make an abort of one communicator abort its whole family.
  config.split_share = 0;
  config.comm_name = names_.emplace_back(name).c_str();
  int most = settings_.max_ctas;
  if (most_ctas > 0) most = most > 0 ? std::min(most, most_ctas) : most_ctas;
  if (most > 0) config.max_ctas = std::min(most, kMostCtas);
  if (settings_.min_ctas > 0) {
    config.min_ctas = most > 0 ? std::min(settings_.min_ctas, config.max_ctas) : settings_.min_ctas;
  }
  return config;
}

absl::StatusOr<nccl::Comm*> NcclComms::Split(int color, int key, absl::string_view name,
                                             int most_ctas) {
  nccl::Config config = NewConfig(name, most_ctas);
  // A thread of NCCL's writes the communicator here, at any time until the parent has settled or is
  // aborted. The call returns success although that thread still works.
  nccl::Comm*& made = comms_.emplace_back(nullptr);
  const nccl::Result result = library_.CommSplit(all_, color, key, &made, &config);
  SL_RETURN_IF_ERROR(
      Settle(all_, result == nccl::kSuccess ? nccl::kInProgress : result, "ncclCommSplit"));
  if (color == nccl::kNoColor) {
    comms_.pop_back();
    return nullptr;
  }
  if (made == nullptr) return absl::InternalError("ncclCommSplit made no communicator");
  SL_RETURN_IF_ERROR(Settle(made, nccl::kInProgress, "ncclCommSplit"));
  return made;
}

absl::Status NcclComms::Settle(nccl::Comm* comm, nccl::Result result, const char* call) {
  if (result == nccl::kSuccess) return absl::OkStatus();
  const int64_t began_ns = NowNs();
  int64_t asked_ns = began_ns;
  for (int polls = 0; result == nccl::kInProgress && comm != nullptr; ++polls) {
    const nccl::Result asked = library_.CommGetAsyncError(comm, &result);
    if (asked != nccl::kSuccess) result = asked;
    if (result != nccl::kInProgress) break;
    const int64_t now_ns = NowNs();
    if (now_ns - asked_ns > kWorldEveryNs) {
      asked_ns = now_ns;
      SL_RETURN_IF_ERROR(world_->state());
    }
    if (now_ns - began_ns > settings_.start_ms * kMs) {
      return AsLost(absl::DeadlineExceededError(
          absl::StrCat(call, " of rank ", world_->process(), " was not over within ",
                       static_cast<double>(settings_.start_ms) / 1000,
                       " s: other ranks do not take part in it")));
    }
    if (polls > kEagerPolls) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return ErrorOf(comm, result, call);
}

absl::Status NcclComms::ErrorOf(nccl::Comm* comm, nccl::Result result, const char* call) const {
  if (result == nccl::kSuccess) return absl::OkStatus();
  const char* const last = library_.GetLastError(comm);
  const std::string text =
      absl::StrCat(call, " of rank ", world_->process(), ": ", library_.GetErrorString(result),
                   last == nullptr || *last == '\0' ? "" : absl::StrCat(" (", last, ")"));
  if (result == nccl::kRemoteError) return AsLost(absl::UnavailableError(text));
  return absl::InternalError(text);
}

absl::Status NcclComms::Poll() {
  SL_RETURN_IF_ERROR(world_->state());
  for (nccl::Comm* const comm : comms_) {
    if (comm == nullptr) continue;
    nccl::Result error = nccl::kSuccess;
    const nccl::Result asked = library_.CommGetAsyncError(comm, &error);
    if (asked != nccl::kSuccess) error = asked;
    if (error != nccl::kInProgress)
      SL_RETURN_IF_ERROR(ErrorOf(comm, error, "ncclCommGetAsyncError"));
  }
  return absl::OkStatus();
}

void NcclComms::Abort(const absl::Status& failure) {
  if (aborted_) return;
  aborted_ = true;
  world_->Fail(failure);
  // The parent of all comes first: after its abort no communicator is still being made.
  for (nccl::Comm* const& comm : comms_) {
    if (comm != nullptr) (void)library_.CommAbort(comm);
  }
  comms_.clear();
}

}  // namespace stringline
