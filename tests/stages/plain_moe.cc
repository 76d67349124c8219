// Each token's row goes through the model alone: attention reads the rows before it, and its chosen
// experts are called in place. Choices are found by sorting, or given by the caller, so that losses
// can be compared under a change of parameters alone.
#include "tests/stages/plain_moe.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace stringline::plain {
namespace {

using Rows = std::vector<Numbers>;

class Model {
 public:
  Model(const DecoderShape& shape, const std::map<std::string, Numbers>& params,
        std::vector<Routing>* routing)
      : shape_(shape), params_(params), routing_(routing), choose_(routing->empty()) {}

  Result Loss(const std::vector<int>& tokens, const std::vector<int>& targets);

 private:
  const Numbers& At(const std::string& name) const { return params_.at(name + ".weight"); }
  // W x for row-major weights from `first` on.
  static Numbers Times(const Numbers& w, size_t first, size_t rows, const Numbers& x);
  Numbers Linear(const std::string& name, const Numbers& x) const {
    return Times(At(name), 0, At(name).size() / x.size(), x);
  }
  Numbers Norm(const std::string& name, const Numbers& x) const;
  void Rotate(Numbers* qkv, int position) const;
  Rows Attention(const Rows& qkv) const;
  void Experts(const std::string& name, const Rows& h, Rows* x);
  Routing Choose(const Numbers& bias, const Rows& scores);
  std::vector<int> Best(const Numbers& numbers, int count);
  static Numbers Swiglu(const Numbers& gate_up);

  const DecoderShape& shape_;
  const std::map<std::string, Numbers>& params_;
  std::vector<Routing>* routing_;
  const bool choose_;
  size_t moe_layer_ = 0;
  Result result_;
};

Numbers Softmax(Numbers x) {
  const double most = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (double& v : x) sum += v = std::exp(v - most);
  for (double& v : x) v /= sum;
  return x;
}

void Add(const Numbers& from, double factor, Numbers* to) {
  for (size_t i = 0; i < to->size(); ++i) (*to)[i] += factor * from[i];
}

Numbers Model::Times(const Numbers& w, size_t first, size_t rows, const Numbers& x) {
  Numbers y(rows, 0);
  for (size_t o = 0; o < rows; ++o) {
    for (size_t k = 0; k < x.size(); ++k) y[o] += w[first + o * x.size() + k] * x[k];
  }
  return y;
}

Numbers Model::Norm(const std::string& name, const Numbers& x) const {
  double squares = 0;
  for (double v : x) squares += v * v;
  Numbers y = x;
  const double scale = 1 / std::sqrt(squares / double(x.size()) + shape_.norm_epsilon);
  for (size_t c = 0; c < x.size(); ++c) y[c] *= scale * At(name)[c];
  return y;
}

// Channels d and d + D/2 of each head of queries and keys.
void Model::Rotate(Numbers* qkv, int position) const {
  const int size = shape_.head_dim;
  for (int h = 0; h < shape_.heads + shape_.kv_heads; ++h) {
    for (int d = 0; d < size / 2; ++d) {
      const double angle = position * std::pow(shape_.rope_theta, -2.0 * d / size);
      double& a = (*qkv)[h * size + d];
      double& b = (*qkv)[h * size + d + size / 2];
      const double turned = a * std::cos(angle) - b * std::sin(angle);
      b = a * std::sin(angle) + b * std::cos(angle);
      a = turned;
    }
  }
}

Rows Model::Attention(const Rows& qkv) const {
  const int size = shape_.head_dim, group = shape_.heads / shape_.kv_heads;
  Rows y(qkv.size(), Numbers(shape_.heads * size, 0));
  for (size_t t = 0; t < qkv.size(); ++t) {
    const size_t start = t / shape_.context * shape_.context;  // the sequence's
    for (int h = 0; h < shape_.heads; ++h) {
      const int key = (shape_.heads + h / group) * size;
      const int value = key + shape_.kv_heads * size;
      Numbers scores;
      for (size_t s = start; s <= t; ++s) {
        double dot = 0;
        for (int d = 0; d < size; ++d) dot += qkv[t][h * size + d] * qkv[s][key + d];
        scores.push_back(dot / std::sqrt(1.0 * size));
      }
      const Numbers shares = Softmax(scores);
      for (size_t s = start; s <= t; ++s) {
        for (int d = 0; d < size; ++d) y[t][h * size + d] += shares[s - start] * qkv[s][value + d];
      }
    }
  }
  return y;
}

Numbers Model::Swiglu(const Numbers& gate_up) {
  Numbers y(gate_up.size() / 2);
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] = gate_up[i] / (1 + std::exp(-gate_up[i])) * gate_up[y.size() + i];
  }
  return y;
}

// Indices of the `count` largest, the lower of two equal ones first.
std::vector<int> Model::Best(const Numbers& numbers, int count) {
  std::vector<int> order(numbers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return numbers[a] > numbers[b]; });
  for (int i = 0; i < count && i + 1 < static_cast<int>(order.size()); ++i) {
    result_.gap = std::min(result_.gap, numbers[order[i]] - numbers[order[i + 1]]);
  }
  order.resize(count);
  return order;
}

Routing Model::Choose(const Numbers& bias, const Rows& scores) {
  const MoeShape& moe = shape_.moe;
  const int size = moe.experts / moe.groups;
  const double even = double(scores.size()) * moe.top_k / moe.experts;
  const double most = moe.capacity == 0 ? 1e18 : std::ceil(moe.capacity * even);
  Routing routing;
  routing.load.assign(moe.experts, 0);
  for (const Numbers& row : scores) {
    Numbers biased = row;
    if (!bias.empty()) Add(bias, 1, &biased);
    if (moe.groups > 1) {
      Numbers groups;
      for (int g = 0; g < moe.groups; ++g) {
        const Numbers own(biased.begin() + g * size, biased.begin() + (g + 1) * size);
        groups.push_back(0);
        for (int e : Best(own, moe.group_best)) groups.back() += own[e];
      }
      const std::vector<int> open = Best(groups, moe.top_groups);
      for (int e = 0; e < moe.experts; ++e) {
        if (std::count(open.begin(), open.end(), e / size) == 0) biased[e] = -1e9;
      }
    }
    routing.choice.push_back(Best(biased, moe.top_k));
    routing.taken.emplace_back();
    for (int e : routing.choice.back()) routing.taken.back().push_back(++routing.load[e] <= most);
  }
  return routing;
}

void Model::Experts(const std::string& name, const Rows& h, Rows* x) {
  const MoeShape& moe = shape_.moe;
  const size_t width = shape_.width, hidden = moe.expert_hidden;
  Rows scores, shares;
  for (const Numbers& row : h) {
    const Numbers logits = Linear(name + "router", row);
    shares.push_back(Softmax(logits));
    scores.push_back(shares.back());
    if (moe.scores == RouterScores::kSoftmax) continue;
    for (int e = 0; e < moe.experts; ++e) scores.back()[e] = 1 / (1 + std::exp(-logits[e]));
  }
  if (choose_) {
    const auto bias = params_.find(name + "router.bias");
    routing_->push_back(Choose(bias == params_.end() ? Numbers() : bias->second, scores));
  }
  const Routing& routing = (*routing_)[moe_layer_++];
  double aux = 0;
  int dropped = 0;
  for (size_t n = 0; n < h.size(); ++n) {
    double sum = 0;
    for (int e : routing.choice[n]) sum += scores[n][e];
    for (int k = 0; k < moe.top_k; ++k) {
      if (!routing.taken[n][k]) {
        ++dropped;
        continue;
      }
      const size_t e = routing.choice[n][k];
      const double weight = moe.scale * scores[n][e] / (moe.normalise ? sum : 1);
      const Numbers inner =
          Swiglu(Times(At(name + "experts.gate_up"), e * 2 * hidden * width, 2 * hidden, h[n]));
      Add(Times(At(name + "experts.down"), e * width * hidden, width, inner), weight, &(*x)[n]);
    }
    if (moe.shared_hidden > 0) {
      const Numbers inner = Swiglu(Linear(name + "shared.gate_up", h[n]));
      Add(Linear(name + "shared.down", inner), 1, &(*x)[n]);
    }
    for (int e = 0; e < moe.experts; ++e) {
      aux += moe.aux_coefficient * moe.experts * routing.load[e] / double(h.size() * moe.top_k) *
             shares[n][e];
    }
  }
  result_.aux_losses.push_back(aux);
  result_.dropped.push_back(dropped);
}

Result Model::Loss(const std::vector<int>& tokens, const std::vector<int>& targets) {
  const size_t width = shape_.width;
  Rows x;
  for (int token : tokens) {
    const auto row = At("embedding").begin() + static_cast<int64_t>(token * width);
    x.emplace_back(row, row + static_cast<int64_t>(width));
  }
  for (int l = 0; l < shape_.layers; ++l) {
    const std::string name = "layers." + std::to_string(l) + ".";
    Rows qkv, h;
    for (size_t t = 0; t < x.size(); ++t) {
      qkv.push_back(Linear(name + "attention.qkv", Norm(name + "norm1", x[t])));
      Rotate(&qkv.back(), static_cast<int>(t) % shape_.context);
    }
    const Rows mixed = Attention(qkv);
    for (size_t t = 0; t < x.size(); ++t) {
      Add(Linear(name + "attention.projection", mixed[t]), 1, &x[t]);
      h.push_back(Norm(name + "norm2", x[t]));
    }
    if (l >= shape_.moe.first_dense) {
      Experts(name, h, &x);
      continue;
    }
    for (size_t t = 0; t < x.size(); ++t) {
      Add(Linear(name + "mlp.down", Swiglu(Linear(name + "mlp.gate_up", h[t]))), 1, &x[t]);
    }
  }
  for (size_t t = 0; t < x.size(); ++t) {
    result_.loss -= std::log(Softmax(Linear("head", Norm("norm", x[t])))[targets[t]]);
  }
  return result_;
}

}  // namespace

Result Loss(const DecoderShape& shape, const std::map<std::string, Numbers>& params,
            const std::vector<int>& tokens, const std::vector<int>& targets,
            std::vector<Routing>* routing) {
  return Model(shape, params, routing).Loss(tokens, targets);
}

}  // namespace stringline::plain
