// Megatron's arguments: plans of small ones, and everything that is refused, with its words.
// tests/torch/megatron_order_test.py holds many more orders against Megatron's own functions.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "schedlang/megatron/arguments.h"

namespace stringline {
namespace {

absl::StatusOr<MegatronArguments> Read(const std::string& yaml,
                                       const std::vector<GivenArgument>& given = {}) {
  return ReadMegatronArguments(Source("a.yaml", yaml), given);
}

std::string PlanOf(const std::string& yaml) {
  const auto arguments = Read(yaml);
  if (!arguments.ok()) return std::string(arguments.status().message());
  const PlanFile file = PlanOfMegatron(*arguments);
  const std::string text = Print(file.plan, file.issued, file.waits);
  Diagnostics findings;
  const Source source("a.plan", text);
  const auto again = ReadPlanFile(source, &findings);
  EXPECT_EQ(again ? Print(again->plan, again->issued, again->waits) : Render(findings, source),
            text);
  return text;
}

// A line goes on where the next one is indented.
std::string Unwrapped(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"\n    ", " "}});
}

TEST(MegatronArguments, OneForwardOneBackwardInBatches) {
  EXPECT_EQ(PlanOf("pipeline_model_parallel_size: 2\nnum_microbatches: 2\nnum_layers: 4\n"),
            Unwrapped(R"(plan megatron_1f1b P=2 M=2 lowered
stages 0 1
split layout Ett ttL
messages shared
rank 0: 0F0 0SEND_F0 0WAIT_SEND_F0 0F1 0SEND_F1&0RECV_B0 0WAIT_SEND_F1 0WAIT_RECV_B0 0B0
    0RECV_B1 0WAIT_RECV_B1 0B1
rank 1: 1RECV_F0 1WAIT_RECV_F0 1F0 1B0 1SEND_B0&1RECV_F1 1WAIT_SEND_B0 1WAIT_RECV_F1 1F1 1B1
    1SEND_B1 1WAIT_SEND_B1
)"));
}

TEST(MegatronArguments, InterleavedOverlapsOnTwoCommunicators) {
  EXPECT_EQ(PlanOf("MODEL_ARGS:\n  --pipeline-model-parallel-size: 2\n  --num-microbatches: 2\n"
                   "  --num-virtual-stages-per-pipeline-rank: 2\n"),
            Unwrapped(R"(plan megatron_interleaved P=2 M=2 V=2 G=2 lowered
stages 0 1 0 1
messages edge lazy
rank 0: 0F0 0SEND_F0 0WAIT_SEND_F0 0F1 0SEND_F1 2RECV_F0 0WAIT_SEND_F1 2WAIT_RECV_F0 2F0
    2SEND_F0 2RECV_F1 2WAIT_SEND_F0 2WAIT_RECV_F1 2F1 2SEND_F1 2WAIT_SEND_F1 2RECV_B0
    2WAIT_RECV_B0 2B0 2SEND_B0 2RECV_B1 2WAIT_SEND_B0 2WAIT_RECV_B1 2B1 2SEND_B1 0RECV_B0
    2WAIT_SEND_B1 0WAIT_RECV_B0 0B0 0RECV_B1 0WAIT_RECV_B1 0B1
rank 1: 1RECV_F0 1WAIT_RECV_F0 1F0 1RECV_F1 1SEND_F0 1WAIT_RECV_F1 1WAIT_SEND_F0 1F1 3RECV_F0
    1SEND_F1 3WAIT_RECV_F0 1WAIT_SEND_F1 3F0 3RECV_F1 3B0 3SEND_B0 3WAIT_RECV_F1 3F1 3B1
    1RECV_B0 3SEND_B1 3WAIT_SEND_B0 1WAIT_RECV_B0 1B0 1RECV_B1 1SEND_B0 1WAIT_RECV_B1
    1WAIT_SEND_B0 1B1 1SEND_B1 1WAIT_SEND_B1 3WAIT_SEND_B1
)"));
}

TEST(MegatronArguments, CombinedOnOneRank) {
  EXPECT_EQ(PlanOf("overlap_moe_expert_parallel_comm: true\nnum_microbatches: 3\n"
                   "delay_wgrad_compute: true\nep_overlap_early_attn_memory_release: true\n"),
            Unwrapped(R"(plan megatron_combined P=1 M=3 lowered
stages 0
overlap F&B compute F.attn B.experts W.experts B.attn F.experts W.attn network B.combine
    F.dispatch B.dispatch F.combine
messages shared
rank 0: 0F0 0F1&0B0 0F2&0B1 0B2
)"));
}

// The sizes that follow: P, V, M, G, then the layers.
std::string SizesOf(const std::string& yaml, const std::vector<GivenArgument>& given = {}) {
  const auto arguments = Read(yaml, given);
  if (!arguments.ok()) return std::string(arguments.status().message());
  const MegatronOrder& order = arguments->order;
  return absl::StrCat(order.ranks, " ", order.chunks, " ", order.microbatches, " ", order.group,
                      " ", absl::StrJoin(arguments->layers, "/"),
                      arguments->recompute.empty()
                          ? ""
                          : absl::StrCat(" r", absl::StrJoin(arguments->recompute, "")));
}

struct ArgumentCase {
  const char* yaml;
  const char* says;
};

const ArgumentCase kSizes[] = {
    {"global-batch-size: 32\nmicro-batch-size: 2\nworld-size: 16\ntensor-model-parallel-size: 2\n"
     "context-parallel-size: 2\npipeline-model-parallel-size: 2\nexpert-model-parallel-size: 2\n",
     "2 0 8 2 "},
    {"global_batch_size: 8\nmicro_batch_size: 1\ndata_parallel_size: 2\n", "1 0 4 1 "},
    {"model_parallel: {pipeline_model_parallel_size: 4}\nlanguage_model: {num_layers: 24}\n"
     "num_layers_per_virtual_pipeline_stage: 2\nnum_microbatches: 8\n",
     "4 3 8 4 Ett/tt/tt/tt/tt/tt/tt/tt/tt/tt/tt/ttL"},
    {"pipeline_model_parallel_size: 2\nnum_microbatches: 9\nmicrobatch_group_size_per_vp_stage: 3\n"
     "virtual_pipeline_model_parallel_size: 2\n",
     "2 2 9 3 "},
    {"pipeline_model_parallel_size: 2\nvirtual_pipeline_model_parallel_size: 1\n", "2 0 1 2 "},
    {"pipeline_model_parallel_size: 2\nnum_layers: 7\ndecoder_last_pipeline_num_layers: 3\n"
     "mtp_num_layers: 1\n",
     "2 0 1 2 Etttt/tttmL"},
    {"pipeline_model_parallel_size: 2\nnum_layers: 6\nnum_virtual_stages_per_pipeline_rank: 2\n"
     "account_for_embedding_in_pipeline_split: true\naccount_for_loss_in_pipeline_split: true\n"
     "num_microbatches: 2\n",
     "2 2 2 2 Et/tt/tt/tL"},
    {"pipeline_model_parallel_size: 2\nnum_microbatches: 2\n"
     "pipeline_model_parallel_layout: Et|(t|)*2,tmL\n",
     "2 2 2 2 Et/t/t/tmL"},
    {"num_layers: 2\nrecompute_granularity: full\nrecompute_method: uniform\n", "1 0 1 1 EttL r1"},
    {"num_layers: 2\nrecompute_granularity: selective\nrecompute_modules: [moe]\n", "1 0 1 1 EttL"},
    {"pipeline_model_parallel_layout: null\nvariable_seq_lengths: false\nrampup_batch_size: null\n",
     "1 0 1 1 "},
};

TEST(MegatronArguments, SizesFollow) {
  for (const ArgumentCase& test : kSizes) EXPECT_EQ(SizesOf(test.yaml), test.says) << test.yaml;
  EXPECT_EQ(
      SizesOf("world_size: 4\nglobal_batch_size: 8\nmicro_batch_size: 1\n", {{"world-size", "2"}}),
      "1 0 4 1 ");
  const auto counted = Read("lr: 0.1\nseed: 3\nENV_VARS: {NCCL_ALGO: Ring}\nnum_layers: 2\n");
  ASSERT_TRUE(counted.ok());
  EXPECT_EQ(counted->unconcerned, 3);
}

const ArgumentCase kRefusals[] = {
    // Not read at all
    {"- a\n", "a.yaml: expected Megatron's arguments, as a map of keys"},
    {"num_layers: many\n", "a.yaml:1: 'num_layers' is 'many', which is no number in 1 .. 1048576"},
    {"overlap_p2p_comm: maybe\n",
     "a.yaml:1: 'overlap_p2p_comm' is 'maybe', which is neither true nor false"},
    {"num_layers: 2\nMODEL_ARGS:\n  --num-layers: 4\n",
     "a.yaml:3: '--num-layers' is given a second time; before it stands a.yaml:1: 'num_layers'"},
    // Known, and not honoured
    {"lr: 1\nvariable_seq_lengths: true\n",
     "a.yaml:2: 'variable_seq_lengths' is not imported: ranks then exchange shapes before every "
     "message, and wait for them"},
    {"--defer-embedding-wgrad-compute: true\n",
     "a.yaml:1: '--defer-embedding-wgrad-compute' is not imported: it moves a part of the last "
     "stage's backwards to the end of the step"},
    {"rampup-batch-size: [1, 1, 5]\n",
     "a.yaml:1: 'rampup-batch-size' is not imported: the number of microbatches then changes from "
     "step to step"},
    {"pipeline_model_parallel_comm_backend: ucc\n",
     "a.yaml:1: 'pipeline_model_parallel_comm_backend' is not imported: the messages of UCC have "
     "no "
     "queues that are known"},
    // Unknown, with a word of pipelines
    {"pipeline_model_paralel_size: 4\n",
     "a.yaml:1: 'pipeline_model_paralel_size' is not known, and its name is one that may shape the "
     "order; did you mean 'pipeline_model_parallel_size'?"},
    // Refused by Megatron, too
    {"pipeline_model_parallel_size: 3\npipeline_model_parallel_layout: Et|tL\n",
     "a.yaml:2: 'pipeline_model_parallel_layout' has 2 stages, which 3 ranks cannot share equally"},
    {"pipeline_model_parallel_layout: Etx|L\n",
     "a.yaml:1: 'pipeline_model_parallel_layout' is 'Etx|L', character 3: 'x' is no part of a "
     "layout: E, t, m, L, '|', '( )' and '* number' are"},
    {"num_layers: 3\npipeline_model_parallel_layout: EttL\n",
     "a.yaml:1: 'num_layers' is 3, and the layout has 2 't'"},
    {"pipeline_model_parallel_size: 4\npipeline_model_parallel_layout: Et|t|m|L\n",
     "a.yaml:2: 'pipeline_model_parallel_layout' has an 'm' in stage 2, and is imported only with "
     "all in the last stage: otherwise ranks exchange shapes before every message, and wait for "
     "them"},
    {"pipeline_model_parallel_layout: EmtL\n",
     "a.yaml:1: 'pipeline_model_parallel_layout' has a layer behind an 'm'"},
    {"pipeline_model_parallel_layout: EtL\naccount_for_loss_in_pipeline_split: true\n",
     "a.yaml:2: 'account_for_loss_in_pipeline_split' cannot stand beside a layout"},
    {"num_layers_per_virtual_pipeline_stage: 1\nnum_virtual_stages_per_pipeline_rank: 2\n",
     "a.yaml:2: 'num_virtual_stages_per_pipeline_rank' cannot stand beside a.yaml:1: "
     "'num_layers_per_virtual_pipeline_stage'"},
    {"num_virtual_stages_per_pipeline_rank: 2\n",
     "a.yaml:1: 'num_virtual_stages_per_pipeline_rank' interleaves, and that takes a pipeline of "
     "at "
     "least two ranks"},
    {"pipeline_model_parallel_size: 2\nnum_virtual_stages_per_pipeline_rank: 2\n"
     "num_microbatches: 5\nmicrobatch_group_size_per_vp_stage: 4\n",
     "a.yaml:4: 'microbatch_group_size_per_vp_stage' is 4, and the last group of 5 microbatches "
     "has "
     "1; Megatron wants at least 2"},
    {"pipeline_model_parallel_size: 4\nnum_virtual_stages_per_pipeline_rank: 2\n"
     "num_microbatches: 3\n",
     "a.yaml: 'microbatch_group_size_per_vp_stage' is 4, and Megatron wants 4 (ranks) to 3 "
     "(microbatches)"},
    {"pipeline_model_parallel_size: 2\nnum_virtual_stages_per_pipeline_rank: 2\n"
     "num_microbatches: 2\nbatch_p2p_comm: true\n",
     "a.yaml:4: 'batch_p2p_comm' cannot be true where messages overlap computations "
     "(overlap_p2p_comm)"},
    {"pipeline_model_parallel_size: 2\noverlap_p2p_comm_warmup_flush: true\n",
     "a.yaml:2: 'overlap_p2p_comm_warmup_flush' needs chunks and overlap_p2p_comm"},
    {"pipeline_model_parallel_size: 2\noverlap_moe_expert_parallel_comm: true\n",
     "a.yaml:2: 'overlap_moe_expert_parallel_comm' needs chunks on a pipeline of several ranks"},
    {"delay_wgrad_compute: true\n",
     "a.yaml:1: 'delay_wgrad_compute' needs overlap_moe_expert_parallel_comm"},
    {"global_batch_size: 8\nmicro_batch_size: 1\n",
     "a.yaml: 'world_size' is needed to tell how many microbatches there are; write it into the "
     "file or behind its name, as world_size=16 (or data_parallel_size, or num_microbatches)"},
    {"global_batch_size: 8\nmicro_batch_size: 3\ndata_parallel_size: 1\n",
     "a.yaml:1: 'global_batch_size' is 8, no multiple of micro_batch_size 3 times 1 copy of the "
     "pipeline"},
    {"global_batch_size: 8\nmicro_batch_size: 1\nworld_size: 3\npipeline_model_parallel_size: 2\n",
     "a.yaml:3: 'world_size' is 3, no multiple of 1 (tensor) times 2 (pipeline) times 1 (context)"},
    {"pipeline_model_parallel_size: 2\nnum_layers: 7\n",
     "a.yaml:2: 'num_layers' leaves 7 layers for 2 ranks"},
    {"num_layers: 4\nrecompute_granularity: full\nrecompute_method: block\n"
     "recompute_num_layers: 2\n",
     "a.yaml:4: 'recompute_num_layers' is 2, and stage 0 has 4 layers: a plan's stage recomputes "
     "as "
     "a whole or not"},
};

TEST(MegatronArguments, Refusals) {
  for (const ArgumentCase& test : kRefusals) EXPECT_EQ(SizesOf(test.yaml), test.says) << test.yaml;
}

// Plans with a line `messages`: what cannot be read.
TEST(PlanFile, BadMessages) {
  const std::pair<const char*, const char*> rows[] = {
      {"messages line\nrank 0: 0F0 0B0\n",
       "expected 'messages shared', 'updown', 'pair' or 'edge'"},
      {"messages pair late\nrank 0: 0F0 0B0\n", "expected 'messages shared'"},
      {"messages pair\nmessages pair\nrank 0: 0F0 0B0\n", "expected 'messages shared'"},
      {"rank 0: 0F0 0SEND_F0 0WAIT_SEND_F0 0B0\n",
       "only a plan with a line 'messages' holds waits"},
      {"messages pair\nrank 0: 0F0 0WAIT_SEND_F0 0SEND_F0\n", "rank 0 has no 0SEND_F0 before it"},
      {"messages pair\nrank 0: 0F0 0SEND_F0 0WAIT_F0\n", "expected a wait like 3WAIT_SEND_F7"},
      {"messages pair\nrank 0: 0F0 0SEND_F0 0WAIT_SEND_F0&0F1\n", "expected a wait like"},
  };
  for (const auto& [text, says] : rows) {
    Diagnostics findings;
    const Source source("x.plan",
                        absl::StrCat("plan x P=2 M=1 lowered\nstages 0 1\n", text, "rank 1:\n"));
    EXPECT_FALSE(ReadPlanFile(source, &findings)) << text;
    ASSERT_FALSE(findings.empty()) << text;
    EXPECT_NE(findings.findings()[0].text.find(says), std::string::npos)
        << findings.findings()[0].text;
  }
  Diagnostics findings;
  EXPECT_FALSE(ReadPlanFile(Source("x.plan", "plan x P=1 M=1\nstages 0\nmessages edge\nrank 0:\n"),
                            &findings));
  EXPECT_FALSE(ReadPlan(
      Source("x.plan", "plan x P=1 M=1 lowered\nstages 0\nmessages edge\nrank 0: 0F0 0B0\n"),
      &findings));
  EXPECT_EQ(findings.findings().size(), 2u);
}

}  // namespace
}  // namespace stringline
