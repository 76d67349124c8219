// First the allowed sizes and their costs; then a layer, op by op: route, plan, dispatch, the
// products by expert, combine, sum. Counts of rows are known only at run time, so shapes have the
// largest possible number of rows.
#include "stages/models/moe.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"

namespace stringline {

absl::Status CheckMoe(const DecoderShape& shape) {
  const MoeShape& moe = shape.moe;
  if (moe == MoeShape{}) return absl::OkStatus();
  const std::tuple<const char*, int, int> sizes[] = {{"experts", moe.experts, 1},
                                                     {"top_k", moe.top_k, 1},
                                                     {"expert_hidden", moe.expert_hidden, 1},
                                                     {"shared_hidden", moe.shared_hidden, 0},
                                                     {"first_dense", moe.first_dense, 0},
                                                     {"groups", moe.groups, 1},
                                                     {"top_groups", moe.top_groups, 1},
                                                     {"group_best", moe.group_best, 1}};
  for (const auto& [name, size, least] : sizes) {
    if (size >= least && size <= 1 << 20) continue;
    return absl::InvalidArgumentError(absl::StrCat("a mixture of experts with ", name, " ", size,
                                                   ": not in ", least, " .. ", 1 << 20));
  }
  if (moe.experts % moe.groups != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(moe.experts, " experts do not divide into ", moe.groups, " groups"));
  }
  const int of_group = moe.experts / moe.groups;
  if (moe.top_groups > moe.groups || moe.group_best > of_group) {
    return absl::InvalidArgumentError(absl::StrCat("the best ", moe.top_groups, " of ", moe.groups,
                                                   " groups, by the best ", moe.group_best, " of ",
                                                   of_group, " experts"));
  }
  if (moe.top_k > moe.top_groups * of_group) {
    return absl::InvalidArgumentError(
        absl::StrCat("a token chooses ", moe.top_k, " experts of ", moe.top_groups * of_group));
  }
  if (!(moe.scale > 0) || !(moe.balance_rate >= 0) || !(moe.aux_coefficient >= 0) ||
      !(moe.capacity >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a mixture of experts with scale ", moe.scale, ", balance_rate ", moe.balance_rate,
        ", aux_coefficient ", moe.aux_coefficient, " and capacity ", moe.capacity));
  }
  return absl::OkStatus();
}

absl::Status CheckExpertRanks(const DecoderShape& shape, int expert_ranks) {
  if (shape.moe.experts == 0) return CheckNotShared(expert_ranks);
  if (expert_ranks < 1 || shape.moe.experts % expert_ranks != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        shape.moe.experts, " experts cannot be shared out among ", expert_ranks, " ranks"));
  }
  const int64_t rows = RowsPerRank(shape, expert_ranks);
  const int64_t widest = std::max<int64_t>(shape.width, 2 * int64_t{shape.moe.expert_hidden});
  const int64_t slots = shape.tokens() * shape.moe.top_k;
  if (std::max(rows, slots) <= (int64_t{1} << 31) / widest) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the experts of a rank may receive ", rows, " rows of a microbatch of ", slots,
                   " choices: more than 2^31 elements, ", widest, " a row"));
}

int64_t RowsPerExpert(const DecoderShape& shape) {
  const MoeShape& moe = shape.moe;
  if (moe.capacity == 0) return shape.tokens();
  const double even = static_cast<double>(shape.tokens() * moe.top_k) / moe.experts;
  const double rows = std::ceil(moe.capacity * even);
  return rows < static_cast<double>(shape.tokens())
             ? std::max<int64_t>(1, static_cast<int64_t>(rows))
             : shape.tokens();
}

int64_t RowsPerRank(const DecoderShape& shape, int expert_ranks) {
  const int64_t experts = shape.moe.experts / expert_ranks;
  return expert_ranks * std::min(experts * RowsPerExpert(shape),
                                 shape.tokens() * std::min<int64_t>(shape.moe.top_k, experts));
}

int64_t CountMoeParams(const DecoderShape& shape) {
  const MoeShape& moe = shape.moe;
  const int64_t width = shape.width;
  return moe.experts * (width + (moe.balance_rate == 0 ? 0 : 1)) +
         3 * width * (int64_t{moe.experts} * moe.expert_hidden + moe.shared_hidden);
}

double MoeWorkPerToken(const DecoderShape& shape) {
  const MoeShape& moe = shape.moe;
  const double hidden = static_cast<double>(moe.top_k) * moe.expert_hidden + moe.shared_hidden;
  return 2.0 * shape.width * (moe.experts + 3 * hidden);
}

ValueId MoeStage::MlpHalf(ValueId x, int layer, const std::string& name) {
  const MoeShape& moe = shape_.moe;
  if (layer < moe.first_dense) return DecoderStage::MlpHalf(x, layer, name);
  const ValueId h = Norm(x, name + "norm2");
  const Routed routed = Route(h, name);
  if (moe.shared_hidden > 0) {
    x = Mlp(h, name + "shared", moe.shared_hidden, x, name + "beside");
  }
  const ValueId y = Experts(h, routed, Plan(routed.choice, name), name);
  ++moe_layers_;
  return builder_.Append(Op::kAdd, {x, y}, {}, name + "output");
}

MoeStage::Routed MoeStage::Route(ValueId h, const std::string& name) {
  const MoeShape& moe = shape_.moe;
  // Route in fp32: rounding in bf16 would change which experts are chosen.
  const bool wide = builder_.TypeOf(h).dtype == DType::kF32;
  if (!wide) h = builder_.Append(Op::kCast, {h}, {32}, name + "router.input");
  const ValueId logits = Linear(h, name + "router", moe.experts);
  stage_.params.back().eager = true;  // small, and its sources would have to be kept long
  ValueId bias;
  if (moe.balance_rate == 0) {
    bias = builder_.Append(Op::kConstant, {}, {0}, name + "router.no_bias");
  } else {
    bias = Vector(name + "router.bias", moe.experts, Init::kZeros);
    stage_.params.back().update = Update::kBalance;
  }
  const std::vector<ValueId> routed = builder_.AppendAll(
      Op::kRoute, {logits, bias},
      {static_cast<double>(moe.top_k), static_cast<double>(moe.scores),
       static_cast<double>(moe.normalise), moe.scale, static_cast<double>(moe.groups),
       static_cast<double>(moe.top_groups), static_cast<double>(moe.group_best)},
      name + "route");
  if (moe.aux_coefficient != 0) {
    AddOutput(Role::kAuxLoss, moe_layers_,
              builder_.Append(Op::kBalanceLoss, {logits, routed[1]}, {moe.aux_coefficient},
                              name + "balance_loss"));
  }
  return {routed[0], routed[1]};
}

MoeStage::Way MoeStage::Plan(ValueId choice, const std::string& name) {
  const MoeShape& moe = shape_.moe;
  const double capacity = moe.capacity == 0 ? 0 : static_cast<double>(RowsPerExpert(shape_));
  const std::vector<ValueId> plan = builder_.AppendAll(
      Op::kDispatchPlan, {choice}, {static_cast<double>(moe.experts), capacity}, name + "plan");
  if (moe.capacity != 0) AddOutput(Role::kDropped, moe_layers_, plan[2]);
  const ValueId received = builder_.Append(Op::kAllToAllCounts, {plan[1]},
                                           {static_cast<double>(expert_ranks_)}, name + "received");
  return {plan[0], plan[1], received};
}

ValueId MoeStage::Experts(ValueId h, const Routed& routed, const Way& way,
                          const std::string& name) {
  const int64_t hidden = shape_.moe.expert_hidden;
  const double rows = static_cast<double>(RowsPerRank(shape_, expert_ranks_));
  const double slots = static_cast<double>(shape_.tokens() * shape_.moe.top_k);
  const auto dispatch = [&](ValueId x, const std::string& result) {
    return builder_.Append(Op::kDispatch, {x, way.counts, way.received}, {rows}, name + result);
  };
  ValueId x = builder_.Append(Op::kGatherRows, {h, way.order}, {}, name + "rows");
  ValueId weight =
      builder_.Append(Op::kGatherWeights, {routed.weight, way.order}, {}, name + "weights");
  x = dispatch(x, "dispatch");
  weight = dispatch(weight, "dispatch_weights");
  const ValueId gate_up = ExpertWeights(name + "experts.gate_up", 2 * hidden, shape_.width,
                                        static_cast<float>(shape_.init_stddev));
  x = builder_.Append(Op::kGroupedLinear, {x, gate_up, way.received}, {}, name + "experts.gate_up");
  x = builder_.Append(Op::kExpertSwiglu, {x, weight, way.received}, {}, name + "experts.swiglu");
  const ValueId down = ExpertWeights(name + "experts.down", shape_.width, hidden, EndStddev());
  x = builder_.Append(Op::kGroupedLinear, {x, down, way.received}, {}, name + "experts.down");
  x = builder_.Append(Op::kCombine, {x, way.counts, way.received}, {slots}, name + "combine");
  return builder_.Append(Op::kSumRows, {x, way.order}, {}, name + "experts");
}

ValueId MoeStage::ExpertWeights(const std::string& name, int64_t rows, int64_t columns,
                                float stddev) {
  Param param{name + ".weight",
              {Activation().dtype, {shape_.moe.experts / expert_ranks_, rows, columns}}};
  param.init = Init::kNormal;
  param.stddev = stddev;
  param.decay = true;
  param.expert = true;
  return AddParam(std::move(param));
}

}  // namespace stringline
