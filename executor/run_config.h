// What a run file says: which model, which schedule, which data, how to train.
//
//   schedule:
//     file: ../../schedules/dualpipe_v.sched     # relative to the run file
//     P: 4
//     M: 8                                       # and any option of the schedule
//   model:  {layers: 8, width: 96, heads: 3, context: 128}
//   data:   {text: kjv.txt, microbatch: 4}       # sequences per microbatch
//   train:  {steps: 300, learning_rate: 3e-3}
//
// Everything not marked as having a default must be given; an unknown key is an error.
//
// `model` takes the keys of its `kind` (schedlang/sim/model_keys.def: cost files take the same);
// `split`, layers per stage, goes with any. In brackets: a default.
//
//   folder               a Hugging Face folder, whose config says the sizes, and with whose
//                        parameters the run begins (checkpoint/model_folder.h); context [as many
//                        as it takes]
//   export               a file of torch.export.save (torch_model/export_file.h), whose program is
//                        the model, and with whose parameters the run begins; context [that of the
//                        program, which is the longest]. Its `split` may also be
//                        `balanced`, by the work of its layers, or name modules, with each of
//                        which a stage begins
//   kind: gpt [no kind]  layers width heads context vocabulary [256] tied [false]
//   kind: llama          layers width heads kv_heads [heads] head_dim [width / heads] hidden
//                        context vocabulary [256] theta [10000] epsilon [1e-5] stddev [0.02], of
//                        the first values, qkv_bias qk_norm tied [false] (stages/models/decoder.h)
//   kind: moe            those of llama, `hidden` only if there are dense layers, and: experts
//   top_k
//                        expert_hidden shared_hidden [0] first_dense [0] scores [softmax | sigmoid]
//                        normalise [true] scale [1] groups top_groups group_best [1] balance_rate
//                        aux_coefficient [0] (stages/models/moe_shape.h); capacity [dropless], a
//                        factor: an expert takes at most so many times its even share of a
//                        microbatch's slots, and exceeded [error | drop] says what happens to more
//
// `data` takes `text`, whose bytes are the tokens, or `tokens`, a file of token numbers (data.h),
// and for a file that does not say it itself `dtype`: uint16 or uint32.
//
// `device`, a word beside the sections, says what ranks run on: cpu, threads of this machine; cuda,
// streams of its first GPU, or where there are several processes a GPU each; auto [the default],
// cuda where a GPU can be used, or cpu. `gpus`, another, says on which GPUs the ranks of one
// process run: a number, of the machine's first ones [1], a list of their numbers, as [0, 2], or
// all; rank r of R is on the GPU at place r N / R of N. `sms_per_rank`, one more, gives the
// computations of each rank so many multiprocessors that no other rank has [all share all].
// `capture`, another, says of GPUs whether steps are captured as a graph and replayed: auto [the
// default], where CUDA can, or off. `timeout`, as 600s [the default], is how long a GPU may take
// over a step, and how long a rank waits for one of another process, before the run ends with an
// error; 0s: as long as it takes. `nccl` takes what
// messages between processes may use: min_ctas and max_ctas of a call [0: as NCCL likes], rows
// [padded | counted], sums [ordered | nccl], capture [false], whether steps with them are captured
// too (nccl/nccl_comms.h), and layout [edge | pair | updown | shared], which messages share a
// communicator (communicators.h).
//
// `precision`, another one: fp32 [the default], or bf16, in which activations and the weights,
// tables and biases of products are bf16. Sums inside of products, norms, routers, losses, the
// gradients of parameters, what AdamW keeps and the parameters that it steps are fp32 then too;
// products read a copy of those, rounded to the nearest after every step.
//
// `mesh` may be left out: {data: D, expert: X} runs D x X copies of the pipeline (mesh.h), each on
// microbatches of its own, and shares out the experts over X of them; `pipeline`, if given, must be
// the number of the schedule's ranks. `sharding`, a word beside the sections, says what the data
// copies share out among them (sharding.h): none [the default], optimizer, gradients or parameters;
// `shard` of the mesh says over how many of them, a divisor of D [D], or `replicate` says how many
// times, D / shard. `bucket`, as 25MiB [the default], is how many bytes of gradients are summed at
// a time.
//
// `checkpoint` may be left out: {every: 200, folder: DIR, keep: 3} saves the state of the training
// every so many steps and after SIGINT or SIGTERM in DIR/step-000200, …, and keeps the newest ones
// (checkpoint/README.md). `elastic`, a word beside the sections: true lets `run --restarts` go on
// with fewer `mesh.data`, and with so many times more of the schedule's M.
//
// `train` also takes recompute [none | attn | experts | all]: what a backward computes again
// instead of keeping it, and recompute_weights [false]: whether a deferred weight gradient computes
// it once more instead of keeping it from the input gradient (stages/recompute.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/gpu_wish.h"
#include "executor/link.h"
#include "executor/mesh.h"
#include "executor/optimizer.h"
#include "executor/sharding.h"
#include "schedlang/messages/communicators.h"
#include "schedlang/plan.h"
#include "stages/models/model.h"

namespace YAML {
class Node;
}  // namespace YAML

namespace stringline {

enum class DeviceKind { kAuto, kCpu, kCuda };

// RunConfig::resume: from checkpoint.folder, if a checkpoint is there.
inline constexpr char kResumeAuto[] = "auto";

struct CheckpointWish {
  int64_t every = 0;   // checkpoint.every, steps; 0: the run takes none
  std::string folder;  // checkpoint.folder
  int keep = 3;        // checkpoint.keep, default 3
};

struct RunConfig {
  std::string path;                   // of the run file; "" for none
  std::string schedule_file;          // schedule.file; relative paths count from the run file
  std::string schedule_name;          // schedule.name; "" (the default): the file's last one
  std::vector<Parameter> parameters;  // every other key of `schedule`
  AnyShape shape;                     // model.*, data.microbatch, and precision (its dtype)
  std::string model_folder;           // model.folder; "": parameters are drawn from the seed
  std::string model_export;           // model.export; "": the same
  std::vector<int> layers_per_stage;  // model.split; empty (the default): even
  bool split_balanced = false;        // model.split of an export is `balanced`
  std::string text_file;              // data.text, or ""
  std::string tokens_file;            // data.tokens, or ""
  std::string tokens_dtype;           // data.dtype; "" (the default): what the file says
  int64_t steps = 0;                  // train.steps
  int64_t warmup_steps = 0;           // train.warmup_steps, default 0: the rate rises linearly
  double final_rate = 0;              // train.final_learning_rate, default 0: a cosine leads there
  AdamW optimizer;                    // train.learning_rate, beta1, beta2, weight_decay
  double clip_norm = 1;               // train.clip_norm, default 1; 0: no clipping
  uint64_t seed = 1;                  // train.seed, default 1
  int threads = 0;                    // train.threads, default 0: one a rank, at most one a core
  int64_t log_every = 20;             // train.log_every, default 20: steps between reports
  RecomputePolicy recompute;          // train.recompute (a word, or one a stage), recompute_weights
  Mesh mesh;                          // mesh.data, .expert, and .shard or .replicate
  Sharding sharding = Sharding::kNone;  // sharding, default none
  int64_t bucket_bytes = kBucketBytes;  // bucket, default 25MiB
  int mesh_pipeline = 0;  // mesh.pipeline; 0 (the default): as many as the schedule has
  CommLayout layout = CommLayout::kEdge;  // nccl.layout, default edge
  LinkSpeed link;                         // not of the file: how slow messages are made
  bool strict = false;                    // neither: messages wait for all that is listed before

  CheckpointWish checkpoint;  // checkpoint.*
  std::string resume;         // not of the file: a checkpoint, a folder of them, or kResumeAuto;
                              // "": the run begins with its first step
  bool elastic = false;       // elastic, default false

  DeviceKind device = DeviceKind::kAuto;  // device, default auto
  struct {
    int min_ctas = 0;           // nccl.min_ctas, default 0: as NCCL likes
    int max_ctas = 0;           // nccl.max_ctas, the same
    bool counted_rows = false;  // nccl.rows, default padded
    bool own_sums = false;      // nccl.sums, default ordered
    bool capture = false;       // nccl.capture
  } nccl;
  GpuWish gpus;                          // gpus, default 1
  int sms_per_rank = 0;                  // sms_per_rank, default 0: ranks of a GPU share all
  bool capture = true;                   // capture, default auto
  int64_t timeout_ns = 600'000'000'000;  // timeout, default 600s; 0: for ever
};

inline StateSharing SharingOf(const RunConfig& config) {
  return {config.sharding, config.mesh, config.bucket_bytes};
}

// What its plan is lowered with.
inline CollectiveChoice CollectivesOf(const RunConfig& config) {
  return CollectivesFor(SharingOf(config).sharding, config.mesh.coordinates());
}

// Errors: InvalidArgument "FILE:LINE: KEY: …"; NotFound.
absl::StatusOr<RunConfig> ReadRunConfig(const std::string& path);
// The same of a document that has been read from the file, or put together of parts of it.
absl::StatusOr<RunConfig> ReadRunConfig(const YAML::Node& root, const std::string& path);

// The learning rate of step `step`, from 0. During the warm-up it rises in a line, and its last
// step has the whole rate; the steps left then follow half a cosine, whose end at the final rate
// would be the step after the last.
double LearningRate(const RunConfig& config, int64_t step);

}  // namespace stringline
