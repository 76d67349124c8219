// Stages in parts on the CUDA device: two copies of a pipeline divide the experts of their stages,
// and exchange counted rows on the network lane. Every part checks that its dependency has run, and
// every exchange that it received the rows sent.
#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "executor/cuda/copies/group.h"
#include "executor/engine/interpreter.h"
#include "gtest/gtest.h"
#include "tests/cuda/host_work.h"
#include "tests/cuda/standin/standin.h"
#include "tests/executor/plans.h"

namespace stringline {
namespace {

constexpr int kCopies = 2;
constexpr int kLayers = 2;
constexpr int kPerPiece = 3;  // counts
constexpr int kMostCount = 3;
constexpr int kMostRows = kCopies * kPerPiece * kMostCount;

// A member's buffers in an exchange.
struct Rows {
  int32_t from_counts[kCopies * kPerPiece];
  int32_t to_counts[kCopies * kPerPiece];
  int32_t from[kMostRows];
  int32_t to[kMostRows];
};

// A hash of numbers.
uint32_t Mixed(std::initializer_list<int> numbers) {
  uint32_t mixed = 2166136261U;
  for (const int number : numbers) mixed = (mixed ^ static_cast<uint32_t>(number)) * 16777619U;
  return mixed ^ (mixed >> 15);
}

class PartsOfACopy final : public StageWork {
 public:
  PartsOfACopy(const Plan& plan, int copy, CudaDevice* device, const std::vector<Group*>& groups)
      : plan_(plan),
        copy_(copy),
        device_(device),
        groups_(groups),
        done_(plan.stages.size() * plan.microbatches * kParts * kLayers, 0) {}

  int layers(StageId /*stage*/) const override { return kLayers; }

  Piece Compute(const Action& action, LayerPart part) override {
    Piece piece;
    const auto before = PartBefore(part, kLayers);
    int* const own = Done(action, part);
    int* const other = before ? Done(action, *before) : nullptr;
    if (LaneOf(part.part) == Lane::kCompute) {
      piece.work = host_.Of([this, own, other] { Note(own, other); });
      return piece;
    }
    auto* const rows = static_cast<Rows*>(*device_->Allocate(sizeof(Rows)));
    const int id = static_cast<int>(
        Mixed({action.stage.value, action.microbatch.value, part.part, part.layer}));
    piece.work = host_.Of([this, own, other, rows, id] {
      Note(own, other);
      Fill(rows, id);
    });
    MemberCall call{groups_[plan_.stage(action.stage).rank.value], copy_, {}};
    call.call.name.index = id;
    call.call.kind = CallKind::kAllToAllCounted;
    call.call.from = rows->from;
    call.call.to = rows->to;
    call.call.bytes = sizeof(int32_t);
    call.call.rows = &row_counts_.emplace_back(RowCounts{
        rows->from_counts, nullptr, kPerPiece, kMostRows, kPerPiece * kMostCount, rows->to_counts});
    piece.calls.push_back(call);
    piece.after = host_.Of([this, rows, id] { Look(*rows, id); });
    return piece;
  }
  Bytes Payload(const Action& /*send_or_recv*/) const override { return {}; }

  int wrong() const { return wrong_; }
  int ran() const { return ran_; }
  int exchanged() const { return exchanged_; }

 private:
  int* Done(const Action& action, LayerPart part) {
    const size_t value =
        static_cast<size_t>(action.stage.value) * plan_.microbatches + action.microbatch.value;
    return &done_[(value * kParts + part.part) * kLayers + part.layer];
  }
  // Counts a part's run; its dependency must have run as often.
  void Note(int* own, const int* other) {
    ++ran_;
    ++*own;
    if (other != nullptr && *other != *own) ++wrong_;
  }
  static int CountOf(int from, int to, int k, int id) {
    return static_cast<int>(Mixed({from, to, k, id}) % (kMostCount + 1));
  }
  static int32_t RowOf(int from, int to, int k, int i, int id) {
    return static_cast<int32_t>(Mixed({from, to, k, i, id}));
  }
  // Clears the rows of earlier steps.
  void Fill(Rows* rows, int id) const {
    *rows = {};
    int row = 0;
    for (int to = 0; to < kCopies; ++to) {
      for (int k = 0; k < kPerPiece; ++k) {
        const int count = CountOf(copy_, to, k, id);
        rows->from_counts[to * kPerPiece + k] = count;
        for (int i = 0; i < count; ++i) rows->from[row++] = RowOf(copy_, to, k, i, id);
      }
    }
  }
  void Look(const Rows& rows, int id) {
    ++exchanged_;
    int row = 0;
    for (int from = 0; from < kCopies; ++from) {
      for (int k = 0; k < kPerPiece; ++k) {
        const int count = CountOf(from, copy_, k, id);
        if (rows.to_counts[from * kPerPiece + k] != count) ++wrong_;
        for (int i = 0; i < count; ++i) {
          if (rows.to[row++] != RowOf(from, copy_, k, i, id)) ++wrong_;
        }
      }
    }
  }

  const Plan& plan_;
  const int copy_;
  CudaDevice* const device_;
  const std::vector<Group*>& groups_;  // by rank of the plan
  HostWork host_;
  std::deque<RowCounts> row_counts_;
  std::vector<int> done_;  // by stage, microbatch, part and layer: number of runs
  int wrong_ = 0;
  int ran_ = 0;
  int exchanged_ = 0;
};

void RunInParts(const Plan& plan, unsigned seed) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  standin_reset(seed);
  auto device = CudaDevice::Make();
  ASSERT_TRUE(device.ok()) << device.status();
  CopyGroups groups(device->get());
  std::vector<Group*> by_rank;
  for (int r = 0; r < plan.ranks(); ++r) by_rank.push_back(groups.New({r, plan.ranks() + r}));
  std::deque<PartsOfACopy> copies;
  std::vector<std::unique_ptr<Interpreter>> steps;
  for (int c = 0; c < kCopies; ++c) {
    auto& work = copies.emplace_back(plan, c, device->get(), by_rank);
    auto step = Interpreter::Make(plan, &work, device->get(), &groups, nullptr,
                                  {.first_rank = c * plan.ranks()});
    ASSERT_TRUE(step.ok()) << step.status();
    steps.push_back(*std::move(step));
  }
  constexpr int kSteps = 3;
  for (int i = 0; i < kSteps; ++i) {
    for (const auto& step : steps) step->EnqueueStep();
    if (i == kSteps - 1) {
      const absl::StatusOr<int> captured = (*device)->Capture();
      ASSERT_TRUE(captured.ok()) << captured.status();
      (*device)->Replay(*captured);
    }
    const absl::Status status = (*device)->Synchronize();
    ASSERT_TRUE(status.ok()) << status;
  }
  const int actions = static_cast<int>(plan.stages.size()) * plan.microbatches;
  for (const PartsOfACopy& copy : copies) {
    EXPECT_EQ(copy.wrong(), 0);
    EXPECT_EQ(copy.ran(), kSteps * actions * (10 * kLayers + 3));
    EXPECT_EQ(copy.exchanged(), kSteps * actions * 4 * kLayers);
  }
}

class PartsStep : public testing::TestWithParam<const char*> {};

TEST_P(PartsStep, ExchangesBringWhatWasSent) {
  const unsigned seed = std::random_device{}();
  for (const int ranks : {2, 4}) {
    const std::optional<Plan> plan = LibraryPlan(GetParam(), ranks, 2 * ranks);
    ASSERT_TRUE(plan.has_value());
    for (unsigned i = 0; i < 4 && !HasFailure(); ++i) RunInParts(*plan, seed + i);
  }
}

INSTANTIATE_TEST_SUITE_P(Library, PartsStep,
                         testing::Values("1f1b", "interleaved", "zb_h1", "zb_v", "dualpipe_v",
                                         "megatron_combined"),
                         [](const auto& info) { return "S" + std::string(info.param); });

}  // namespace
}  // namespace stringline
