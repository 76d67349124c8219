// The forward keeps the inputs of the backward; the backward of each piece is below its forward.
// Gradients are added up over all sequences and divided by the predicted tokens once, then AdamW
// updates every number of every parameter.
#include "tests/executor/plain_training.h"

#include <cmath>

namespace stringline::plain {
namespace {

constexpr double kPi = 3.141592653589793;
constexpr double kNormEpsilon = 1e-5;

// The scrambling of SplitMix64, without and with its step.
uint64_t Scramble(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
constexpr uint64_t kStride = 0x9e3779b97f4a7c15u;
uint64_t SplitMix(uint64_t z) { return Scramble(z + kStride); }

uint64_t Fnv1a(const std::string& name) {
  uint64_t hash = 14695981039346656037u;
  for (const char letter : name) {
    hash ^= static_cast<uint8_t>(letter);
    hash *= 1099511628211u;
  }
  return hash;
}

// The 53 upper bits, in the middle of their interval.
double Fraction(uint64_t bits) { return (static_cast<double>(bits >> 11) + 0.5) / 0x1p53; }

Matrix Sum(const Matrix& a, const Matrix& b) {
  Matrix sum = a;
  for (size_t i = 0; i < sum.at.size(); ++i) sum.at[i] += b.at[i];
  return sum;
}

double Dot(const double* a, const double* b, int count) {
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

// to += factor * from
void AddTo(double* to, double factor, const double* from, int count) {
  for (int i = 0; i < count; ++i) to[i] += factor * from[i];
}

double GeluAngle(double x) { return std::sqrt(2 / kPi) * (x + 0.044715 * x * x * x); }

Matrix Gelu(const Matrix& x) {
  Matrix y = x;
  for (double& v : y.at) v = v / 2 * (1 + std::tanh(GeluAngle(v)));
  return y;
}

Matrix GeluBackward(const Matrix& dy, const Matrix& x) {
  Matrix dx = dy;
  for (size_t i = 0; i < dx.at.size(); ++i) {
    const double v = x.at[i], t = std::tanh(GeluAngle(v));
    const double slope = std::sqrt(2 / kPi) * (1 + 3 * 0.044715 * v * v);
    dx.at[i] *= (1 + t) / 2 + v / 2 * (1 - t * t) * slope;
  }
  return dx;
}

// The loss of one position; turns its logits into their gradient.
double CrossEntropy(double* logits, int count, int target) {
  double most = logits[0], sum = 0;
  for (int v = 0; v < count; ++v) most = std::max(most, logits[v]);
  for (int v = 0; v < count; ++v) sum += std::exp(logits[v] - most);
  const double loss = most + std::log(sum) - logits[target];
  for (int v = 0; v < count; ++v) logits[v] = std::exp(logits[v] - most) / sum;
  logits[target] -= 1;
  return loss;
}

}  // namespace

Training::Training(const Settings& settings, const std::string& text)
    : settings_(settings), text_(text) {
  const int width = settings.width;
  const double end_of_branch = 0.02 / std::sqrt(2.0 * settings.layers);
  AddMatrix("embedding.weight", settings.vocabulary, width, 0.02);
  AddMatrix("position.weight", settings.context, width, 0.02);
  for (int l = 0; l < settings.layers; ++l) {
    const std::string name = "layers." + std::to_string(l) + ".";
    for (const char* const norm : {"norm1", "norm2"}) {
      AddVector(name + norm + ".weight", width, 1);
      AddVector(name + norm + ".bias", width, 0);
    }
    AddMatrix(name + "attention.qkv.weight", 3 * width, width, 0.02);
    AddVector(name + "attention.qkv.bias", 3 * width, 0);
    AddMatrix(name + "attention.projection.weight", width, width, end_of_branch);
    AddVector(name + "attention.projection.bias", width, 0);
    AddMatrix(name + "mlp.up.weight", 4 * width, width, 0.02);
    AddVector(name + "mlp.up.bias", 4 * width, 0);
    AddMatrix(name + "mlp.down.weight", width, 4 * width, end_of_branch);
    AddVector(name + "mlp.down.bias", width, 0);
  }
  AddVector("norm.weight", width, 1);
  AddVector("norm.bias", width, 0);
  AddMatrix("head.weight", settings.vocabulary, width, 0.02);
}

// The cosine of each of Box and Muller's pairs.
void Training::AddMatrix(const std::string& name, int rows, int columns, double deviation) {
  Weight& weight = weights_[name];
  weight.is_matrix = true;
  weight.value = weight.gradient = weight.moment1 = weight.moment2 = Matrix(rows, columns);
  const uint64_t key = Scramble(SplitMix(settings_.seed) ^ Fnv1a(name));
  for (uint64_t i = 0; i < weight.value.at.size(); ++i) {
    const double radius = Fraction(SplitMix(key + 2 * i * kStride));
    const double angle = Fraction(SplitMix(key + (2 * i + 1) * kStride));
    weight.value.at[i] = deviation * std::sqrt(-2 * std::log(radius)) * std::cos(2 * kPi * angle);
  }
}

void Training::AddVector(const std::string& name, int size, double value) {
  Weight& weight = weights_[name];
  weight.value = weight.gradient = weight.moment1 = weight.moment2 = Matrix(1, size);
  weight.value.at.assign(size, value);
}

Batch Training::BatchOf(int64_t step, int microbatch) const {
  Batch batch;
  for (int sequence = 0; sequence < settings_.sequences; ++sequence) {
    uint64_t hash = SplitMix(settings_.seed);
    hash = SplitMix(hash ^ static_cast<uint64_t>(step));
    hash = SplitMix(hash ^ static_cast<uint64_t>(microbatch));
    hash = SplitMix(hash ^ static_cast<uint64_t>(sequence));
    const size_t from = hash % (text_.size() - settings_.context);
    for (int t = 0; t < settings_.context; ++t) {
      batch.tokens.push_back(static_cast<uint8_t>(text_[from + t]));
      batch.targets.push_back(static_cast<uint8_t>(text_[from + t + 1]));
    }
    AddPieces(from, &batch);
  }
  return batch;
}

// The pieces of a window, which ends with the batch's last token.
void Training::AddPieces(size_t from, Batch* batch) const {
  const size_t end = from + settings_.context, first = batch->tokens.size() - settings_.context;
  size_t done = from, document = 0;
  for (const size_t length : settings_.documents) {
    document += length;
    if (document <= from || document > end) continue;
    batch->lengths.push_back(static_cast<int>(document - done));
    batch->targets[first + (document - from) - 1] = kNothing;
    done = document;
  }
  if (done < end) batch->lengths.push_back(static_cast<int>(end - done));
}

double Training::Gradients(int64_t step) {
  for (auto& [name, weight] : weights_) weight.gradient.at.assign(weight.gradient.at.size(), 0);
  double loss = 0, predicted = 0;
  for (int m = 0; m < settings_.microbatches; ++m) {
    const Batch batch = BatchOf(step, m);
    int first = 0;
    for (const int length : batch.lengths) {
      loss += Sequence(batch.tokens.data() + first, batch.targets.data() + first, length);
      first += length;
    }
    for (const int target : batch.targets) predicted += target == kNothing ? 0 : 1;
  }
  for (auto& [name, weight] : weights_) {
    for (double& g : weight.gradient.at) g /= predicted;
  }
  return loss / predicted;
}

double Training::Sequence(const int* tokens, const int* targets, int context) {
  const int width = settings_.width;
  Weight& embedding = weights_["embedding.weight"];
  Weight& position = weights_["position.weight"];
  Weight& head = weights_["head.weight"];
  Matrix x(context, width);
  for (int t = 0; t < context; ++t) {
    AddTo(x.row(t), 1, embedding.value.row(tokens[t]), width);
    AddTo(x.row(t), 1, position.value.row(t), width);
  }
  std::vector<Layer> layers(settings_.layers);
  for (int l = 0; l < settings_.layers; ++l) {
    x = LayerForward("layers." + std::to_string(l) + ".", x, &layers[l]);
  }
  const Normed last = Norm("norm", x);

  double loss = 0;
  Matrix dlast(context, width);
  std::vector<double> logits(settings_.vocabulary);
  for (int t = 0; t < context; ++t) {
    if (targets[t] == kNothing) continue;
    for (int v = 0; v < settings_.vocabulary; ++v) {
      logits[v] = Dot(last.out.row(t), head.value.row(v), width);
    }
    loss += CrossEntropy(logits.data(), settings_.vocabulary, targets[t]);
    for (int v = 0; v < settings_.vocabulary; ++v) {
      AddTo(dlast.row(t), logits[v], head.value.row(v), width);
      AddTo(head.gradient.row(v), logits[v], last.out.row(t), width);
    }
  }
  Matrix dx = NormBackward("norm", dlast, last);
  for (int l = settings_.layers - 1; l >= 0; --l) {
    dx = LayerBackward("layers." + std::to_string(l) + ".", dx, layers[l]);
  }
  for (int t = 0; t < context; ++t) {
    AddTo(embedding.gradient.row(tokens[t]), 1, dx.row(t), width);
    AddTo(position.gradient.row(t), 1, dx.row(t), width);
  }
  return loss;
}

Matrix Training::LayerForward(const std::string& name, const Matrix& x, Layer* kept) {
  kept->norm1 = Norm(name + "norm1", x);
  kept->qkv = Linear(name + "attention.qkv", kept->norm1.out);
  kept->attended = Attention(kept->qkv);
  const Matrix middle = Sum(x, Linear(name + "attention.projection", kept->attended.out));
  kept->norm2 = Norm(name + "norm2", middle);
  kept->up = Linear(name + "mlp.up", kept->norm2.out);
  kept->gelu = Gelu(kept->up);
  return Sum(middle, Linear(name + "mlp.down", kept->gelu));
}

Matrix Training::LayerBackward(const std::string& name, const Matrix& dout, const Layer& kept) {
  const Matrix dgelu = LinearBackward(name + "mlp.down", dout, kept.gelu);
  const Matrix dup = GeluBackward(dgelu, kept.up);
  const Matrix dnorm2 = LinearBackward(name + "mlp.up", dup, kept.norm2.out);
  const Matrix dmiddle = Sum(dout, NormBackward(name + "norm2", dnorm2, kept.norm2));
  const Matrix dattended =
      LinearBackward(name + "attention.projection", dmiddle, kept.attended.out);
  const Matrix dqkv = AttentionBackward(dattended, kept.qkv, kept.attended);
  const Matrix dnorm1 = LinearBackward(name + "attention.qkv", dqkv, kept.norm1.out);
  return Sum(dmiddle, NormBackward(name + "norm1", dnorm1, kept.norm1));
}

Training::Normed Training::Norm(const std::string& name, const Matrix& x) {
  const Matrix& weight = weights_[name + ".weight"].value;
  const Matrix& bias = weights_[name + ".bias"].value;
  Normed normed{x, x, {}};
  for (int t = 0; t < x.rows; ++t) {
    double mean = 0, variance = 0;
    for (int c = 0; c < x.columns; ++c) mean += x.row(t)[c] / x.columns;
    for (int c = 0; c < x.columns; ++c) variance += std::pow(x.row(t)[c] - mean, 2) / x.columns;
    normed.inverse_deviation.push_back(1 / std::sqrt(variance + kNormEpsilon));
    for (int c = 0; c < x.columns; ++c) {
      const double normal = (x.row(t)[c] - mean) * normed.inverse_deviation.back();
      normed.normal.row(t)[c] = normal;
      normed.out.row(t)[c] = normal * weight.at[c] + bias.at[c];
    }
  }
  return normed;
}

Matrix Training::NormBackward(const std::string& name, const Matrix& dout, const Normed& kept) {
  Weight& weight = weights_[name + ".weight"];
  Weight& bias = weights_[name + ".bias"];
  const int width = dout.columns;
  Matrix dx(dout.rows, width);
  for (int t = 0; t < dout.rows; ++t) {
    const double* const normal = kept.normal.row(t);
    std::vector<double> dnormal(width);
    double mean = 0, along = 0;
    for (int c = 0; c < width; ++c) {
      dnormal[c] = dout.row(t)[c] * weight.value.at[c];
      mean += dnormal[c] / width;
      along += dnormal[c] * normal[c] / width;
      weight.gradient.at[c] += dout.row(t)[c] * normal[c];
      bias.gradient.at[c] += dout.row(t)[c];
    }
    for (int c = 0; c < width; ++c) {
      dx.row(t)[c] = kept.inverse_deviation[t] * (dnormal[c] - mean - normal[c] * along);
    }
  }
  return dx;
}

Matrix Training::Linear(const std::string& name, const Matrix& x) {
  const Matrix& weight = weights_[name + ".weight"].value;
  const Matrix& bias = weights_[name + ".bias"].value;
  Matrix y(x.rows, weight.rows);
  for (int t = 0; t < x.rows; ++t) {
    for (int o = 0; o < weight.rows; ++o) {
      y.row(t)[o] = bias.at[o] + Dot(x.row(t), weight.row(o), x.columns);
    }
  }
  return y;
}

Matrix Training::LinearBackward(const std::string& name, const Matrix& dout, const Matrix& x) {
  Weight& weight = weights_[name + ".weight"];
  Matrix& dbias = weights_[name + ".bias"].gradient;
  Matrix dx(x.rows, x.columns);
  for (int t = 0; t < x.rows; ++t) {
    for (int o = 0; o < dout.columns; ++o) {
      const double d = dout.row(t)[o];
      dbias.at[o] += d;
      AddTo(dx.row(t), d, weight.value.row(o), x.columns);
      AddTo(weight.gradient.row(o), d, x.row(t), x.columns);
    }
  }
  return dx;
}

// A row of qkv is the queries of all heads, then the keys, then the values.
Training::Attended Training::Attention(const Matrix& qkv) const {
  const int width = settings_.width, size = width / settings_.heads;
  Attended attended{Matrix(qkv.rows, width), {}};
  for (int h = 0; h < settings_.heads; ++h) {
    const int query = h * size, key = width + query, value = 2 * width + query;
    Matrix shares(qkv.rows, qkv.rows);
    for (int i = 0; i < qkv.rows; ++i) {
      double sum = 0;
      for (int j = 0; j <= i; ++j) {
        const double score =
            Dot(qkv.row(i) + query, qkv.row(j) + key, size) / std::sqrt(1.0 * size);
        sum += shares.row(i)[j] = std::exp(score);
      }
      for (int j = 0; j <= i; ++j) {
        shares.row(i)[j] /= sum;
        AddTo(attended.out.row(i) + query, shares.row(i)[j], qkv.row(j) + value, size);
      }
    }
    attended.shares.push_back(std::move(shares));
  }
  return attended;
}

Matrix Training::AttentionBackward(const Matrix& dout, const Matrix& qkv,
                                   const Attended& kept) const {
  const int width = settings_.width, size = width / settings_.heads;
  Matrix dqkv(qkv.rows, qkv.columns);
  std::vector<double> dshares(qkv.rows);
  for (int h = 0; h < settings_.heads; ++h) {
    const int query = h * size, key = width + query, value = 2 * width + query;
    for (int i = 0; i < qkv.rows; ++i) {
      const double* const shares = kept.shares[h].row(i);
      double mean = 0;
      for (int j = 0; j <= i; ++j) {
        dshares[j] = Dot(dout.row(i) + query, qkv.row(j) + value, size);
        mean += shares[j] * dshares[j];
        AddTo(dqkv.row(j) + value, shares[j], dout.row(i) + query, size);
      }
      for (int j = 0; j <= i; ++j) {
        const double dscore = shares[j] * (dshares[j] - mean) / std::sqrt(1.0 * size);
        AddTo(dqkv.row(i) + query, dscore, qkv.row(j) + key, size);
        AddTo(dqkv.row(j) + key, dscore, qkv.row(i) + query, size);
      }
    }
  }
  return dqkv;
}

// The rate rises linearly during the warm-up, whose last step has the full rate; then it falls by
// half a cosine, which would reach the final rate in the step after the last.
double Training::RateOf(int64_t step) const {
  if (step < settings_.warmup_steps) {
    return settings_.learning_rate * static_cast<double>(step + 1) /
           static_cast<double>(settings_.warmup_steps);
  }
  const double passed = static_cast<double>(step - settings_.warmup_steps) /
                        static_cast<double>(settings_.steps - settings_.warmup_steps);
  const double share = 0.5 + 0.5 * std::cos(kPi * passed);
  return share * settings_.learning_rate + (1 - share) * settings_.final_rate;
}

Step Training::Update(double loss, int64_t step) {
  double squares = 0;
  for (const auto& [name, weight] : weights_) {
    for (const double g : weight.gradient.at) squares += g * g;
  }
  const Step result{loss, std::sqrt(squares), RateOf(step)};
  const bool clips = settings_.clip_norm > 0 && result.norm > settings_.clip_norm;
  const double shrink = clips ? settings_.clip_norm / result.norm : 1;
  const double beta1 = settings_.beta1, beta2 = settings_.beta2;
  const double t = static_cast<double>(step + 1);
  for (auto& [name, weight] : weights_) {
    for (size_t i = 0; i < weight.value.at.size(); ++i) {
      const double g = shrink * weight.gradient.at[i];
      double& m = weight.moment1.at[i];
      double& v = weight.moment2.at[i];
      m = beta1 * m + (1 - beta1) * g;
      v = beta2 * v + (1 - beta2) * g * g;
      const double move = m / (1 - std::pow(beta1, t)) /
                          (std::sqrt(v / (1 - std::pow(beta2, t))) + settings_.epsilon);
      const double decay = weight.is_matrix ? settings_.weight_decay * weight.value.at[i] : 0;
      weight.value.at[i] -= result.rate * (move + decay);
    }
  }
  return result;
}

}  // namespace stringline::plain
