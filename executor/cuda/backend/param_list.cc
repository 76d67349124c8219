#include "executor/cuda/backend/param_list.h"

#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline::cuda {
namespace {

template <typename T>
absl::StatusOr<T*> TableOf(const std::vector<T>& values, Device* device) {
  const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
  SL_ASSIGN_OR_RETURN(void* const memory, device->Allocate(bytes));
  if (bytes > 0) SL_RETURN_IF_ERROR(device->CopyNow(memory, values.data(), bytes));
  return static_cast<T*>(memory);
}

template <typename T>
StringlineUse UseOf(const T* table, int64_t count, int writes) {
  return {table, static_cast<size_t>(count) * sizeof(T), writes};
}

Bf16* WorkingCopyOf(const ParamBlock& block) {
  return block.working.empty() ? nullptr : reinterpret_cast<Bf16*>(block.working.data());
}

}  // namespace

absl::StatusOr<ParamList::Chunks> ParamList::Upload(const std::vector<ParamChunk>& chunks,
                                                    Device* device) {
  SL_ASSIGN_OR_RETURN(const ParamChunk* const table, TableOf(chunks, device));
  return Chunks{table, static_cast<int64_t>(chunks.size())};
}

absl::StatusOr<ParamList> ParamList::Make(absl::Span<const ParamBlock> blocks, Device* device) {
  ParamList list;
  list.params_count_ = static_cast<int64_t>(blocks.size());
  std::vector<UpdatedParam> params;
  std::vector<ParamChunk> updated, counted;
  std::vector<int32_t> first;
  for (const ParamBlock& block : blocks) {
    SL_CHECK(block.momentum == 0) << "averages are of ops that run on CPUs alone";
    params.push_back({block.values.data(), block.gradient.data(), block.m.data(), block.v.data(),
                      WorkingCopyOf(block), static_cast<int64_t>(block.values.size()),
                      block.decays});
  }
  for (const ParamChunk& chunk : ChunksOf(params)) {
    const ParamBlock& block = blocks[static_cast<size_t>(chunk.param)];
    if (!block.balances) updated.push_back(chunk);
    while (first.size() <= static_cast<size_t>(chunk.param)) {
      first.push_back(static_cast<int32_t>(counted.size()));
    }
    if (block.counts) counted.push_back(chunk);
  }
  first.resize(blocks.size() + 1, static_cast<int32_t>(counted.size()));
  for (const ParamBlock& block : blocks) {
    if (block.balances) list.balanced_.push_back(block);
  }
  SL_ASSIGN_OR_RETURN(list.params_, TableOf(params, device));
  SL_ASSIGN_OR_RETURN(list.updated_, Upload(updated, device));
  SL_ASSIGN_OR_RETURN(list.counted_, Upload(counted, device));
  SL_ASSIGN_OR_RETURN(list.first_, TableOf(first, device));
  SL_ASSIGN_OR_RETURN(list.squares_, TableOf(std::vector<double>(counted.size()), device));
  SL_ASSIGN_OR_RETURN(list.step_, TableOf(std::vector<AdamWStep>(1), device));
  SL_ASSIGN_OR_RETURN(list.scale_, TableOf(std::vector<float>(1), device));
  return list;
}

std::vector<StringlineUse> ParamList::UsesOfSums() const {
  return {UseOf(params_, params_count_, 0), UseOf(counted_.chunks, counted_.count, 0),
          UseOf(first_, params_count_ + 1, 0), UseOf(squares_, counted_.count, 1)};
}

std::vector<StringlineUse> ParamList::UsesOfUpdate() const {
  return {UseOf(params_, params_count_, 0), UseOf(updated_.chunks, updated_.count, 0),
          UseOf(step_, 1, 1), UseOf(scale_, 1, 1)};
}

void ParamList::SumOfSquares(const StreamRun& run, double* sums) const {
  run(SquaresOfChunks{params_, counted_.chunks, squares_, counted_.count});
  run(SumsOfParams{squares_, first_, sums, params_count_});
}

void ParamList::Update(const StreamRun& run, const UpdateStep& step) const {
  run(SetStep{&step, step_, scale_});
  run(AdamWUpdate{params_, updated_.chunks, updated_.count, step_, scale_});
  for (const ParamBlock& block : balanced_) {
    run(BalanceUpdate{block.values.data(), block.gradient.data(),
                      static_cast<int64_t>(block.values.size()), &step});
  }
}

}  // namespace stringline::cuda
