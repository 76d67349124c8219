// Heads are (B, H, T, D), or before their transpose (B, T, H, D); the transposes met on the way
// back decide which.
#include "executor/torch_model/torch_attention.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

// A mask adds less than this to a hidden position.
constexpr double kHidden = -1e4;

// Counted from the end, 1 for the last dimension; 1 for a missing dimension.
int64_t SizeFromEnd(const HostTensor& tensor, size_t dimension) {
  const std::vector<int64_t>& sizes = tensor.sizes;
  return dimension > sizes.size() ? 1 : sizes[sizes.size() - dimension];
}

// True for a node that joins, or cuts, the last dimension.
bool IsOfLast(const TorchNode& node, size_t dimensions) {
  const double dim = node.Number("dim", 0);
  return dim == -1 || dim == static_cast<double>(dimensions) - 1;
}

}  // namespace

absl::StatusOr<std::optional<TorchAttention>> AttentionMatcher::Match(const std::string& value) {
  const TorchNode* const joined = graph_.Producer(graph_.StripRows(value));
  if (joined == nullptr || joined->Tensor("self").empty()) return std::nullopt;
  if (graph_.Sizes(joined->Tensor("self")).size() != 4) return std::nullopt;
  const TorchNode* const turned = graph_.Producer(graph_.Strip(joined->Tensor("self")));
  if (turned == nullptr || !SwapsDimensions(*turned, 4, 1, 2)) return std::nullopt;
  const std::optional<Parts> parts = PartsOf(turned->Tensor("self"));
  if (!parts) {
    return graph_.UnknownValue(graph_.Strip(turned->Tensor("self")),
                               "no attention without dropout");
  }
  TorchAttention attention;
  attention.node = parts->node;
  SL_ASSIGN_OR_RETURN(attention.queries, HeadsOf(parts->queries));
  SL_ASSIGN_OR_RETURN(attention.keys, HeadsOf(parts->keys));
  SL_ASSIGN_OR_RETURN(attention.values, HeadsOf(parts->values));
  const TorchHeads &q = attention.queries, &k = attention.keys, &v = attention.values;
  const double scale = 1 / std::sqrt(static_cast<double>(q.channels));
  if (std::abs(parts->scale.value_or(scale) - scale) > 1e-5 * scale) {
    return graph_.Unknown(*parts->node,
                          absl::StrCat("its scale is ", *parts->scale, ", not that of heads of ",
                                       q.channels, " channels"));
  }
  if (q.channels != k.channels || q.channels != v.channels || k.heads != v.heads) {
    return graph_.Unknown(*parts->node, "its queries, keys and values have heads of several sizes");
  }
  SL_RETURN_IF_ERROR(CheckSizes(*parts, attention));
  SL_RETURN_IF_ERROR(CheckMask(*parts));
  if (q.theta != k.theta || v.theta != 0 || !v.gamma.empty() ||
      q.gamma.empty() != k.gamma.empty() || q.epsilon != k.epsilon) {
    return graph_.Unknown(*parts->node, "its queries and keys are not treated alike");
  }
  return attention;
}

// Checks heads (B, H, T, D): equal sequences and positions, and no more of them than rows.
absl::Status AttentionMatcher::CheckSizes(const Parts& parts,
                                          const TorchAttention& attention) const {
  const TorchHeads& q = attention.queries;
  for (const auto& [value, heads] :
       {std::pair(&parts.queries, &q), std::pair(&parts.keys, &attention.keys),
        std::pair(&parts.values, &attention.values)}) {
    const std::vector<int64_t>& sizes = graph_.Sizes(*value);
    const bool fit = sizes.size() == 4 && sizes[0] == q.batch && sizes[2] == q.positions &&
                     sizes[3] == q.channels && heads->batch == q.batch &&
                     heads->positions == q.positions &&
                     (sizes[1] == heads->heads || sizes[1] == q.heads);
    if (!fit) {
      return graph_.Unknown(
          *parts.node, absl::StrCat("its input '", *value, "' is no (", q.batch, ", heads, ",
                                    q.positions, ", ", q.channels, ") of the queries' sequences"));
    }
  }
  return absl::OkStatus();
}

std::optional<AttentionMatcher::Parts> AttentionMatcher::PartsOf(const std::string& heads) const {
  const TorchNode* const node = graph_.Producer(graph_.Strip(heads));
  if (node == nullptr) return std::nullopt;
  if (node->op == "matmul" || node->op == "bmm") return WrittenOut(*node);
  if (node->op != "scaled_dot_product_attention") return std::nullopt;
  Parts parts{node, node->Tensor("query"), node->Tensor("key"), node->Tensor("value"),
              node->Tensor("attn_mask")};
  parts.causal = node->Number("is_causal", 0) != 0;
  const TorchArgument* const scale = node->Find("scale");
  if (scale != nullptr && scale->numbers.size() == 1) parts.scale = scale->numbers.front();
  if (node->Number("dropout_p", 0) != 0) return std::nullopt;
  return parts;
}

// softmax(scale q k' + mask) v
std::optional<AttentionMatcher::Parts> AttentionMatcher::WrittenOut(
    const TorchNode& product) const {
  Parts parts;
  parts.node = &product;
  parts.values = product.Tensor("other");
  const TorchNode* softmax = graph_.Match(product.Tensor("self"), "softmax");
  if (softmax == nullptr) softmax = graph_.Match(product.Tensor("self"), "_softmax");
  if (softmax == nullptr) return std::nullopt;
  const double dim = softmax->Number("dim", 0);
  if (dim != -1 && dim != 3) return std::nullopt;
  std::string scores = softmax->Tensor("self");
  if (const auto masked = graph_.MatchPair(scores, "add")) {
    const bool first = graph_.constants().Is(masked->a);
    parts.mask = first ? masked->a : masked->b;
    scores = first ? masked->b : masked->a;
    parts.adds = true;
  } else if (const TorchNode* const fill = graph_.Match(scores, "masked_fill")) {
    if (fill->Number("value", 0) > kHidden) return std::nullopt;
    parts.mask = fill->Tensor("mask");
    scores = fill->Tensor("self");
  }
  parts.scale = 1;
  if (const auto scaled = graph_.MatchNumber(scores, "mul")) {
    scores = scaled->of;
    parts.scale = scaled->number;
  } else if (const auto divided = graph_.MatchNumber(scores, "div")) {
    scores = divided->of;
    parts.scale = 1 / divided->number;
  }
  const TorchNode* const inner = graph_.Match(scores, "matmul");
  if (inner == nullptr) return std::nullopt;
  const TorchNode* const turned = graph_.Producer(graph_.Strip(inner->Tensor("other")));
  if (turned == nullptr || !SwapsDimensions(*turned, 4, 2, 3)) return std::nullopt;
  parts.queries = inner->Tensor("self");
  parts.keys = turned->Tensor("self");
  return parts;
}

absl::Status AttentionMatcher::CheckMask(const Parts& parts) {
  if (parts.mask.empty()) {
    return parts.causal ? absl::OkStatus() : graph_.Unknown(*parts.node, "it has no causal mask");
  }
  if (!graph_.constants().Is(parts.mask)) {
    return graph_.Unknown(*parts.node, absl::StrCat("its mask '", parts.mask,
                                                    "' depends on what the model is given"));
  }
  const auto [known, made] = causal_.emplace(parts.mask, false);
  if (made) {
    SL_ASSIGN_OR_RETURN(const auto mask, graph_.constants().Value(parts.mask));
    const std::vector<int64_t>& sizes = mask->sizes;
    if (sizes.size() < 2) return graph_.Unknown(*parts.node, "its mask has no rows");
    // A mask is true, or 0, at visible positions; a mask that fills scores is true at hidden
    // positions.
    const bool truth = graph_.program().values.at(parts.mask).type == TorchType::kBool;
    const bool fills = truth && parts.node->op != "scaled_dot_product_attention";
    const int64_t columns = sizes.back(), rows = sizes[sizes.size() - 2];
    const bool fits = rows == columns && columns > 1 && columns == graph_.Sizes(parts.keys)[2];
    bool causal = fits && !(truth && parts.adds);
    for (size_t i = 0; causal && i < mask->values.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      const double value = mask->values[i];
      const bool seen = at % columns <= at / columns % rows;
      if (truth) {
        causal = (value != 0) == (seen != fills);
      } else {
        causal = seen ? value == 0 : value <= kHidden;
      }
    }
    known->second = causal;
  }
  if (known->second) return absl::OkStatus();
  return graph_.Unknown(*parts.node, absl::StrCat("its mask '", parts.mask, "' is not causal"));
}

absl::StatusOr<TorchHeads> AttentionMatcher::HeadsOf(std::string value) {
  TorchHeads heads;
  bool turned = true;  // (B, H, T, D)
  for (;;) {
    value = graph_.Strip(value);
    const TorchNode* const node = graph_.Producer(value);
    if (node == nullptr) return graph_.UnknownValue(value, "it is no product's");
    const std::string from = node->Tensor("self");
    const size_t dimensions = from.empty() ? 0 : graph_.Sizes(from).size();
    const bool view = node->op == "view" || node->op == "reshape" || node->op == "_unsafe_view";
    if (node->op == "add") {
      if (heads.theta != 0 || !heads.gamma.empty())
        return graph_.Unknown(*node, "a rotation before another one, or before the norm of heads");
      SL_ASSIGN_OR_RETURN(value, Unturn(*node, turned, &heads.theta));
    } else if (const auto norm = graph_.MatchRmsNorm(value)) {
      if (!heads.gamma.empty()) return graph_.Unknown(*node);
      heads.gamma = norm->gamma;
      heads.epsilon = norm->epsilon;
      value = norm->input;
    } else if (dimensions == 4 && SwapsDimensions(*node, 4, 1, 2)) {
      turned = !turned;
      value = from;
    } else if (view && dimensions == 5) {
      // (B, K, D', T, D): every head K, repeated D' times
      const TorchNode* const expand = graph_.Match(from, "expand");
      const TorchNode* const made =
          expand == nullptr ? nullptr : graph_.Match(expand->Tensor("self"), "unsqueeze");
      if (made == nullptr || made->Number("dim", 0) != 2 || !turned) return graph_.Unknown(*node);
      value = made->Tensor("self");
    } else if (node->op == "repeat_interleave" && node->Number("dim", -1) == 1 && turned) {
      if (node->Number("repeats", 0) < 1) return graph_.Unknown(*node, "a count for each head");
      value = from;
    } else if (view && !turned && dimensions >= 2 && graph_.Sizes(value).size() == 4) {
      heads.rows = from;
      heads.batch = graph_.Sizes(value)[0];
      heads.positions = graph_.Sizes(value)[1];
      heads.heads = graph_.Sizes(value)[2];
      heads.channels = graph_.Sizes(value)[3];
      if (graph_.Sizes(from).back() == heads.heads * heads.channels) return heads;
      return graph_.Unknown(*node, "its rows are no heads side by side");
    } else {
      return graph_.Unknown(*node, "on the way from a product to attention");
    }
  }
}

// Matches (-x2, x1), with x1 and x2 the halves of x: x, or "".
std::string AttentionMatcher::HalvesOf(const std::string& value) const {
  const TorchNode* const joined = graph_.Match(value, "cat");
  const TorchArgument* const halves = joined == nullptr ? nullptr : joined->Find("tensors");
  if (halves == nullptr || halves->tensors.size() != 2) return "";
  if (!IsOfLast(*joined, graph_.Sizes(joined->outputs.front()).size())) return "";
  const TorchNode* const negated = graph_.Match(halves->tensors[0], "neg");
  if (negated == nullptr) return "";
  const std::string upper = graph_.Strip(negated->Tensor("self"));
  const std::string lower = graph_.Strip(halves->tensors[1]);
  const TorchNode *const above = graph_.Producer(upper), *const below = graph_.Producer(lower);
  if (above == nullptr || below == nullptr) return "";
  const std::string x = graph_.Strip(above->Tensor("self"));
  if (x.empty() || graph_.Strip(below->Tensor("self")) != x) return "";
  const int64_t channels = graph_.Sizes(x).back();
  if (graph_.Sizes(upper).back() * 2 != channels || graph_.Sizes(lower).back() * 2 != channels)
    return "";
  const size_t dimensions = graph_.Sizes(x).size();
  if (!IsOfLast(*above, dimensions) || !IsOfLast(*below, dimensions)) return "";
  if (above->op == "slice" && below->op == "slice") {
    const int64_t half = channels / 2;
    const bool right = above->Number("start", 0) == static_cast<double>(half) &&
                       below->Number("start", 0) == 0 && above->Number("step", 1) == 1 &&
                       below->Number("step", 1) == 1;
    return right ? x : "";
  }
  const bool splits =
      above->op == "split" || above->op == "split_with_sizes" || above->op == "chunk";
  const bool both = splits && above == below && above->outputs.size() == 2;
  return both && above->outputs[0] == lower && above->outputs[1] == upper ? x : "";
}

absl::StatusOr<std::string> AttentionMatcher::Unturn(const TorchNode& sum, bool turned,
                                                     double* theta) {
  const auto pair = graph_.MatchPair(sum.outputs.front(), "add");
  if (!pair) return graph_.Unknown(sum);
  for (const auto& [straight, crossed] :
       {std::pair(pair->a, pair->b), std::pair(pair->b, pair->a)}) {
    const auto by_cosine = graph_.MatchPair(straight, "mul");
    const auto by_sine = graph_.MatchPair(crossed, "mul");
    if (!by_cosine || !by_sine) continue;
    const bool first = graph_.constants().Is(by_sine->b);
    const std::string x = HalvesOf(first ? by_sine->a : by_sine->b);
    if (x.empty()) continue;
    const bool second = graph_.constants().Is(by_cosine->b);
    const std::string sines = first ? by_sine->b : by_sine->a;
    const std::string cosines = second ? by_cosine->b : by_cosine->a;
    if (graph_.Strip(second ? by_cosine->a : by_cosine->b) != x) continue;
    if (!graph_.constants().Is(sines) || !graph_.constants().Is(cosines)) continue;
    const std::vector<int64_t>& sizes = graph_.Sizes(x);
    if (sizes.size() != 4) continue;
    const absl::StatusOr<double> found =
        ThetaOf(cosines, sines, turned, sizes[turned ? 2 : 1], sizes[3]);
    if (!found.ok()) return graph_.Unknown(sum, found.status().message());
    *theta = *found;
    return x;
  }
  return graph_.Unknown(sum, "no rotation of halves by constant angles");
}

// Angles of t theta^(-2d/D), for channel d and d + D/2 alike.
absl::StatusOr<double> AttentionMatcher::ThetaOf(const std::string& cosines,
                                                 const std::string& sines, bool turned,
                                                 int64_t positions, int64_t channels) {
  const std::string key = absl::StrCat(cosines, " ", sines);
  if (const auto known = thetas_.find(key); known != thetas_.end()) return known->second;
  SL_ASSIGN_OR_RETURN(const auto cosine, graph_.constants().Value(cosines));
  SL_ASSIGN_OR_RETURN(const auto sine, graph_.constants().Value(sines));
  const auto angle_of = [&](int64_t sequence, int64_t head, int64_t t, int64_t d) {
    const std::vector<int64_t> at = turned ? std::vector<int64_t>{sequence, head, t, d}
                                           : std::vector<int64_t>{sequence, t, head, d};
    return std::pair(cosine->At(at), sine->At(at));
  };
  const int64_t half = channels / 2;
  if (positions < 2 || half < 1) {
    return absl::InvalidArgumentError(
        "angles of one position: export the model with longer sequences");
  }
  double theta = 1e4;
  if (half > 1) {
    const auto [c, s] = angle_of(0, 0, 1, half - 1);
    const double exponent = -static_cast<double>(channels) / (2 * static_cast<double>(half - 1));
    theta = std::pow(std::atan2(s, c), exponent);
    // Theta was computed in float: take the nearby number with few digits.
    const double rounded = std::strtod(absl::StrFormat("%.5g", theta).c_str(), nullptr);
    if (std::abs(rounded - theta) <= 2e-5 * theta) theta = rounded;
  }
  const double bound = 1e-5 + 1e-6 * static_cast<double>(positions);
  const auto size = [&](size_t d) {
    return std::max(SizeFromEnd(*cosine, d), SizeFromEnd(*sine, d));
  };
  const int64_t sequences = size(4), heads = size(turned ? 3 : 2);
  for (int64_t i = 0; i < sequences * heads * positions * channels; ++i) {
    const int64_t d = i % channels, t = i / channels % positions;
    const int64_t head = i / channels / positions % heads;
    const double power = -2 * static_cast<double>(d % half) / static_cast<double>(channels);
    const double angle = static_cast<double>(t) * std::pow(theta, power);
    const auto [c, s] = angle_of(i / channels / positions / heads, head, t, d);
    const double off = std::abs(c - std::cos(angle)) + std::abs(s - std::sin(angle));
    if (!(off <= bound)) {
      return absl::InvalidArgumentError(absl::StrCat("the angle of position ", t, " and channel ",
                                                     d, " is not ", t, " theta^(-2 ", d % half,
                                                     " / ", channels, "), theta = ", theta));
    }
  }
  thetas_[key] = theta;
  return theta;
}

}  // namespace stringline
