// Steps of a tiny model's trainer, and the results of its training to compare with others.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "executor/training/trainer.h"
#include "schedlang/base/sl_check.h"

namespace stringline {

struct TinyTraining {
  std::vector<double> losses, norms;  // by step: the loss is a sum over tokens
  // The gradients of the first step by their parameter's name; those of stages that share it are
  // side by side.
  std::map<std::string, std::vector<float>> grads;
  friend bool operator==(const TinyTraining&, const TinyTraining&) = default;
};

// Adds a step whose tokens and targets are set. `keeps_grads` is false for gradients that are
// shared out over ranks.
inline void AddStep(Trainer* trainer, bool keeps_grads, TinyTraining* training) {
  const absl::Status status = trainer->ComputeGradients();
  SL_CHECK(status.ok()) << status;
  const bool is_first = training->losses.empty();
  training->losses.push_back(trainer->loss_sum());
  for (size_t stage = 0; stage < trainer->programs().size() && is_first && keeps_grads; ++stage) {
    const std::vector<Param>& params = trainer->programs()[stage].params;
    for (size_t p = 0; p < params.size(); ++p) {
      const auto grad = trainer->grad(StageId(static_cast<int32_t>(stage)), static_cast<int>(p));
      std::vector<float>& all = training->grads[params[p].name];
      all.insert(all.end(), grad.begin(), grad.end());
    }
  }
  const auto norm = trainer->Update(0.02);
  SL_CHECK(norm.ok()) << norm.status();
  training->norms.push_back(*norm);
}

// The memory of every rank is that of its plan.
inline void ExpectPlannedBytes(const Trainer& trainer) {
  for (const RankBytes& rank : trainer.rank_bytes()) EXPECT_EQ(rank.planned, rank.allocated);
}

}  // namespace stringline
