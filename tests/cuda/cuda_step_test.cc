// Whole steps on the CUDA device: the plans of the library with messages that carry bytes, whose
// values share memory as in training. Any missing wait corrupts a value in some order of the
// stand-in.
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "executor/cuda/copies/group.h"
#include "executor/engine/interpreter.h"
#include "executor/engine/recorder.h"
#include "executor/training/replicas.h"
#include "gtest/gtest.h"
#include "schedlang/base/status.h"
#include "tests/cuda/host_work.h"
#include "tests/cuda/standin/standin.h"
#include "tests/executor/canaries.h"
#include "tests/executor/plans.h"

namespace stringline {
namespace {

// Canaries on a device that enqueues work instead of calling it; and every weight gradient is added
// to numbers of the stage, which a plan with collectives sums over all copies of the stage.
class EnqueuedCanaries final : public StageWork {
 public:
  EnqueuedCanaries(const Plan& plan, CudaDevice* device, Groups* groups, unsigned seed)
      : plan_(plan),
        canaries_(plan, device, seed, /*delays=*/false),
        replicas_(plan, Mesh(), groups),
        came_(plan.stages.size(), 0) {
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      sums_.push_back(static_cast<float*>(*device->Allocate(kNumbers * sizeof(float))));
    }
  }

  Piece Compute(const Action& action, LayerPart part) override {
    Piece piece = canaries_.Compute(action, part);
    if (piece.work.run == nullptr) return piece;
    const bool last =
        action.kind == ActionKind::kBackward || action.kind == ActionKind::kWeightGradient;
    float* const sums = last ? sums_[action.stage.value] : nullptr;
    piece.work = host_.Of([work = piece.work, sums, microbatch = action.microbatch.value] {
      work.run(work.self, work.argument, nullptr);
      for (int i = 0; sums != nullptr && i < kNumbers; ++i) {
        sums[i] += static_cast<float>((microbatch + 1) * (i + 1));
      }
    });
    return piece;
  }
  absl::StatusOr<Work> Copy(const Action& action) override {
    SL_ASSIGN_OR_RETURN(const Work work, canaries_.Copy(action));
    return host_.Of([work] { work.run(work.self, work.argument, nullptr); });
  }
  absl::StatusOr<Piece> Update(const Action& action) override {
    SL_ASSIGN_OR_RETURN(const Piece piece, canaries_.Update(action));
    return Piece{
        host_.Of([piece] { piece.work.run(piece.work.self, piece.work.argument, nullptr); }),
        {},
        {}};
  }
  Bytes Payload(const Action& send_or_recv) const override {
    return canaries_.Payload(send_or_recv);
  }
  absl::StatusOr<std::vector<Piece>> Collective(const Action& action,
                                                const Action* /*inside*/) override {
    if (action.kind != ActionKind::kReduceGrad) return absl::UnimplementedError("not here");
    std::vector<Piece> pieces(1);
    Piece& piece = pieces.front();
    const std::vector<StageId> copies = replicas_.OnItsRank(action.stage);
    const StageId first = copies[0];
    if (++came_[first.value] < static_cast<int>(copies.size())) return pieces;
    float* const sums = sums_[first.value];
    piece.work = host_.Of([this, copies, sums] {
      for (size_t c = 1; c < copies.size(); ++c) {
        float* const other = sums_[copies[c].value];
        for (int i = 0; i < kNumbers; ++i) sums[i] += std::exchange(other[i], 0);
      }
    });
    const Replicas::Seat seat = replicas_.OfDense(0, first);
    if (seat.group != nullptr) {
      MemberCall& call = piece.calls.emplace_back(MemberCall{seat.group, seat.member, {}});
      call.call.kind = CallKind::kAllReduce;
      call.call.from = call.call.to = sums;
      call.call.bytes = kNumbers * sizeof(float);
      call.call.name.index = replicas_.PartOf(first);
    }
    piece.after = host_.Of([this, sums] {
      ++summed_;
      int all = 0;
      for (const Pipe& pipe : plan_.pipes) all += pipe.microbatches * (pipe.microbatches + 1) / 2;
      for (int i = 0; i < kNumbers; ++i) {
        wrong_ += sums[i] == static_cast<float>(all * (i + 1)) ? 0 : 1;
        sums[i] = 0;
      }
    });
    return pieces;
  }

  const Canaries& canaries() const { return canaries_; }
  int summed() const { return summed_; }
  int wrong_sums() const { return wrong_; }

 private:
  static constexpr int kNumbers = 37;

  const Plan& plan_;
  Canaries canaries_;
  const Replicas replicas_;
  HostWork host_;
  std::vector<int> came_;  // by stage
  std::vector<float*> sums_;
  int summed_ = 0;
  int wrong_ = 0;
};

void RunStep(const Plan& plan, unsigned seed, const InterpreterSettings& settings) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  constexpr int64_t kOpNs = 1'000'000;
  standin_reset(seed);
  standin_set_op_ns(kOpNs);
  auto device = CudaDevice::Make();
  ASSERT_TRUE(device.ok()) << device.status();
  CopyGroups groups(device->get());
  EnqueuedCanaries work(plan, device->get(), &groups, seed);
  Recorder recorder(plan);
  const auto step = Interpreter::Make(plan, &work, device->get(), &groups, &recorder, settings);
  ASSERT_TRUE(step.ok()) << step.status();
  // Issued twice, then captured and replayed twice.
  int captured = -1;
  for (int i = 0; i < 4; ++i) {
    recorder.StartStep((*device)->NowNs());
    if (i < 3) (*step)->EnqueueStep();
    if (i == 2) {
      const absl::StatusOr<int> graph = (*device)->Capture();
      ASSERT_TRUE(graph.ok()) << graph.status();
      captured = *graph;
    }
    if (captured >= 0) (*device)->Replay(captured);
    const absl::Status status = (*device)->Synchronize();
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(work.canaries().spoiled(), 0);
  EXPECT_GT(work.canaries().looked_at(), 0);
  EXPECT_EQ(work.wrong_sums(), 0);
  EXPECT_EQ(work.summed() > 0, plan.pipes.size() > 1);
  EXPECT_EQ(standin_pageable_copies(), 0);
  // Every computation has taken the stand-in's time for an op, since the step began.
  for (const Event& event : recorder.Observed(plan).events) {
    EXPECT_GE(event.start_ns, 0);
    EXPECT_GE(event.end_ns, event.start_ns);
    if (IsCompute(event.kind)) {
      EXPECT_NEAR(event.end_ns - event.start_ns, kOpNs, kOpNs / 10);
    }
  }
}

class LibraryStep : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(LibraryStep, EveryValueArrivesWhole) {
  const auto& [name, ranks] = GetParam();
  const unsigned seed = std::random_device{}();
  bool any = false;
  for (const CommLayout layout : {CommLayout::kEdge, CommLayout::kPair, CommLayout::kShared}) {
    const std::optional<Plan> plan = LibraryPlan(name, ranks, 3 * ranks, layout);
    if (!plan) continue;
    any = true;
    for (unsigned i = 0; i < 6 && !HasFailure(); ++i) {
      RunStep(*plan, seed + i, {.layout = layout});
    }
  }
  if (!any) GTEST_SKIP() << "not for " << ranks << " ranks";
}

INSTANTIATE_TEST_SUITE_P(Library, LibraryStep,
                         testing::Combine(testing::ValuesIn(LibrarySchedules()),
                                          testing::Values(2, 4)),
                         [](const auto& info) {
                           std::string name = std::get<0>(info.param);
                           return "S" + name + "P" + std::to_string(std::get<1>(info.param));
                         });

TEST(CudaStep, ADeadlockNamesTheStreamsOfTheRanks) {
  standin_reset(1);
  const Plan plan = LoweredFrom(
      "plan v P=2 M=1\n"
      "stages 0 1\n"
      "rank 0: 0F0 0B0\n"
      "rank 1: 1F0 1B0\n");
  auto device = CudaDevice::Make();
  ASSERT_TRUE(device.ok()) << device.status();
  CopyGroups groups(device->get());
  NoWork work;
  const auto step = Interpreter::Make(plan, &work, device->get(), &groups, nullptr);
  ASSERT_TRUE(step.ok()) << step.status();
  (*step)->EnqueueRank(RankId(0));  // with no peer at the other end
  const absl::Status status = (*device)->Synchronize();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(status.message(),
            "deadlock: nothing can run any more, and rank 0's computation waits for 0RECV_B0; "
            "rank 0's send stream to rank 1 waits for somebody to receive the activation of stage "
            "0, microbatch 0 (0 bytes); rank 0's receive stream from rank 1 waits for somebody to "
            "send the gradient of stage 1, microbatch 0 (0 bytes)");
}

}  // namespace
}  // namespace stringline
