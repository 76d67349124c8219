// Both texts are lists of lines, with remarks between them. A mapping that is not exact has a
// remark that says what differs.
#include "schedlang/tune/framework_flags.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/tune/known_schedules.h"

namespace stringline::tune {
namespace {

bool AreEqual(const std::vector<int>& counts) {
  return std::all_of(counts.begin(), counts.end(), [&](int count) { return count == counts[0]; });
}

// "Et|tt|tL"
std::string LayoutOf(const std::vector<int>& counts) {
  std::string layout = "E";
  for (size_t s = 0; s < counts.size(); ++s) {
    absl::StrAppend(&layout, s > 0 ? "|" : "", std::string(static_cast<size_t>(counts[s]), 't'));
  }
  return layout + "L";
}

const KnownSchedule& ScheduleOf(const FrameworkQuestion& question) {
  return KnownSchedules()[static_cast<size_t>(question.choice.schedule)];
}

std::string RemarkOnOrder(const FrameworkQuestion& question, absl::string_view framework) {
  return absl::StrCat("# ", framework, " has no schedule like ",
                      question.found ? "the one that was found" : ScheduleOf(question).name,
                      ": schedule.sched has its order.");
}

class Lines {
 public:
  void Add(absl::string_view line) { absl::StrAppend(&text_, line, "\n"); }
  void Flag(absl::string_view name) { Add(name); }
  template <typename Value>
  void Flag(absl::string_view name, const Value& value) {
    Add(absl::StrCat(name, " ", value));
  }
  template <typename Value>
  void Key(absl::string_view name, const Value& value) {
    Add(absl::StrCat(name, " = ", value));
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void AddModel(const ModelShape& model, Lines* lines) {
  lines->Flag("--num-layers", model.layers);
  lines->Flag("--hidden-size", model.width);
  lines->Flag("--num-attention-heads", model.heads);
  if (model.kv_heads > 0 && model.kv_heads != model.heads) {
    lines->Flag("--group-query-attention");
    lines->Flag("--num-query-groups", model.kv_heads);
  }
  if (model.head_dim > 0 && model.kv_rank == 0) lines->Flag("--kv-channels", model.head_dim);
  lines->Flag("--seq-length", model.context);
  lines->Flag("--max-position-embeddings", model.context);
  if (model.kind != kGptModel) {
    if (model.hidden > 0) lines->Flag("--ffn-hidden-size", model.hidden);
    lines->Flag("--swiglu");
    lines->Flag("--untie-embeddings-and-output-weights");
  }
  if (model.kv_rank > 0) {
    lines->Flag("--multi-latent-attention");
    if (model.q_rank > 0) lines->Flag("--q-lora-rank", model.q_rank);
    lines->Flag("--kv-lora-rank", model.kv_rank);
    lines->Flag("--qk-head-dim", model.head_dim);
    if (model.rope_dim > 0) lines->Flag("--qk-pos-emb-head-dim", model.rope_dim);
    if (model.value_dim > 0) lines->Flag("--v-head-dim", model.value_dim);
  }
  if (model.predicted > 0) lines->Flag("--mtp-num-layers", model.predicted);
  if (model.window > 0) {
    lines->Flag("--window-size", absl::StrCat("'(", model.window - 1, ",0)'"));
    lines->Flag("--window-attn-skip-freq", 2);
  }
  if (model.kind != kMoeModel) return;
  lines->Flag("--num-experts", model.experts);
  lines->Flag("--moe-router-topk", model.top_k);
  lines->Flag("--moe-ffn-hidden-size", model.expert_hidden);
  if (model.shared_hidden > 0) {
    lines->Flag("--moe-shared-expert-intermediate-size", model.shared_hidden);
  }
  if (model.first_dense > 0) {
    lines->Flag("--moe-layer-freq", absl::StrCat("([0]*", model.first_dense, "+[1]*",
                                                 model.layers - model.first_dense, ")"));
  }
  lines->Flag("--moe-token-dispatcher-type", "alltoall");
}

// The division of layers among stages.
void AddSplit(const FrameworkQuestion& question, Lines* lines) {
  const std::vector<int>& counts = question.layers;
  const Choice& choice = question.choice;
  if (choice.pipeline == 1) return;
  if (!AreEqual(counts)) {
    lines->Flag("--pipeline-model-parallel-layout", absl::StrCat("'", LayoutOf(counts), "'"));
  } else if (choice.turns > 1) {
    lines->Flag("--num-layers-per-virtual-pipeline-stage", counts[0]);
  }
}

void AddOrder(const FrameworkQuestion& question, Lines* lines) {
  const std::string name = ScheduleOf(question).name;
  const bool interleaved = name == "interleaved" || name == "llama3" || name == "megatron_combined";
  if (question.choice.pipeline > 1 && (question.found || (name != "1f1b" && !interleaved))) {
    lines->Add(RemarkOnOrder(question, "Megatron-LM"));
    lines->Add("# With these flags it runs 1F1B, interleaved where ranks have several stages.");
  }
  if (name == "llama3" && !question.found) {
    lines->Flag("--microbatch-group-size-per-virtual-pipeline-stage", question.choice.pipeline);
  }
  if (name == "megatron_combined" && !question.found) {
    lines->Flag("--overlap-moe-expert-parallel-comm");
  }
}

void AddRecompute(const FrameworkQuestion& question, Lines* lines) {
  if (question.choice.recompute == Recompute::kNone) return;
  const Recompute recompute = question.choice.recompute;
  const int64_t layers = LayersOf(question.choice, question.model.layers);
  if (recompute == Recompute::kOffload) {
    lines->Flag("--cpu-offloading-num-layers", layers);
    return;
  }
  lines->Flag("--recompute-granularity", recompute == Recompute::kSelective ? "selective" : "full");
  if (recompute != Recompute::kSelective) {
    const bool part = recompute == Recompute::kPart;
    lines->Flag("--recompute-method", part ? "block" : "uniform");
    lines->Flag("--recompute-num-layers", part ? layers : 1);
    return;
  }
  std::string modules = "layernorm";
  if (question.model.kind == kMoeModel) modules += " moe_act";
  if (question.model.kv_rank > 0) modules += " mla_up_proj";
  lines->Flag("--recompute-modules", modules);
  if (question.model.kind != kMoeModel || question.model.first_dense > 0) {
    lines->Add("# The gate of a dense network is done again here; Megatron-LM keeps it.");
  }
}

void AddPrecision(Precision precision, Lines* lines) {
  if (precision == Precision::kFp32) return;
  lines->Flag("--bf16");
  if (precision == Precision::kFp8) lines->Flag("--fp8-format", "hybrid");
  if (precision == Precision::kMxfp8) {
    lines->Flag("--fp8-format", "e4m3");
    lines->Flag("--fp8-recipe", "mxfp8");
  }
  if (precision == Precision::kNvfp4) {
    lines->Flag("--fp4-format", "e2m1");
    lines->Flag("--fp4-recipe", "nvfp4");
  }
}

void AddSharding(Sharding sharding, Lines* lines) {
  switch (sharding) {
    case Sharding::kNone:
      break;
    case Sharding::kOptimizer:
      lines->Flag("--use-distributed-optimizer");
      break;
    case Sharding::kGradients:
    case Sharding::kParameters:
      lines->Flag("--use-megatron-fsdp");
      lines->Flag("--data-parallel-sharding-strategy",
                  sharding == Sharding::kGradients ? "optim_grads" : "optim_grads_params");
      break;
  }
}

}  // namespace

std::string MegatronFlags(const FrameworkQuestion& question) {
  const Choice& choice = question.choice;
  Lines lines;
  lines.Add("# Flags of Megatron-LM's pretrain_gpt.py.");
  AddModel(question.model, &lines);
  lines.Flag("--tensor-model-parallel-size", choice.tensor);
  if (choice.tensor > 1) lines.Flag("--sequence-parallel");
  if (choice.context > 1) lines.Flag("--context-parallel-size", choice.context);
  lines.Flag("--pipeline-model-parallel-size", choice.pipeline);
  AddSplit(question, &lines);
  AddOrder(question, &lines);
  if (question.model.kind == kMoeModel) {
    lines.Flag("--expert-model-parallel-size", choice.expert);
    lines.Flag("--expert-tensor-parallel-size", 1);
  }
  lines.Flag("--micro-batch-size", choice.microbatch);
  lines.Flag("--global-batch-size", question.global_batch);
  AddSharding(choice.sharding, &lines);
  if (choice.copies() > 1) {
    lines.Flag("--overlap-grad-reduce");
    if (choice.sharding == Sharding::kOptimizer) lines.Flag("--overlap-param-gather");
  }
  AddRecompute(question, &lines);
  AddPrecision(question.model.precision, &lines);
  return lines.text();
}

namespace {

void AddCheckpoints(const FrameworkQuestion& question, Lines* lines) {
  const Choice& choice = question.choice;
  lines->Add("\n[activation_checkpoint]");
  const bool some = choice.recompute == Recompute::kPart;
  const bool is_host = choice.recompute == Recompute::kOffload;
  lines->Key("mode", absl::StrCat("\"",
                                  some      ? "full"
                                  : is_host ? "none"
                                            : NameOf(choice.recompute),
                                  "\""));
  if (some || is_host) {
    lines->Add(absl::StrCat("# The choice ",
                            some ? "recomputes " : "copies to the host what is kept by ",
                            LayersOf(choice, question.model.layers),
                            " layers of each stage; TorchTitan does it for all layers or none."));
  }
  if (choice.recompute == Recompute::kSelective) {
    lines->Add("# Its default does every second matrix product again; here only what is cheap is.");
  }
}

}  // namespace

std::string TorchTitanKeys(const FrameworkQuestion& question) {
  const Choice& choice = question.choice;
  const std::string name = ScheduleOf(question).name;
  constexpr struct {
    const char* ours;
    const char* theirs;
  } kNames[] = {{"1f1b", "1F1B"},
                {"gpipe", "GPipe"},
                {"interleaved", "Interleaved1F1B"},
                {"interleaved_zb", "InterleavedZeroBubble"},
                {"looped_bfs", "LoopedBFS"},
                {"zb_v", "ZBVZeroBubble"},
                {"dualpipe_v", "DualPipeV"}};
  Lines lines;
  lines.Add("# Keys of a TorchTitan job file.\n[training]");
  lines.Key("local_batch_size", choice.microbatch * choice.microbatches);
  lines.Key("global_batch_size", question.global_batch);
  lines.Key("seq_len", question.model.context);
  lines.Key("mixed_precision_param", question.model.bytes == 2 ? "\"bfloat16\"" : "\"float32\"");
  lines.Add("\n[parallelism]");
  if (choice.sharding == Sharding::kOptimizer) {
    lines.Add("# TorchTitan does not share out the optimizer's state alone: this is FSDP.");
  }
  const bool fsdp = choice.sharding != Sharding::kNone;
  lines.Key("data_parallel_replicate_degree", fsdp ? 1 : choice.data);
  lines.Key("data_parallel_shard_degree", fsdp ? choice.data : 1);
  if (fsdp) {
    lines.Key("fsdp_reshard_after_forward",
              choice.sharding == Sharding::kParameters ? "\"always\"" : "\"never\"");
  }
  lines.Key("tensor_parallel_degree", choice.tensor);
  if (choice.context > 1) lines.Key("context_parallel_degree", choice.context);
  if (choice.expert > 1) lines.Key("expert_parallel_degree", choice.expert);
  lines.Key("pipeline_parallel_degree", choice.pipeline);
  if (choice.pipeline > 1) {
    const auto* const row = std::find_if(std::begin(kNames), std::end(kNames),
                                         [&](const auto& names) { return name == names.ours; });
    if (question.found || row == std::end(kNames)) {
      lines.Add(RemarkOnOrder(question, "TorchTitan"));
      lines.Add(
          "# `stringline export --to torch-compute` writes it for pipeline_parallel_schedule_csv.");
    } else {
      lines.Key("pipeline_parallel_schedule", absl::StrCat("\"", row->theirs, "\""));
    }
    lines.Key("pipeline_parallel_microbatch_size", choice.microbatch);
    const std::vector<int>& counts = question.layers;
    if (AreEqual(counts)) {
      lines.Key("pipeline_parallel_layers_per_stage", counts[0]);
    } else {
      lines.Add(absl::StrCat("# The layers of its stages: ", absl::StrJoin(counts, ", "), "."));
    }
  }
  AddCheckpoints(question, &lines);
  if (IsNarrow(question.model.precision)) {
    lines.Add(absl::StrCat("\n# Products in ",
                           kPrecisions[static_cast<int>(question.model.precision)],
                           ": add the converter of TorchTitan for it, as [model] converters = "
                           "[\"float8\"] or [\"mx\"]."));
  }
  return lines.text();
}

}  // namespace stringline::tune
