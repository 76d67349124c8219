// A run file: the model, the schedule, the data, the training.
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
// `model` takes the keys of its `kind` (schedlang/costs/model_keys.def: cost files take the same);
// `split`, layers per stage, goes with any. In brackets: a default.
//
//   folder               a Hugging Face folder: its config gives the sizes, its parameters the
//   first
//                        values (checkpoint/model_folder.h); context [as many as the model takes];
//                        dropout, which may be 0: a config with dropout is trained without. For a
//                        mixture of experts also aux_coefficient [from the config's
//                        router_aux_loss_coef], capacity and exceeded, as below
//   export               a file of torch.export.save (torch_model/export_file.h): its program is
//                        the model, its parameters are the first values; context [the program's,
//                        which is the longest]. `split` may also be `balanced`, by the work of
//                        layers, or a list of modules, each of which begins a stage
//   kind: gpt [no kind]  layers width heads context vocabulary [256] tied [false]
//                        skips [false]: U-shaped, from each layer of the first half to one of the
//                        second (stages/models/gpt.h)
//   kind: llama          layers width heads kv_heads [heads] head_dim [width / heads] hidden
//                        context vocabulary [256] theta [10000] epsilon [1e-5] stddev [0.02], of
//                        the first values, qkv_bias qk_norm tied [false] (stages/models/decoder.h)
//   kind: encoder_decoder  layers, of both, encoder_layers, width heads context vocabulary [256],
//                        and source: of a sequence's `context` tokens those that the encoder reads
//                        (stages/models/encoder_decoder.h)
//   kind: moe            the keys of llama, `hidden` only if there are dense layers, and: experts
//                        top_k expert_hidden shared_hidden [0] first_dense [0]
//                        scores [softmax | sigmoid] normalise [true] scale [1] groups top_groups
//                        group_best [1] balance_rate aux_coefficient [0]
//                        (stages/models/moe_shape.h); capacity [dropless], a factor: an expert
//                        takes at most so many times its even share of a microbatch's slots, and
//                        exceeded [error | drop], the fate of further slots
//
// `data` takes `text`, whose bytes are the tokens, or `tokens`, a file of token numbers (data.h),
// and, if the file does not name its type, `dtype`: uint16 or uint32; or `samples`, a safetensors
// file of inputs with their targets (sample_file.h), as exported models of images need them. With
// `packed` a sequence holds documents one behind the other (documents.h): `packed: FILE`, one
// length a line, or `packed: {end: TOKEN}`, for documents that end with this token, or byte of a
// text. Then the loss is the mean over all tokens but the last ones of documents.
//
// Words beside the sections:
//   device        the ranks run on cpu, threads of this machine; cuda, streams of its first GPU, or
//                 of a GPU per process; auto [the default], cuda if a GPU can be used, else cpu
//   gpus          the GPUs of the ranks of a single process: a number, of the machine's first GPUs
//                 [1], a list of their numbers, as [0, 2], or all; rank r of R is on the GPU at
//                 place r N / R of N
//   sms_per_rank  the number of multiprocessors reserved for each rank's computations [all share
//                 all]
//   capture       steps on GPUs are captured as a graph and replayed: auto [the default], if CUDA
//                 can, or off
//   deterministic on [the default], or off, for GPUs alone: cuDNN may add up the gradients of
//                 attention in any order, which is faster, and gives other last bits every time
//   timeout       600s [the default]: the longest time of a GPU for a step, and of a rank's wait
//                 for another process, before the run ends with an error; 0s: no limit. A time
//                 has a unit
//   transport     what carries messages between processes on CPUs, and what their hosts tell each
//                 other: tcp, mpi, or auto [the default], mpi in processes that mpirun, or srun
//                 with PMIx, has started if Open MPI can be loaded and the run has no `heal`, else
//                 tcp. GPUs take NCCL and tcp
//   nccl          messages between processes: min_ctas and max_ctas of a call [0: 2 for messages
//                 and 8 for sums], free_sms, the SMs that products leave to calls [16], rows
//                 [padded | counted], sums [ordered | nccl], capture [false], of steps with
//                 messages too (nccl/nccl_comms.h), and layout [edge | pair | updown | shared], the
//                 sharing of communicators (communicators.h)
//   precision     fp32 [the default], or bf16: activations and the weights, tables and biases of
//                 products are bf16. Sums inside of products, norms, routers, losses, the gradients
//                 of parameters, AdamW's moments and its parameters are fp32 then too; products
//                 read a copy of the parameters, rounded to the nearest after every step
//   sharding      the state shared out among data copies (sharding.h): none [the default],
//                 optimizer, gradients or parameters
//   bucket        25MiB [the default]: the bytes of gradients summed at a time
//   elastic       true: `run --restarts` may continue with fewer `mesh.data`, and correspondingly
//                 more of the schedule's M
//
// `mesh` may be left out: {data: D, expert: X} runs D x X copies of the pipeline (mesh.h), each on
// microbatches of its own, and shares out the experts over X of them; `pipeline`, if given, must be
// the number of the schedule's ranks. `sharding` is over `shard` copies, a divisor of D [D], or is
// repeated `replicate` times, D / shard.
//
// `checkpoint` may be left out: {every: 200, folder: DIR, keep: 3} saves the state of the training
// every so many steps and after SIGINT, SIGTERM, SIGHUP or SIGUSR1 in DIR/step-000200, …, and keeps
// the newest (checkpoint/README.md).
//
// `heal` may be left out: {every: 1} keeps the state in memory after every so many steps, and where
// a process is lost the copies of `mesh.data` without it go on (processes/healing.h). With
// {every: 1, return: true} lost processes may come back (processes/return_door.h).
//
// `metrics` may be left out: {every: 10, file: metrics.jsonl, prometheus: 9400, tensorboard: DIR}
// notes loss, speed, and each rank's times and waits after every so many steps and after the last
// (tools/README.md, Watching a run).
//
// `evaluate` may be left out: {every: 100, text: valid.txt} prints the loss on other data after
// every so many steps and after the last (training/evaluation.h). It takes the keys text, tokens,
// dtype, samples and packed as `data` does, and sequences [those of a run of the forwards], read
// from places that lie evenly over the data; and schedule, a file of a schedule that is forward
// only, with the same stages on the same ranks and the parameters of `schedule` that it declares
// [the forwards of the schedule].
//
// `train` also takes recompute [schedule | none | attn | experts | all]: the values that a backward
// computes again instead of keeping, `schedule` (the default) being all in the stages for which the
// schedule says so; and recompute_weights [false]: a deferred weight gradient computes them
// once more instead of keeping them from the input gradient (stages/recompute.h). From its seed
// [1] come first values, the places of the data, and the masks of dropout (MaskKey). Copies of
// parameters are compared at the start, before every checkpoint and after the last step, and with
// check_copies also after every so many steps (copy_check.h); it needs a model with such copies.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/checkpoint/checkpoint_folder.h"
#include "executor/engine/gpu_wish.h"
#include "executor/engine/link.h"
#include "executor/engine/mesh.h"
#include "executor/engine/optimizer.h"
#include "executor/training/documents.h"
#include "executor/training/sharding.h"
#include "schedlang/plan/communicators.h"
#include "schedlang/plan/plan.h"
#include "stages/models/model.h"

namespace YAML {
class Node;
}  // namespace YAML

namespace stringline {

enum class DeviceKind { kAuto, kCpu, kCuda };
enum class TransportKind { kAuto, kTcp, kMpi };

// Files of data: a text, tokens and their type ("": the file's), or samples; "" for the others.
struct DataFiles {
  std::string text, tokens, dtype, samples;
  PackedWish packed;
};

// True if one of the steps behind `before`, up to `behind`, is a multiple of `every`; 0: none is.
inline bool IsDue(int64_t every, int64_t before, int64_t behind) {
  return every > 0 && behind / every > before / every;
}

// The figures of a run's steps for those who watch it (tools/metrics/run_metrics.h).
struct MetricsWish {
  int64_t every = 0;        // metrics.every: steps; 0: none are noted
  std::string file;         // metrics.file; "" (the default): metrics.jsonl beside the results
  std::string prometheus;   // metrics.prometheus: a port, or an address; "": none
  std::string tensorboard;  // metrics.tensorboard: a folder; "": none
};

// RunConfig::resume: from checkpoint.folder, if a checkpoint is there.
inline constexpr char kResumeAuto[] = "auto";

struct RunConfig {
  std::string path;                   // the run file's; "" for none
  std::string schedule_file;          // schedule.file; relative paths count from the run file
  std::string schedule_name;          // schedule.name; "" (the default): the last schedule
  std::vector<Parameter> parameters;  // every other key of `schedule`
  AnyShape shape;                     // model.*, data.microbatch, and precision (its dtype)
  std::string model_folder;           // model.folder; "": parameters are drawn from the seed
  std::string model_export;           // model.export; "": the same
  std::vector<int> layers_per_stage;  // model.split; empty (the default): even
  bool split_balanced = false;        // model.split of an export is `balanced`
  DataFiles data;                     // data.text, .tokens, .dtype, .samples, .packed
  int64_t steps = 0;                  // train.steps
  int64_t warmup_steps = 0;           // train.warmup_steps, default 0: the rate rises linearly
  double final_rate = 0;              // train.final_learning_rate, default 0: the end of a cosine
  AdamW optimizer;                    // train.learning_rate, beta1, beta2, weight_decay
  double clip_norm = 1;               // train.clip_norm, default 1; 0: no clipping
  uint64_t seed = 1;                  // train.seed, default 1
  int threads = 0;                    // train.threads, default 0: min(ranks, cores)
  int64_t log_every = 20;             // train.log_every, default 20: steps between reports
  int64_t check_copies = 0;           // train.check_copies, default 0: not between checkpoints
  RecomputePolicy recompute = {
      .what = Recompute::kScheduled};   // train.recompute (a word or a list), recompute_weights
  Mesh mesh;                            // mesh.data, .expert, and .shard or .replicate
  Sharding sharding = Sharding::kNone;  // sharding, default none
  int64_t bucket_bytes = kBucketBytes;  // bucket, default 25MiB
  int mesh_pipeline = 0;  // mesh.pipeline; 0 (the default): as many as the schedule has
  CommLayout layout = CommLayout::kEdge;  // nccl.layout, default edge
  LinkSpeed link;                         // not of the file: how slow messages are made
  bool strict = false;                    // neither: messages wait for all actions listed before

  struct {
    int64_t every = 0;          // evaluate.every; 0: not while it trains
    DataFiles data;             // evaluate.text, .tokens, .dtype, .samples, .packed
    int64_t sequences = 0;      // evaluate.sequences; 0 (the default): of one run
    std::string schedule_file;  // evaluate.schedule; "" (the default): the training's forwards
    bool alone = false;         // not of the file: nothing else is done
    bool wanted() const { return every > 0 || alone; }
  } evaluate;
  CheckpointWish checkpoint;  // checkpoint.*
  MetricsWish metrics;        // metrics.*
  std::string resume;         // not of the file: a checkpoint, a folder of them, or kResumeAuto;
                              // "": the run begins with its first step
  bool elastic = false;       // elastic, default false
  bool heal_return = false;   // heal.return
  int64_t heal_every = 0;     // heal.every; 0 (no section): the loss of a process ends the run

  DeviceKind device = DeviceKind::kAuto;           // device, default auto
  TransportKind transport = TransportKind::kAuto;  // transport, default auto
  struct {
    int min_ctas = 0;           // nccl.min_ctas, default 0: as the call needs
    int max_ctas = 0;           // nccl.max_ctas, the same
    int free_sms = 16;          // nccl.free_sms
    bool counted_rows = false;  // nccl.rows, default padded
    bool own_sums = false;      // nccl.sums, default ordered
    bool capture = false;       // nccl.capture
  } nccl;
  GpuWish gpus;                          // gpus, default 1
  int sms_per_rank = 0;                  // sms_per_rank, default 0: ranks of a GPU share all
  bool capture = true;                   // capture, default auto
  bool deterministic = true;             // deterministic, default on
  int64_t timeout_ns = 600'000'000'000;  // timeout, default 600s; 0: for ever
};

// True if the run's programs read the positions of tokens in documents.
inline bool IsPacked(const RunConfig& config) {
  return config.data.packed.wanted() || config.evaluate.data.packed.wanted();
}

inline StateSharing SharingOf(const RunConfig& config) {
  return {config.sharding, config.mesh, config.bucket_bytes};
}

// InvalidArgument for a model whose sequences have no target for each token, or no tokens: a text,
// which can be cut anywhere, cannot train it.
absl::Status CheckTakesTexts(const AnyShape& shape);

// The collectives with which the run's plan is lowered.
inline CollectiveChoice CollectivesOf(const RunConfig& config) {
  return CollectivesFor(SharingOf(config).sharding, config.mesh.coordinates());
}

// Errors: InvalidArgument "FILE:LINE: KEY: …"; NotFound.
absl::StatusOr<RunConfig> ReadRunConfig(const std::string& path);
// The same for a document read from the file, or assembled from its parts.
absl::StatusOr<RunConfig> ReadRunConfig(const YAML::Node& root, const std::string& path);

// The learning rate of step `step`, from 0. The warm-up rises linearly to the full rate at its last
// step; the remaining steps follow half a cosine, whose end at the final rate would be the step
// after the last.
double LearningRate(const RunConfig& config, int64_t step);

}  // namespace stringline
