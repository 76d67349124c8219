// Completes the costs that a person wrote, by a formula or by usual costs. Then each key becomes a
// value for every stage. A pair is priced by running its parts on two lanes, once for each two
// stages that meet.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"
#include "schedlang/costs/cost_keys.h"
#include "schedlang/costs/costs.h"
#include "schedlang/costs/data_parallel.h"
#include "schedlang/costs/host_copies.h"
#include "schedlang/costs/messages.h"
#include "schedlang/costs/microbatch_shares.h"
#include "schedlang/costs/own_costs.h"
#include "schedlang/costs/part_formula.h"
#include "schedlang/costs/read_shape.h"
#include "schedlang/costs/recompute.h"
#include "schedlang/costs/step_length.h"
#include "schedlang/plan/group_order.h"

namespace stringline {
namespace {

constexpr int64_t kUnitOfOrderNs = 1'000'000;

// True if the costs of actions equal the sums of their parts.
bool SumUp(const CostModel& costs) {
  for (size_t s = 0; s < costs.parts.size(); ++s) {
    const PartCosts& parts = costs.parts[s];
    const auto differs = [s](const std::vector<int64_t>& of, int64_t sum_ns) {
      return !of.empty() && of[s] != sum_ns;
    };
    const int64_t input_ns = parts.InputGradient(), weight_ns = parts.WeightGradient();
    if (differs(costs.forward, parts.Forward()) || differs(costs.input_gradient, input_ns) ||
        differs(costs.weight_gradient, weight_ns) ||
        differs(costs.backward, input_ns + weight_ns)) {
      return false;
    }
  }
  return true;
}

void AddParts(const PartCosts& parts, std::map<std::string, std::vector<int64_t>>* values) {
  for (int p = 0; p < kParts; ++p) (*values)[PartName(p)].push_back(parts.ns[p]);
  (*values)["layers"].push_back(parts.layers);
}

// An UPDATE that no cost names takes no time of its own.
void AddUpdates(const Plan& plan, CostModel* costs) {
  costs->update.resize(HasUpdates(plan) ? plan.stages.size() : 0, 0);
  for (size_t s = 0; s < costs->update.size() && !costs->gather_updated.empty(); ++s) {
    costs->update[s] += costs->gather_updated[s];
  }
}

absl::Status CheckSharing(const CostSpec& spec) {
  const auto sharing = spec.values.find("host.sharing");
  if (sharing == spec.values.end()) return absl::OkStatus();
  if (spec.values.count("host.bandwidth") == 0) {
    return absl::InvalidArgumentError(
        "host.sharing: needs the bandwidth that is shared ('host.bandwidth=25GB/s')");
  }
  if (sharing->second[0] > 0) return absl::OkStatus();
  return absl::InvalidArgumentError("host.sharing: at least 1");
}

// Stages that are reduced together come in equally many buckets.
absl::Status CheckBuckets(const Plan& plan, const std::vector<int64_t>& buckets) {
  for (size_t s = 0; s < buckets.size(); ++s) {
    if (buckets[s] == 0) return absl::InvalidArgumentError("buckets: at least 1");
    const size_t first = plan.pipes.empty() ? s : s % static_cast<size_t>(plan.pipes[0].stages);
    if (buckets[s] == buckets[first]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("buckets: ", buckets[first], " for stage ", first, " and ", buckets[s],
                     " for its replica ", s, ", which are reduced together; give both the same"));
  }
  return absl::OkStatus();
}

// Without a mesh the number of copies is unknown; copies are assumed if `sharding` is given or a
// collective has a cost.
CollectiveChoice CollectivesOf(const CostSpec& spec, Sharding sharding, const CostModel& model) {
  CollectiveChoice choice;
  if (spec.formula) {
    choice = CollectivesFor(sharding, CopiesOf(spec.formula->model));
  } else if (spec.sharding) {
    choice = CollectivesFor(sharding, /*copies=*/2);
  }
  if (choice.any()) return choice;
  choice.gathers = !spec.sharding && !model.unshard.empty();
  choice.reduces = choice.gathers || !model.reduce.empty();
  return choice;
}

class CostResolver {
 public:
  CostResolver(const CostSpec& spec, const Plan& plan) : spec_(spec), plan_(plan) {}

  absl::StatusOr<CostModel> Run() {
    DropOwnKeys(plan_, &spec_.unless_own);
    SL_RETURN_IF_ERROR(CheckNoneLeft(spec_.unless_own));
    shares_ = WorkShares(plan_, spec_.work);
    if (spec_.formula && spec_.work != WorkScope::kStage) {
      return absl::InvalidArgumentError(
          absl::StrCat("work: with a formula every stage has its own costs already; leave out '",
                       NameOf(spec_.work), "'"));
    }
    AddUsual();
    if (spec_.formula && spec_.formula->model.pipeline > 0 &&
        spec_.formula->model.pipeline != plan_.ranks()) {
      return absl::InvalidArgumentError(
          absl::StrCat("mesh.pipeline is ", spec_.formula->model.pipeline,
                       ", but the schedule has ", plan_.ranks(), " ranks"));
    }
    if (spec_.formula) {
      SL_RETURN_IF_ERROR(ResolveMesh(sharding(), &spec_.formula->model));
      if (spec_.formula->model.hosted_layers > 0 && One("host.bandwidth") == 0) {
        return absl::InvalidArgumentError(
            "layer_offload: needs the link to the host ('host: {bandwidth: 50GB/s}')");
      }
      AddFormula(*spec_.formula);
    }
    SL_RETURN_IF_ERROR(CheckNeeds());
    SL_RETURN_IF_ERROR(ResolveParts());
    SL_RETURN_IF_ERROR(ResolveActions());
    SL_RETURN_IF_ERROR(ResolvePairsOfOrder());
    SL_RETURN_IF_ERROR(CheckPairs());
    PriceGroups(plan_, &model_);
    SL_ASSIGN_OR_RETURN(message_, PerStage("message"));
    SL_RETURN_IF_ERROR(AddMessages(plan_, spec_, message_, &model_));
    SL_RETURN_IF_ERROR(ResolveMemory());
    model_.capacity = One("memory.capacity");
    model_.host_capacity = One("host.capacity");
    SL_ASSIGN_OR_RETURN(model_.unshard, PerStage("unshard"));
    SL_ASSIGN_OR_RETURN(model_.reduce, PerStage("reduce"));
    SL_ASSIGN_OR_RETURN(model_.buckets, PerStage("buckets"));
    SL_RETURN_IF_ERROR(CheckBuckets(plan_, model_.buckets));
    model_.collectives = CollectivesOf(spec_, sharding(), model_);
    model_.receive_buffers = static_cast<int>(One("receive_buffers"));
    model_.jitter = One("jitter");
    model_.microbatch_jitter = One("jitter.microbatch");
    SL_ASSIGN_OR_RETURN(std::vector<int64_t> recomputes, RecomputedStages(spec_, plan_));
    SL_ASSIGN_OR_RETURN(const std::vector<int64_t> again, PerStage("R"));
    AddRecompute(plan_, recomputes, again, Has("memory.kept"), &model_);
    SL_ASSIGN_OR_RETURN(HostCosts host, HostCostsOf());
    SL_RETURN_IF_ERROR(AddCopies(plan_, std::move(host), &model_));
    SL_RETURN_IF_ERROR(AddOwnCosts(
        plan_,
        {.bandwidth = One("bandwidth"),
         .host_bandwidth = One("host.bandwidth"),
         .host_sharing = One("host.sharing", 1),
         .of_some = spec_.links.empty() ? "" : spec_.links[0].place,
         .is_usual = usual_},
        [this](const std::string& key) { return PerStage(key); }, &model_));
    SL_ASSIGN_OR_RETURN(const std::vector<int64_t> attention, PerStage("attention"));
    SL_RETURN_IF_ERROR(ShareOut(plan_, formulas_, attention, spec_, &model_));
    SL_RETURN_IF_ERROR(CheckStepLength(plan_, model_));
    return std::move(model_);
  }

 private:
  size_t stages() const { return plan_.stages.size(); }
  Sharding sharding() const { return spec_.sharding.value_or(Sharding::kNone); }
  bool Has(const std::string& key) const { return spec_.values.count(key) > 0; }
  int64_t One(const std::string& key, int64_t otherwise = 0) const {
    return Has(key) ? spec_.values.at(key)[0] : otherwise;
  }

  // One value per stage from a scalar or a list; empty without the key.
  absl::StatusOr<std::vector<int64_t>> PerStage(const std::string& key) const {
    const auto found = spec_.values.find(key);
    if (found == spec_.values.end()) return std::vector<int64_t>{};
    const std::vector<int64_t>& values = found->second;
    if (values.size() == 1) return Shared(key, values[0]);
    if (spec_.work != WorkScope::kStage) {
      return absl::InvalidArgumentError(
          absl::StrCat(key, ": a list gives costs of stages; with 'work: ", NameOf(spec_.work),
                       "' there is one value, of the ", NameOf(spec_.work)));
    }
    return ListOfStages(plan_, key, values);
  }

  // True if a part of F, I or W has a cost.
  bool HasParts(ActionKind kind) const {
    for (int part = 0; part < kParts; ++part) {
      if (RowOfPart(part).of == kind && Has(PartName(part))) return true;
    }
    return false;
  }
  bool HasParts() const {
    return HasParts(ActionKind::kForward) || HasParts(ActionKind::kInputGradient) ||
           HasParts(ActionKind::kWeightGradient);
  }

  // Without any cost of computation, takes the order's own costs, or else UnitCosts.
  void AddUsual() {
    for (const char* const key : {"F", "B", "I", "W", "FB"}) {
      if (Has(key)) return;
    }
    if (spec_.formula || HasParts()) return;
    usual_ = true;
    if (plan_.costs.empty() || spec_.work != WorkScope::kStage) {
      spec_.values.merge(UnitCosts().values);
      return;
    }
    model_.of_order = true;
    for (size_t k = 0; k < plan_.costs.actions.size(); ++k) {
      AddOfOrder(PrintedKind(static_cast<ActionKind>(k)), plan_.costs.actions[k]);
    }
    AddOfOrder("FB", plan_.costs.beside_backward.takes);
    AddOfOrder("p2p", {plan_.costs.p2p});
    if (spec_.microbatches.empty()) spec_.microbatches = MicrobatchesOf(plan_.costs);
  }

  // A cost of the order itself, unless the key is given.
  void AddOfOrder(const char* key, std::vector<int64_t> costs) {
    for (int64_t& cost : costs) cost *= kUnitOfOrderNs;
    if (!costs.empty()) spec_.values.emplace(key, std::move(costs));
  }

  // The order's own costs of pairs; pairs have no keys.
  absl::Status ResolvePairsOfOrder() {
    if (!model_.of_order) return absl::OkStatus();
    const OrderCosts& order = plan_.costs;
    const std::pair<const std::vector<int64_t>*, std::vector<int64_t>*> lists[] = {
        {&order.beside_input.takes, &model_.forward_input},
        {&order.beside_backward.saves, &model_.saved_beside_backward},
        {&order.beside_input.saves, &model_.saved_beside_input}};
    for (const auto& [costs, resolved] : lists) {
      if (costs->empty()) continue;
      SL_ASSIGN_OR_RETURN(*resolved, ListOfStages(plan_, "costs", *costs));
      for (int64_t& cost : *resolved) cost *= kUnitOfOrderNs;
    }
    return absl::OkStatus();
  }

  // Refuses keys that mean nothing without another key.
  absl::Status CheckNeeds() const {
    for (const char* const key : {"node.p2p", "node.bandwidth", "node.sharing"}) {
      if (Has(key) && !Has("node.ranks")) {
        return absl::InvalidArgumentError(
            absl::StrCat(key, ": needs the ranks of a node ('node.ranks=8')"));
      }
    }
    if (Has("layers") && spec_.work == WorkScope::kRank) {
      return absl::InvalidArgumentError(
          "layers: with 'work: rank' they cannot be told; give them for the stage or the model");
    }
    for (const char* const key : {"layers", "slowdown", "part_jitter"}) {
      if (Has(key) && !HasParts()) {
        return absl::InvalidArgumentError(
            absl::StrCat(key, ": needs costs of parts ('F.attn=10')"));
      }
    }
    return CheckSharing(spec_);
  }

  // Each stage's share of one value.
  absl::StatusOr<std::vector<int64_t>> Shared(const std::string& key, int64_t value) const {
    std::vector<int64_t> values(stages(), value);
    if (spec_.work == WorkScope::kStage) return values;
    for (size_t s = 0; s < stages(); ++s) {
      if (key == "layers") {
        const StageId id(static_cast<int32_t>(s));
        values[s] = LayersOfStage(plan_, id, value);
      } else if (const CostKey* const known = FindCostKey(key);
                 known == nullptr || IsSharedByStages(*known)) {
        values[s] = std::llround(static_cast<double>(value) * shares_[s]);
      }
    }
    return values;
  }

  MeshLinks Links() const {
    MeshLinks links;
    links.between = {One("p2p"), One("bandwidth")};
    links.node_ranks = One("node.ranks");
    links.inside = {One("node.p2p", links.between.latency_ns),
                    One("node.bandwidth", links.between.bandwidth)};
    links.slow = spec_.formula->slow_pairs;
    return links;
  }

  // Without any of them, collectives inside layers are not counted.
  bool KnowsLinks() const {
    return Has("p2p") || Has("bandwidth") || Has("node.p2p") || Has("node.bandwidth");
  }

  // Adds the formula's values for keys that are not given.
  void AddFormula(CostFormula formula) {
    formula.model.slices = plan_.slices;
    const ModelShape& model = formula.model;
    formula.machine.host_bandwidth = static_cast<double>(One("host.bandwidth"));
    forwards_ns_ = 0;
    std::map<std::string, std::vector<int64_t>> values;
    const auto memory = [&values](MemoryClass memory_class, int64_t bytes) {
      values[KeyOf(memory_class)].push_back(bytes);
    };
    const MeshLinks links = Links();
    const bool in_parts = HasCollectivesInside(model) && KnowsLinks();
    const bool has_copies = HasCopies(model);
    StagePart part;
    for (size_t s = 0; s < stages(); ++s) {
      const StageId id(static_cast<int32_t>(s));
      part.embedding = plan_.graph.In(id).empty();
      part.head = plan_.graph.Out(id).empty();
      part.first_layer = part.embedding ? 0 : part.first_layer + part.layers;
      part.layers = LayersOfStage(plan_, id, model.layers);
      StageFormula stage = FormulaOf(model, formula.machine, part);
      std::optional<CollectiveTimes> times;
      if (has_copies) times = TimesOfCollectives(plan_, id, model, sharding(), stage, links);
      MicrobatchWaits waits;
      if (IsByLayer(model, sharding())) waits = WaitsOf(*times, stage);
      stage.forward_ns += waits.forward_ns;
      stage.input_gradient_ns += waits.back_ns;
      if (in_parts) {
        PartCosts parts =
            PartsOf(model, formula.machine, part, LinksOfLayers(plan_, id, model, links));
        parts.ns[kFPost] += waits.forward_ns;
        parts.ns[kBPost] += waits.back_ns;
        AddParts(parts, &values);
      } else {
        values["F"].push_back(stage.forward_ns);
        values["I"].push_back(stage.input_gradient_ns);
        values["W"].push_back(stage.weight_gradient_ns);
      }
      values["message"].push_back(MessageBytes(model));
      AddShared(model, stage, part.layers, times, &values);
      const int64_t keys = plan_.slices > 1 ? stage.keys : 0;
      if (plan_.slices > 1) memory(MemoryClass::kSliceKeys, keys);
      memory(MemoryClass::kSavedForInput, stage.saved_for_i - keys);
      formulas_.push_back(stage);
      memory(MemoryClass::kSavedForWeight, stage.saved_for_w);
      memory(MemoryClass::kStash, stage.stash);
    }
    if (!HasUpdates(plan_)) values.erase("UPDATE");
    gradients_given_ = Has(KeyOf(MemoryClass::kGradients));
    const bool whole_backward = spec_.values.count("B") > 0;
    if (whole_backward) {
      values.erase("I");
      values.erase("W");
    }
    spec_.values.merge(values);
  }

  // True if any stage has copies. Both replicas of a stage may be on one rank, as in the middle of
  // two pipes, while other stages are on two.
  bool HasCopies(const ModelShape& model) const {
    for (size_t s = 0; s < stages(); ++s) {
      if (CopiesOf(plan_, StageId(static_cast<int32_t>(s)), model) > 1) return true;
    }
    return false;
  }

  // Bytes that copies share out of a stage of so many layers, and the times of their collectives;
  // no times: there are no copies.
  void AddShared(const ModelShape& model, const StageFormula& stage, int64_t layers,
                 const std::optional<CollectiveTimes>& times,
                 std::map<std::string, std::vector<int64_t>>* values) {
    const auto share_from = [&](Sharding least, int64_t bytes) {
      if (sharding() < least || stage.parameters == 0) return bytes;
      const int64_t of_experts = bytes / stage.parameters * stage.expert_parameters;
      const int64_t shares = SharesOf(model, false), of_each = SharesOf(model, true);
      if (shares == of_each) return (bytes + shares - 1) / shares;
      return (bytes - of_experts + shares - 1) / shares + (of_experts + of_each - 1) / of_each;
    };
    const auto memory = [values](MemoryClass memory_class, int64_t bytes) {
      (*values)[KeyOf(memory_class)].push_back(bytes);
    };
    const int64_t weights = stage.parameters * model.bytes, gradients = stage.parameters * 4;
    memory(MemoryClass::kWeights, share_from(Sharding::kParameters, weights));
    memory(MemoryClass::kGradients, share_from(Sharding::kGradients, gradients));
    const bool by_layer = IsByLayer(model, sharding()) && layers > 2;
    const auto at_once = [&](int64_t bytes) { return by_layer ? bytes / layers * 2 : bytes; };
    unreduced_.push_back(at_once(gradients - share_from(Sharding::kGradients, gradients)));
    memory(MemoryClass::kOptimizer,
           share_from(Sharding::kOptimizer, OptimizerBytes(model, stage.parameters)));
    const int64_t update_ns =
        UpdateNs(model, spec_.formula->machine, share_from(Sharding::kOptimizer, stage.parameters));
    (*values)["UPDATE"].push_back(update_ns);
    model_.behind_step.push_back(update_ns);
    if (!times) return;
    (*values)["reduce"].push_back(times->reduce_ns);
    (*values)["buckets"].push_back(times->buckets);
    if (sharding() == Sharding::kParameters) {
      memory(MemoryClass::kUnsharded, at_once(weights));
      (*values)["unshard"].push_back(times->gather_ns);
    } else if (sharding() != Sharding::kNone) {
      model_.gather_updated.push_back(times->update_ns);
      // Megatron gathers bucket by bucket beside the next step's first forwards, those of the
      // stages before among them.
      forwards_ns_ += stage.forward_ns;
      const bool hides = model.layout == MeshLayout::kMegatron;
      model_.behind_step.back() +=
          hides ? std::max(times->update_ns / times->buckets, times->update_ns - forwards_ns_)
                : times->update_ns;
    }
  }

  absl::StatusOr<HostCosts> HostCostsOf() const {
    HostCosts host = {.bandwidth = One("host.bandwidth"),
                      .sharing = One("host.sharing", 1),
                      .says_bytes = Has("memory.hosted"),
                      .is_usual = usual_};
    SL_ASSIGN_OR_RETURN(host.offload, PerStage("D"));
    SL_ASSIGN_OR_RETURN(host.fetch, PerStage("U"));
    return host;
  }

  absl::Status ResolveParts() {
    for (int part = 0; part < kParts; ++part) {
      SL_ASSIGN_OR_RETURN(const std::vector<int64_t> ns, PerStage(PartName(part)));
      if (ns.empty()) continue;
      model_.parts.resize(stages());
      for (size_t s = 0; s < stages(); ++s) model_.parts[s].ns[part] = ns[s];
    }
    if (model_.parts.empty()) return absl::OkStatus();
    SL_ASSIGN_OR_RETURN(const std::vector<int64_t> layers, PerStage("layers"));
    for (size_t s = 0; s < layers.size(); ++s) model_.parts[s].layers = layers[s];
    model_.slowdown = One("slowdown");
    model_.part_jitter = One("part_jitter");
    return absl::OkStatus();
  }

  absl::Status ResolveActions() {
    SL_ASSIGN_OR_RETURN(model_.forward, PerStage("F"));
    SL_ASSIGN_OR_RETURN(model_.backward, PerStage("B"));
    SL_ASSIGN_OR_RETURN(model_.input_gradient, PerStage("I"));
    SL_ASSIGN_OR_RETURN(model_.weight_gradient, PerStage("W"));
    SL_ASSIGN_OR_RETURN(model_.forward_backward, PerStage("FB"));
    const auto from_parts = [&](ActionKind kind, std::vector<int64_t>* costs,
                                int64_t (PartCosts::*sum)() const) {
      if (!HasParts(kind)) return;  // a sum of nothing is no cost
      std::vector<int64_t> sums;
      for (const PartCosts& parts : model_.parts) sums.push_back((parts.*sum)());
      ByParts(kind) = std::any_of(sums.begin(), sums.end(), [](int64_t ns) { return ns > 0; });
      if (costs->empty()) *costs = std::move(sums);
    };
    from_parts(ActionKind::kForward, &model_.forward, &PartCosts::Forward);
    from_parts(ActionKind::kInputGradient, &model_.input_gradient, &PartCosts::InputGradient);
    from_parts(ActionKind::kWeightGradient, &model_.weight_gradient, &PartCosts::WeightGradient);
    // A backward has the parts of both its halves, one of which may take no time.
    ByParts(ActionKind::kBackward) =
        HasParts(ActionKind::kInputGradient) && HasParts(ActionKind::kWeightGradient) &&
        (ByParts(ActionKind::kInputGradient) || ByParts(ActionKind::kWeightGradient));
    const bool halves = !model_.input_gradient.empty() && !model_.weight_gradient.empty();
    for (size_t s = 0; model_.backward.size() < stages() && halves; ++s) {
      model_.backward.push_back(model_.input_gradient[s] + model_.weight_gradient[s]);
    }
    ByParts(ActionKind::kRecompute) = ByParts(ActionKind::kForward);
    SL_ASSIGN_OR_RETURN(model_.update, PerStage("UPDATE"));
    AddUpdates(plan_, &model_);
    const std::vector<int64_t>* const of[] = {&model_.forward,        &model_.backward,
                                              &model_.input_gradient, &model_.weight_gradient,
                                              &model_.forward,        &model_.update};
    for (const Action& action : plan_.actions) {
      if (!IsCompute(action.kind) || IsOwn(action.kind) ||
          !of[static_cast<int>(action.kind)]->empty())
        continue;
      return absl::InvalidArgumentError(
          absl::StrCat("the schedule performs ", Print(plan_, action),
                       ", but there is no cost for ", PrintedKind(action.kind),
                       action.kind == ActionKind::kBackward ? " (nor for I and W)" : "",
                       model_.of_order ? absl::StrCat("; its order was made for other kinds (",
                                                      Print(plan_.costs), "): give costs")
                                       : ""));
    }
    return absl::OkStatus();
  }

  // A pair is priced by its parts, if any parts have costs; then each of its kinds needs such
  // costs.
  absl::Status CheckPairs() const {
    if (model_.parts.empty()) return absl::OkStatus();
    for (uint32_t i = 0; i < plan_.actions.size(); ++i) {
      if (!IsCompute(plan_.actions[i].kind) || plan_.actions[i].joined) continue;
      const auto pair = PairOf(GroupAt(absl::MakeConstSpan(plan_.actions), i));
      if (pair.forward == nullptr) continue;
      const bool whole = pair.backward->kind == ActionKind::kBackward;
      if (whole && !model_.forward_backward.empty()) continue;
      for (const ActionKind kind :
           {ActionKind::kForward, ActionKind::kInputGradient, ActionKind::kWeightGradient}) {
        if (HasParts(kind) || (!whole && kind == ActionKind::kWeightGradient)) continue;
        const char first = PrintedKind(kind)[0] == 'I' ? 'B' : PrintedKind(kind)[0];
        return absl::InvalidArgumentError(absl::StrCat(
            "the schedule performs ", Print(plan_, *pair.forward), " & ",
            Print(plan_, *pair.backward), ", whose parts overlap, but of ", PrintedKind(kind),
            " there is no cost of a part (", std::string(1, first), ".attn, ",
            std::string(1, first), ".post)", whole ? "; give them, or FB" : "; give them"));
      }
    }
    return absl::OkStatus();
  }

  bool& ByParts(ActionKind kind) { return model_.by_parts[static_cast<int>(kind)]; }

  absl::Status ResolveMemory() {
    for (int c = 0; c < static_cast<int>(MemoryClass::kMessages); ++c) {
      const auto memory_class = static_cast<MemoryClass>(c);
      const OwnValue* const own = OwnValueOf(plan_.rows, memory_class);
      const std::string key =
          own != nullptr ? absl::StrCat("memory.", own->name) : KeyOf(memory_class);
      SL_ASSIGN_OR_RETURN(const std::vector<int64_t> bytes, PerStage(key));
      if (bytes.empty()) continue;
      model_.memory.resize(stages());
      const int versions = memory_class == MemoryClass::kWeights ? plan_.versions : 1;
      for (size_t s = 0; s < stages(); ++s) model_.memory[s][memory_class] = versions * bytes[s];
    }
    for (size_t s = 0; s < model_.memory.size() && !message_.empty(); ++s)
      model_.memory[s][MemoryClass::kMessages] = message_[s];
    if (!model_.memory.empty() && !plan_.graph.is_chain()) {
      for (const Edge& edge : plan_.graph.edges()) {
        model_.memory.emplace_back()[MemoryClass::kMessages] = BytesOver(spec_, message_, edge);
      }
    }
    // Gradient bytes in the cost file replace the formula's, including unreduced ones.
    const bool from_formula = !unreduced_.empty() && !gradients_given_;
    for (size_t s = 0; s < stages() && !model_.memory.empty() && from_formula; ++s) {
      model_.memory[s].unreduced = unreduced_[s];
    }
    return absl::OkStatus();
  }

  CostSpec spec_;
  const Plan& plan_;
  CostModel model_;
  std::vector<int64_t> message_;
  std::vector<int64_t> unreduced_;      // by stage, as in StageMemory
  std::vector<StageFormula> formulas_;  // by stage; empty without a formula
  int64_t forwards_ns_ = 0;             // of the stages that AddShared has seen
  bool gradients_given_ = false;        // not by the formula
  bool usual_ = false;                  // no costs of computations are given
  std::vector<double> shares_;  // each stage's share of a cost given for a rank or the model
};

}  // namespace

absl::StatusOr<CostModel> ResolveCosts(const CostSpec& spec, const Plan& plan) {
  return CostResolver(spec, plan).Run();
}

bool TakesItsParts(const CostModel& costs) {
  return costs.forward_backward.empty() && costs.noise.empty() && costs.slowdown == 0 &&
         SumUp(costs);
}

GroupKey KeyOf(absl::Span<const Action> group) {
  GroupKey key;
  for (const Action& action : group) key.emplace_back(action.kind, action.stage.value);
  return key;
}

bool OverlapsInParts(const Plan& plan, const CostModel& costs, absl::Span<const Action> group) {
  if (costs.parts.empty() || !IsCompute(group[0].kind)) return false;
  const bool in_one_piece = group[0].kind == ActionKind::kRecompute ||
                            group[0].kind == ActionKind::kUpdate || IsOwn(group[0].kind);
  if (group.size() == 1 && (plan.chunks == 1 || in_one_piece)) return false;
  if (const OverlappedPair pair = PairOf(group); pair.forward != nullptr) {
    return pair.backward->kind == ActionKind::kInputGradient || costs.forward_backward.empty();
  }
  return (group.size() == 1 || FindOverlap(plan, group) != nullptr) &&
         std::all_of(group.begin(), group.end(), [&](const Action& action) {
           return costs.by_parts[static_cast<size_t>(action.kind)];
         });
}

LaneRules RulesOf(const Plan& plan, const CostModel& costs) {
  return {costs.slowdown, costs.part_jitter, plan.chunks};
}

std::vector<PartTime> PartsOfGroup(const Plan& plan, const CostModel& costs,
                                   absl::Span<const Action> group) {
  absl::InlinedVector<PricedMember, 4> members;
  PartCosts again;  // of an R, whose only part is the post of an F
  for (const Action& action : group) {
    const auto s = static_cast<size_t>(action.stage.value);
    const bool remakes = action.kind == ActionKind::kRecompute;
    if (remakes) again.ns[kFPost] = costs.recompute[s];
    members.push_back({ProgramOf(action.kind), remakes ? &again : &costs.parts[s], action.stage});
  }
  return RunGroup(members, FindOverlap(plan, group), RulesOf(plan, costs));
}

void PriceGroups(const Plan& plan, CostModel* costs) {
  costs->overlapped.clear();
  if (costs->parts.empty()) return;
  const auto price = [&](absl::Span<const Action> group) {
    const auto [time, is_new] = costs->overlapped.try_emplace(KeyOf(group), 0);
    if (!is_new) return;
    for (const PartTime& part : PartsOfGroup(plan, *costs, group)) {
      time->second = std::max(time->second, part.end_ns);
    }
  };
  for (uint32_t i = 0; i < plan.actions.size(); ++i) {
    if (plan.actions[i].joined) continue;
    const auto group = GroupAt(absl::MakeConstSpan(plan.actions), i);
    if (OverlapsInParts(plan, *costs, group)) {
      price(group);
      continue;
    }
    // One after the other, each of them perhaps in chunks.
    for (size_t k = 0; k < group.size(); ++k) {
      if (OverlapsInParts(plan, *costs, group.subspan(k, 1))) price(group.subspan(k, 1));
    }
  }
}

int64_t GroupCost(const CostModel& costs, absl::Span<const Action> group) {
  const auto cost_of_stage = [&](const Action& part) {
    const auto s = static_cast<size_t>(part.stage.value);
    switch (part.kind) {
      case ActionKind::kForward:
        return costs.forward[s];
      case ActionKind::kBackward:
        return costs.backward[s];
      case ActionKind::kInputGradient:
        return costs.input_gradient[s];
      case ActionKind::kWeightGradient:
        return costs.weight_gradient[s];
      case ActionKind::kRecompute:
        return costs.recompute[s];
      case ActionKind::kUpdate:
        return costs.update[s];
      default:
        if (IsOwn(part.kind)) return costs.own.Of(part.kind, part.stage);
        SL_CHECK(false) << PrintedKind(part.kind) << " is no computation";
        return int64_t{0};
    }
  };
  const auto cost = [&](const Action& part) {
    return OfMicrobatch(costs, part, cost_of_stage(part));
  };
  if (group.size() == 1 && costs.overlapped.empty()) return cost(group[0]);
  const auto again_of = [&](const Action& part) {
    const bool back = part.kind == ActionKind::kBackward || part.kind == ActionKind::kInputGradient;
    if (!back || costs.again.empty()) return int64_t{0};
    Action again = part;
    again.kind = ActionKind::kRecompute;
    return OfMicrobatch(costs, again, costs.again[part.stage.value]);
  };
  if (const OverlappedPair pair = PairOf(group); pair.forward != nullptr) {
    const bool whole = pair.backward->kind == ActionKind::kBackward;
    const auto a = static_cast<size_t>(pair.forward->stage.value);
    const auto b = static_cast<size_t>(pair.backward->stage.value);
    const int64_t again = again_of(*pair.backward);
    const std::vector<int64_t>& takes = whole ? costs.forward_backward : costs.forward_input;
    if (!takes.empty()) {
      const int64_t both = OfMicrobatch(costs, *pair.forward, takes[a]) +
                           OfMicrobatch(costs, *pair.backward, takes[a]);
      return both / 2 + again;
    }
    const auto& saved = whole ? costs.saved_beside_backward : costs.saved_beside_input;
    if (!saved.empty()) {
      const int64_t saves = std::min(saved[a], saved[b]);
      const int64_t least = std::min(OfMicrobatch(costs, *pair.forward, saves),
                                     OfMicrobatch(costs, *pair.backward, saves));
      return std::max<int64_t>(0, cost(group[0]) + cost(group[1]) - least);
    }
  }
  if (!costs.overlapped.empty()) {
    const auto found = costs.overlapped.find(KeyOf(group));
    if (found != costs.overlapped.end()) {
      int64_t length_ns = found->second;
      for (const Action& part : group) length_ns += again_of(part);
      return length_ns;
    }
    SL_CHECK(PairOf(group).forward == nullptr) << "priced for another plan (PriceGroups)";
  }
  if (group.size() == 1) return cost(group[0]);
  int64_t sum = 0;
  for (size_t k = 0; k < group.size(); ++k) sum += GroupCost(costs, group.subspan(k, 1));
  return sum;
}

}  // namespace stringline
