// Runs a model stage by stage, for tests of invariance under cuts and splits.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "stages/models/model.h"
#include "tests/stages/random_values.h"

namespace stringline::cpu {

struct Batch {
  Array tokens, target;
};

// Some microbatches of random tokens.
std::vector<Batch> RandomBatches(const AnyShape& shape, std::mt19937_64& random);

struct ModelResult {
  std::vector<float> losses;  // for every microbatch, each followed by its auxiliary losses
  std::map<std::string, std::vector<float>> grads;  // summed over microbatches
};

// B, or I and W at once, or I of every microbatch before the first W.
enum class Mode { kWhole, kSplit, kDeferred };

// Every microbatch through the stages forward and back, weight gradients in microbatch order.
ModelResult RunModel(const std::vector<StageProgram>& programs, const std::vector<Batch>& batches,
                     uint64_t seed, Mode mode);

void ExpectSameBits(const ModelResult& a, const ModelResult& b);

// Every cut in every mode gives the losses and gradients of the whole model, bit by bit.
void CheckCuts(const AnyShape& shape, const std::vector<std::vector<int>>& cuts);

// The gradient of every parameter of the whole model, along a random direction, is the loss's
// difference.
void CheckGradient(const AnyShape& shape);

// Almost uniform at the initial values: log V nats a token.
void CheckFirstLoss(const AnyShape& shape);

// CountParams equals the number of parameters in the stages.
void CheckCount(const AnyShape& shape, const std::vector<int>& cut);

}  // namespace stringline::cpu
