// Names that share memory are a single tensor, identified by the first of them; the parameter takes
// the name within the module that uses it.
#include "executor/torch_model/raised_params.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/checkpoint/tensor_header.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr float kRaisedStddev = 0.02f;

// "layers.0.attn." and ".weight" around "q", "k", "v": "layers.0.attn.q_k_v.weight".
std::string JoinNames(const std::vector<std::string>& names) {
  size_t front = 0, back = 0;
  const std::string& first = names.front();
  const auto all = [&](auto same) { return std::all_of(names.begin(), names.end(), same); };
  while (
      all([&](const std::string& of) { return front < of.size() && of[front] == first[front]; })) {
    if (++front == first.size()) return first;
  }
  front = first.rfind('.', front == 0 ? 0 : front - 1) + 1;  // none: 0
  while (all([&](const std::string& of) {
    return back < of.size() - front && of[of.size() - 1 - back] == first[first.size() - 1 - back];
  })) {
    ++back;
  }
  const size_t dot = first.find('.', first.size() - back);
  back = dot == std::string::npos ? 0 : first.size() - dot;
  std::vector<std::string> middles;
  for (const std::string& of : names) middles.push_back(of.substr(front, of.size() - back - front));
  return absl::StrCat(first.substr(0, front), absl::StrJoin(middles, "_"),
                      first.substr(first.size() - back));
}

// The rows of a tensor (out, in), or (in, out) if transposed; with more dimensions all sizes before
// the last one make up the rows.
int64_t RowsOf(const std::vector<int64_t>& sizes, bool transposed) {
  if (sizes.size() == 2 && transposed) return sizes[1];
  int64_t rows = sizes.size() == 1 ? sizes[0] : 1;
  for (size_t d = 0; d + 1 < sizes.size(); ++d) rows *= sizes[d];
  return rows;
}

// True for parameters without gradients; Unimplemented for some with and some without.
absl::StatusOr<bool> AreFrozen(const TorchProgram& program,
                               const std::vector<std::string>& values) {
  const bool frozen = program.frozen.count(values.front()) > 0;
  for (const std::string& value : values) {
    if ((program.frozen.count(value) > 0) == frozen) continue;
    return absl::UnimplementedError(
        absl::StrCat("parameters ", Quoted(program.params.at(values.front())), " and ",
                     Quoted(program.params.at(value)), " of one product, of which one is frozen"));
  }
  return frozen;
}

}  // namespace

RaisedParams::RaisedParams(const TorchGraph& graph, const Pt2Archive& archive, Builder* builder)
    : graph_(graph), archive_(archive), builder_(*builder) {}

std::vector<std::string> RaisedParams::NamesOf(const std::string& value) const {
  if (!graph_.IsParam(value)) return {graph_.program().constants.at(value)};  // a buffer
  const std::string& name = graph_.program().params.at(value);
  const auto own = archive_.tensors().find(name);
  if (own == archive_.tensors().end()) return {name};
  std::vector<std::string> names;
  for (const auto& [parameter, other] : graph_.program().params) {
    const auto found = archive_.tensors().find(other);
    if (found == archive_.tensors().end() || found->second.file != own->second.file) continue;
    const bool same = found->second.offset == own->second.offset &&
                      found->second.sizes == own->second.sizes &&
                      found->second.strides == own->second.strides;
    if (same) names.push_back(other);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string RaisedParams::NameFor(const std::vector<std::vector<std::string>>& names,
                                  const std::string& module) const {
  std::vector<std::string> chosen;
  for (const std::vector<std::string>& of : names) {
    const auto here = std::find_if(of.begin(), of.end(), [&](const std::string& name) {
      return absl::StartsWith(name, module + ".");
    });
    chosen.push_back(here == of.end() ? of.front() : *here);
  }
  return JoinNames(chosen);
}

absl::StatusOr<ValueId> RaisedParams::Take(const std::vector<std::string>& values, ParamUse use,
                                           const std::string& module, bool transposed,
                                           int64_t positions) {
  std::vector<std::vector<std::string>> names;
  RaisedParam raised;
  raised.transposed = transposed;
  raised.positions = use == ParamUse::kPositions;
  int64_t rows = 0;
  for (const std::string& value : values) {
    const std::vector<int64_t>& sizes = graph_.Sizes(value);
    names.push_back(NamesOf(value));
    raised.parts.push_back({names.back(), RowsOf(sizes, transposed)});
    rows += raised.parts.back().rows;
    if (raised.positions) {
      SL_ASSIGN_OR_RETURN(std::vector<float> all, archive_.Floats(names.back().front()));
      raised.parts.back().values = std::make_shared<const std::vector<float>>(std::move(all));
    }
  }
  const std::vector<int64_t>& sizes = graph_.Sizes(values.front());
  Type& type = raised.param.type;
  type.shape = {raised.positions ? positions : rows};
  if (sizes.size() == 2) type.shape.push_back(sizes[transposed ? 0 : 1]);
  if (sizes.empty() || sizes.size() > 2) type.shape = sizes;
  std::string as = absl::StrCat(transposed, raised.positions);
  for (const std::vector<std::string>& of : names) absl::StrAppend(&as, " ", of.front());

  SL_ASSIGN_OR_RETURN(const bool frozen, AreFrozen(graph_.program(), values));
  const std::set<std::vector<std::string>> different(names.begin(), names.end());
  if (different.size() < names.size()) {
    return absl::UnimplementedError(absl::StrCat("parameter ", Quoted(names.front().front()),
                                                 " is used twice in one product, in module ",
                                                 Quoted(module)));
  }
  Taken taken{kNone, NameFor(names, module), as, use};
  for (const std::vector<std::string>& of : names) {
    const std::vector<Taken>& before = taken_[of.front()];
    if (before.empty()) continue;
    if (before.front().as != as) {
      return absl::UnimplementedError(absl::StrCat(
          "parameter ", Quoted(of.front()), " is used in two ways, in module ", Quoted(module),
          " not as before; a table of tokens and the matrix of a product may be one"));
    }
    const auto alike = std::find_if(before.begin(), before.end(), [&](const Taken& one) {
      return (one.use == ParamUse::kTable) == (use == ParamUse::kTable);
    });
    const bool copies = use == ParamUse::kHead || alike == before.end();
    if (before.size() > 1 || !copies) {
      return (alike == before.end() ? before.back() : *alike).value;
    }
    raised.param.tied_to = before.front().name;
    if (taken.name == before.front().name) absl::StrAppend(&taken.name, ".head");
  }
  raised.param.name = taken.name;
  raised.param.frozen = frozen;
  raised.param.decay = type.shape.size() > 1 && !frozen;
  raised.param.eager = use == ParamUse::kHead;
  if (type.shape.size() > 1) {
    raised.param.init = Init::kNormal;
    raised.param.stddev = kRaisedStddev;
  } else if (use == ParamUse::kNorm || use == ParamUse::kVariance) {
    raised.param.init = Init::kOnes;
  }
  taken.value = builder_.Input(Role::kParam, static_cast<int>(params_.size()), type, taken.name);
  params_.push_back(std::move(raised));
  for (const std::vector<std::string>& of : names) taken_[of.front()].push_back(taken);
  return taken.value;
}

absl::StatusOr<ValueId> RaisedParams::TakeAverage(const std::string& value, ParamUse use,
                                                  double momentum, const std::string& module) {
  const size_t before = params_.size();
  SL_ASSIGN_OR_RETURN(const ValueId taken, Take({value}, use, module));
  if (params_.size() == before) {
    return absl::UnimplementedError(absl::StrCat("buffer ", Quoted(NamesOf(value).front()),
                                                 " is averaged twice in a forward, in module ",
                                                 Quoted(module), " not for the first time"));
  }
  Param& param = params_.back().param;
  param.update = Update::kAverage;
  param.momentum = momentum;
  return taken;
}

}  // namespace stringline
