// The keys are read into a table (argument_keys.h). Then sizes follow from each other as in
// Megatron's own checks: chunks, microbatches, the layers of every stage, how messages are issued.
#include "schedlang/megatron/arguments.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/base/diagnostics.h"
#include "schedlang/base/status.h"
#include "schedlang/base/yaml.h"
#include "schedlang/elaborate/layout_string.h"
#include "schedlang/megatron/argument_keys.h"

namespace stringline {
namespace {

constexpr char kLayout[] = "pipeline_model_parallel_layout";
constexpr char kLayersPerChunk[] = "num_layers_per_virtual_pipeline_stage";
constexpr char kStagesPerRank[] = "num_virtual_stages_per_pipeline_rank";
constexpr char kChunks[] = "virtual_pipeline_model_parallel_size";
constexpr char kFirst[] = "decoder_first_pipeline_num_layers";
constexpr char kLast[] = "decoder_last_pipeline_num_layers";
constexpr char kEmbedding[] = "account_for_embedding_in_pipeline_split";
constexpr char kLoss[] = "account_for_loss_in_pipeline_split";
constexpr char kGroup[] = "microbatch_group_size_per_vp_stage";
constexpr char kOverlap[] = "overlap_p2p_comm";
constexpr char kFlush[] = "overlap_p2p_comm_warmup_flush";
constexpr char kBatch[] = "batch_p2p_comm";
constexpr char kCombined[] = "overlap_moe_expert_parallel_comm";

// Takes the leaves of a map and of all maps in it.
absl::Status TakeAll(const YAML::Node& map, const std::string& path, ArgumentValues* values) {
  for (const auto& entry : map) {
    if (!entry.first.IsScalar()) continue;
    if (entry.second.IsMap()) {
      SL_RETURN_IF_ERROR(TakeAll(entry.second, path, values));
      continue;
    }
    const std::string text = entry.second.IsScalar() ? entry.second.Scalar()
                             : entry.second.IsNull() ? ""
                                                     : "a list";
    SL_RETURN_IF_ERROR(values->Take(entry.first.Scalar(), text,
                                    absl::StrCat(path, ":", entry.first.Mark().line + 1), false));
  }
  return absl::OkStatus();
}

class ArgumentReader {
 public:
  explicit ArgumentReader(const ArgumentValues& values) : values_(values) {}

  absl::StatusOr<MegatronArguments> Read() {
    SL_ASSIGN_OR_RETURN(order().ranks, values_.Number("pipeline_model_parallel_size", 1));
    SL_RETURN_IF_ERROR(ReadLayoutString());
    SL_RETURN_IF_ERROR(ReadChunks());
    SL_RETURN_IF_ERROR(ReadMicrobatches());
    SL_RETURN_IF_ERROR(ReadGroup());
    SL_RETURN_IF_ERROR(ReadMessages());
    SL_RETURN_IF_ERROR(ReadCombined());
    if (read_.layers.empty()) SL_RETURN_IF_ERROR(DivideLayers());
    SL_RETURN_IF_ERROR(ReadRecompute());
    read_.unconcerned = values_.unconcerned();
    return std::move(read_);
  }

 private:
  MegatronOrder& order() { return read_.order; }
  int stages() const { return read_.order.ranks * std::max(read_.order.chunks, 1); }

  absl::Status Bad(const std::string& key, const std::string& text) const {
    return absl::InvalidArgumentError(absl::StrCat(values_.PlaceOf(key), " ", text));
  }

  // "Et*3|(tt|)*6tL"
  absl::Status ReadLayoutString() {
    if (!values_.Has(kLayout)) return absl::OkStatus();
    const std::string& layout = values_.Of(kLayout).text;
    Diagnostics findings;
    const auto stages = ReadLayout(absl::StrCat("\"", layout, "\""), 0, true, &findings);
    if (!stages) {
      const Diagnostic& finding = findings.findings().front();
      return Bad(kLayout, absl::StrCat("is '", layout, "'",
                                       finding.span.begin == 0
                                           ? ""
                                           : absl::StrCat(", character ", finding.span.begin),
                                       ": ", finding.text));
    }
    const int count = static_cast<int>(stages->size());
    if (count % order().ranks != 0) {
      return Bad(kLayout, absl::StrCat("has ", count, " stages, which ", order().ranks,
                                       " ranks cannot share equally"));
    }
    for (const char* const other : {kFirst, kLast, kEmbedding, kLoss}) {
      if (values_.Has(other)) return Bad(other, "cannot stand beside a layout");
    }
    SL_RETURN_IF_ERROR(CheckLayout(*stages));
    read_.layers = *stages;
    return absl::OkStatus();
  }

  absl::Status CheckLayout(const std::vector<std::string>& stages) const {
    const std::string all = absl::StrJoin(stages, "");
    for (const auto& [key, letter] :
         {std::pair("num_layers", 't'), std::pair("mtp_num_layers", 'm')}) {
      const auto in_layout = static_cast<int>(std::count(all.begin(), all.end(), letter));
      SL_ASSIGN_OR_RETURN(const int said, values_.Number(key, in_layout, 0));
      if (said != in_layout) {
        return Bad(key, absl::StrCat("is ", said, ", and the layout has ", in_layout, " '",
                                     std::string(1, letter), "'"));
      }
    }
    if (all.rfind('t') != std::string::npos && all.find('m') < all.rfind('t')) {
      return Bad(kLayout, "has a layer behind an 'm'");
    }
    for (size_t s = 0; s + 1 < stages.size(); ++s) {
      if (stages[s].find('m') == std::string::npos) continue;
      return Bad(kLayout,
                 absl::StrCat("has an 'm' in stage ", s,
                              ", and is imported only with all in the last stage: otherwise ranks "
                              "exchange shapes before every message, and wait for them"));
    }
    return absl::OkStatus();
  }

  absl::Status ReadChunks() {
    std::vector<std::string> said;
    for (const char* const key : {kLayout, kLayersPerChunk, kStagesPerRank}) {
      if (values_.Has(key)) said.push_back(key);
    }
    if (said.size() > 1) {
      return Bad(said[1], absl::StrCat("cannot stand beside ", values_.PlaceOf(said[0])));
    }
    int chunks = 1;
    if (values_.Has(kLayersPerChunk)) {
      for (const char* const other : {kFirst, kLast}) {
        if (!values_.Has(other)) continue;
        return Bad(other, absl::StrCat("cannot stand beside ", values_.PlaceOf(kLayersPerChunk),
                                       "; num_virtual_stages_per_pipeline_rank can"));
      }
      SL_ASSIGN_OR_RETURN(const int per_chunk, values_.Number(kLayersPerChunk, 1));
      SL_ASSIGN_OR_RETURN(const int layers, LayersToDivide(kLayersPerChunk));
      if (layers % (order().ranks * per_chunk) != 0) {
        return Bad(kLayersPerChunk,
                   absl::StrCat("is ", per_chunk, ", and ", layers, " layers on ", order().ranks,
                                " ranks are no multiple of it on each"));
      }
      chunks = layers / order().ranks / per_chunk;
    } else if (values_.Has(kStagesPerRank)) {
      SL_ASSIGN_OR_RETURN(chunks, values_.Number(kStagesPerRank, 1));
    } else if (!read_.layers.empty()) {
      chunks = static_cast<int>(read_.layers.size()) / order().ranks;
    }
    SL_ASSIGN_OR_RETURN(const int set, values_.Number(kChunks, chunks));
    if (set != chunks && !said.empty()) {
      return Bad(kChunks, absl::StrCat("is ", set, ", and ", values_.PlaceOf(said[0]),
                                       " gives a rank ", chunks));
    }
    order().chunks = set == 1 ? 0 : set;
    if (order().chunks > 0 && order().ranks == 1) {
      return Bad(said.empty() ? kChunks : said[0],
                 "interleaves, and that takes a pipeline of at least two ranks");
    }
    return absl::OkStatus();
  }

  // The layers of the model, and one for the embedding and the loss where they count as layers.
  absl::StatusOr<int> LayersToDivide(const char* why) const {
    if (!values_.Has("num_layers")) return Bad("num_layers", absl::StrCat("is needed for ", why));
    SL_ASSIGN_OR_RETURN(int layers, values_.Number("num_layers", 1));
    for (const char* const key : {kEmbedding, kLoss}) {
      SL_ASSIGN_OR_RETURN(const bool counts, values_.Truth(key, false));
      layers += counts ? 1 : 0;
    }
    return layers;
  }

  absl::Status ReadMicrobatches() {
    SL_ASSIGN_OR_RETURN(order().microbatches, values_.Number("num_microbatches", 1));
    if (values_.Has("num_microbatches") || !values_.Has("global_batch_size")) {
      if (!values_.Has("num_microbatches")) {
        read_.notes.push_back("no global_batch_size: one microbatch, as in Megatron");
      }
      return absl::OkStatus();
    }
    SL_ASSIGN_OR_RETURN(const int batch, values_.Number("global_batch_size", 1));
    if (!values_.Has("micro_batch_size")) return Bad("micro_batch_size", "is needed");
    SL_ASSIGN_OR_RETURN(const int microbatch, values_.Number("micro_batch_size", 1));
    SL_ASSIGN_OR_RETURN(const int copies, Copies());
    const int64_t at_once = int64_t{microbatch} * copies;
    if (batch % at_once != 0) {
      return Bad(
          "global_batch_size",
          absl::StrCat("is ", batch, ", no multiple of micro_batch_size ", microbatch, " times ",
                       copies, copies == 1 ? " copy" : " copies", " of the pipeline"));
    }
    order().microbatches = static_cast<int>(batch / at_once);
    return absl::OkStatus();
  }

  // The number of copies of the pipeline: Megatron's data-parallel size.
  absl::StatusOr<int> Copies() {
    SL_ASSIGN_OR_RETURN(const int said, values_.Number("data_parallel_size", 0));
    if (!values_.Has("world_size")) {
      if (said > 0) return said;
      return Bad("world_size",
                 "is needed to tell how many microbatches there are; write it into the file or "
                 "behind its name, as world_size=16 (or data_parallel_size, or num_microbatches)");
    }
    SL_ASSIGN_OR_RETURN(const int world, values_.Number("world_size", 1));
    SL_ASSIGN_OR_RETURN(const int tensor, values_.Number("tensor_model_parallel_size", 1));
    SL_ASSIGN_OR_RETURN(const int context, values_.Number("context_parallel_size", 1));
    const int64_t model = int64_t{tensor} * context * order().ranks;
    if (world % model != 0) {
      return Bad("world_size",
                 absl::StrCat("is ", world, ", no multiple of ", tensor, " (tensor) times ",
                              order().ranks, " (pipeline) times ", context, " (context)"));
    }
    const auto copies = static_cast<int>(world / model);
    if (said > 0 && said != copies) {
      return Bad("data_parallel_size",
                 absl::StrCat("is ", said, ", and of ", world, " ranks there are ", copies));
    }
    return copies;
  }

  absl::Status ReadGroup() {
    SL_ASSIGN_OR_RETURN(order().group, values_.Number(kGroup, order().ranks));
    const int group = order().group, count = order().microbatches;
    if (order().chunks == 0) {
      if (values_.Has(kGroup)) {
        read_.notes.push_back(
            absl::StrCat(values_.PlaceOf(kGroup), ": without chunks it changes nothing"));
      }
      return absl::OkStatus();
    }
    if (group > count || group < order().ranks) {
      return Bad(kGroup, absl::StrCat("is ", group, ", and Megatron wants ", order().ranks,
                                      " (ranks) to ", count, " (microbatches)"));
    }
    const int rest = count % group;
    if (rest > 0 && rest < order().ranks) {
      return Bad(kGroup,
                 absl::StrCat("is ", group, ", and the last group of ", count, " microbatches has ",
                              rest, "; Megatron wants at least ", order().ranks));
    }
    return absl::OkStatus();
  }

  absl::Status ReadMessages() {
    SL_ASSIGN_OR_RETURN(const bool overlaps, values_.Truth(kOverlap, order().chunks > 0));
    SL_ASSIGN_OR_RETURN(order().overlaps_flush, values_.Truth(kFlush, false));
    order().overlaps_p2p = overlaps && order().chunks > 0;
    SL_ASSIGN_OR_RETURN(order().batches_p2p, values_.Truth(kBatch, !order().overlaps_p2p));
    if (overlaps && order().chunks == 0) {
      read_.notes.push_back(
          absl::StrCat(values_.PlaceOf(kOverlap), ": without chunks Megatron overlaps nothing"));
    }
    if (order().overlaps_p2p && order().batches_p2p) {
      return Bad(kBatch, "cannot be true where messages overlap computations (overlap_p2p_comm)");
    }
    if (order().overlaps_flush && !order().overlaps_p2p) {
      return Bad(kFlush, "needs chunks and overlap_p2p_comm");
    }
    return absl::OkStatus();
  }

  absl::Status ReadCombined() {
    SL_ASSIGN_OR_RETURN(order().combines, values_.Truth(kCombined, false));
    if (order().combines && order().ranks > 1 && order().chunks == 0) {
      return Bad(kCombined, "needs chunks on a pipeline of several ranks");
    }
    SL_ASSIGN_OR_RETURN(const bool delays, values_.Truth("delay_wgrad_compute", false));
    SL_ASSIGN_OR_RETURN(order().early_attention,
                        values_.Truth("ep_overlap_early_attn_memory_release", false));
    if (order().combines) {
      if (!delays) {
        read_.notes.push_back(
            "without delay_wgrad_compute the experts' weight gradients come before the all-to-all "
            "of their input gradients, which simulations let begin before");
      }
      return absl::OkStatus();
    }
    if (delays) return Bad("delay_wgrad_compute", absl::StrCat("needs ", kCombined));
    if (order().early_attention) {
      return Bad("ep_overlap_early_attn_memory_release", absl::StrCat("needs ", kCombined));
    }
    return absl::OkStatus();
  }

  // The layers of the ranks, in equal parts for their chunks.
  absl::Status DivideLayers() {
    if (!values_.Has("num_layers")) {
      for (const char* const key : {kFirst, kLast, kEmbedding, kLoss}) {
        if (values_.Has(key)) return Bad("num_layers", absl::StrCat("is needed for ", key));
      }
      return absl::OkStatus();
    }
    SL_ASSIGN_OR_RETURN(const std::vector<int> of_rank, LayersOfRanks());
    const int chunks = std::max(order().chunks, 1);
    SL_ASSIGN_OR_RETURN(const bool embedding, values_.Truth(kEmbedding, false));
    SL_ASSIGN_OR_RETURN(const bool loss, values_.Truth(kLoss, false));
    SL_ASSIGN_OR_RETURN(const int mtp, values_.Number("mtp_num_layers", 0, 0));
    for (int s = 0; s < stages(); ++s) {
      const int on_rank = of_rank[s % order().ranks];
      if (on_rank % chunks != 0) {
        return Bad("num_layers", absl::StrCat("gives rank ", s % order().ranks, " ", on_rank,
                                              " layers, no multiple of its ", chunks, " chunks"));
      }
      const bool last = s == stages() - 1;
      const int layers = on_rank / chunks - (embedding && s == 0) - (loss && last);
      if (layers < 0) return Bad("num_layers", absl::StrCat("leaves stage ", s, " no layer"));
      read_.layers.push_back(absl::StrCat(s == 0 ? "E" : "", std::string(layers, 't'),
                                          std::string(last ? mtp : 0, 'm'), last ? "L" : ""));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<int>> LayersOfRanks() const {
    const int ranks = read_.order.ranks;
    SL_ASSIGN_OR_RETURN(int layers, LayersToDivide("the layers of stages"));
    SL_ASSIGN_OR_RETURN(const int first, values_.Number(kFirst, 0));
    SL_ASSIGN_OR_RETURN(const int last, values_.Number(kLast, 0));
    for (const char* const key : {kFirst, kLast}) {
      if (!values_.Has(key)) continue;
      for (const char* const other : {kEmbedding, kLoss}) {
        SL_ASSIGN_OR_RETURN(const bool counts, values_.Truth(other, false));
        if (counts) return Bad(key, absl::StrCat("cannot stand beside ", values_.PlaceOf(other)));
      }
    }
    layers -= first + last;
    const int others = ranks - (first > 0) - (last > 0);
    if (layers < 0 || others < 0 || (others == 0) != (layers == 0) ||
        (others > 0 && layers % others != 0)) {
      return Bad("num_layers", absl::StrCat("leaves ", layers, " layers for ", others,
                                            others == 1 ? " rank" : " ranks",
                                            first + last > 0 ? " beside the first or last" : ""));
    }
    std::vector<int> of_rank(static_cast<size_t>(ranks), others == 0 ? 0 : layers / others);
    if (first > 0) of_rank.front() = first;
    if (last > 0) of_rank.back() = last;
    return of_rank;
  }

  absl::Status ReadRecompute() {
    const std::string granularity = values_.Word("recompute_granularity");
    const std::string method = values_.Word("recompute_method");
    if (granularity.empty() || granularity == "selective") return absl::OkStatus();
    if (granularity != "full" || (method != "uniform" && method != "block")) {
      return Bad(
          granularity == "full" ? "recompute_method" : "recompute_granularity",
          granularity == "full" ? "is neither uniform nor block" : "is neither full nor selective");
    }
    if (order().combines)
      return Bad("recompute_granularity", absl::StrCat("cannot be full beside ", kCombined));
    read_.recompute.assign(static_cast<size_t>(stages()), 1);
    if (method == "uniform") return absl::OkStatus();
    SL_ASSIGN_OR_RETURN(const int most, values_.Number("recompute_num_layers", 1));
    for (size_t s = 0; s < read_.layers.size(); ++s) {
      const auto layers = std::count(read_.layers[s].begin(), read_.layers[s].end(), 't');
      if (layers <= most) continue;
      return Bad("recompute_num_layers",
                 absl::StrCat("is ", most, ", and stage ", s, " has ", layers,
                              " layers: a plan's stage recomputes as a whole or not"));
    }
    if (read_.layers.empty()) return Bad("num_layers", "is needed for recompute_method block");
    return absl::OkStatus();
  }

  const ArgumentValues& values_;
  MegatronArguments read_;
};

}  // namespace

absl::StatusOr<MegatronArguments> ReadMegatronArguments(const Source& source,
                                                        const std::vector<GivenArgument>& given) {
  SL_ASSIGN_OR_RETURN(const YAML::Node root, LoadYaml(source));
  if (!root.IsMap()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source.path(), ": expected Megatron's arguments, as a map of keys"));
  }
  ArgumentValues values(source.path());
  for (const GivenArgument& argument : given) {
    SL_RETURN_IF_ERROR(values.Take(argument.key, argument.value, "argument", true));
  }
  SL_RETURN_IF_ERROR(TakeAll(root, source.path(), &values));
  return ArgumentReader(values).Read();
}

PlanFile PlanOfMegatron(const MegatronArguments& arguments) {
  const MegatronOrder& order = arguments.order;
  PlanFile file = IssuedOrder(order);
  Plan& plan = file.plan;
  plan.schedule = order.combines      ? "megatron_combined"
                  : order.ranks == 1  ? "megatron_no_pipelining"
                  : order.chunks == 0 ? "megatron_1f1b"
                                      : "megatron_interleaved";
  if (order.chunks > 0) {
    plan.parameters.push_back({"V", order.chunks});
    plan.parameters.push_back({"G", order.group});
  }
  if (!arguments.layers.empty()) {
    plan.split.kind = Split::Kind::kLayout;
    plan.split.layout = arguments.layers;
  }
  plan.recompute = arguments.recompute;
  return file;
}

}  // namespace stringline
