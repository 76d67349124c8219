// Training a small GPT, written out plainly in double precision: the definition of a training run.
//
// Written from the promises of the headers (stages/models/gpt.h and stages/init.h for the model,
// executor/training/data.h for the batches, executor/engine/optimizer.h and
// executor/run/run_config.h for the steps) and without their code: no graph, no derived gradient,
// no kernel, no stages, one sequence, or document of a packed one, at a time. Its backward is
// written by hand; plain_training_test first compares it with differences of its own loss.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace stringline::plain {

struct Settings {
  int layers = 0, width = 0, heads = 0, context = 0, vocabulary = 256;
  int sequences = 0;     // per microbatch
  int microbatches = 0;  // per step
  int64_t steps = 0, warmup_steps = 0;
  double learning_rate = 0, final_rate = 0;
  double beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
  double clip_norm = 0;  // 0: none
  uint64_t seed = 0;
  // Lengths of the documents that the text consists of: each is a sequence of its own, as far as it
  // lies in a window of the text. Empty: every window is a sequence.
  std::vector<size_t> documents;
};

// Rows of numbers, row-major.
struct Matrix {
  int rows = 0, columns = 0;
  std::vector<double> at;

  Matrix() = default;
  Matrix(int rows_, int columns_)
      : rows(rows_), columns(columns_), at(static_cast<size_t>(rows_) * columns_, 0.0) {}
  double* row(int r) { return at.data() + static_cast<size_t>(r) * columns; }
  const double* row(int r) const { return at.data() + static_cast<size_t>(r) * columns; }
};

// A parameter; a vector is a single row. The gradient is that of the step's mean loss per token.
struct Weight {
  Matrix value, gradient, moment1, moment2;
  bool is_matrix = false;
};

constexpr int kNothing = -1;  // the target of a document's last token

struct Batch {
  std::vector<int> tokens, targets;  // sequences * context each
  std::vector<int> lengths;          // of the pieces that are sequences of their own
};

struct Step {
  double loss = 0;  // mean per token, in nats
  double norm = 0;  // the gradient's over all parameters, before clipping
  double rate = 0;
};

class Training {
 public:
  // `text` gives the batches; every parameter gets its initial values.
  Training(const Settings& settings, const std::string& text);

  // Computes the gradients and the loss of step `step`, from 0; parameters are unchanged.
  double Gradients(int64_t step);
  // Clips, and updates every parameter.
  Step Update(double loss, int64_t step);

  Batch BatchOf(int64_t step, int microbatch) const;
  double RateOf(int64_t step) const;
  std::map<std::string, Weight>& weights() { return weights_; }

 private:
  // The inputs of a norm's backward: the norm's input without mean and in units of its deviation.
  struct Normed {
    Matrix out, normal;
    std::vector<double> inverse_deviation;
  };
  struct Attended {
    Matrix out;
    std::vector<Matrix> shares;  // by head: the weight of position j for position i
  };
  // The forward of a layer.
  struct Layer {
    Normed norm1;
    Matrix qkv;
    Attended attended;
    Normed norm2;
    Matrix up, gelu;
  };

  void AddPieces(size_t from, Batch* batch) const;
  void AddMatrix(const std::string& name, int rows, int columns, double deviation);
  void AddVector(const std::string& name, int size, double value);

  // The summed loss of one sequence of so many tokens; adds its gradients.
  double Sequence(const int* tokens, const int* targets, int context);
  Matrix LayerForward(const std::string& name, const Matrix& x, Layer* kept);
  Matrix LayerBackward(const std::string& name, const Matrix& dout, const Layer& kept);
  Normed Norm(const std::string& name, const Matrix& x);
  Matrix NormBackward(const std::string& name, const Matrix& dout, const Normed& kept);
  Matrix Linear(const std::string& name, const Matrix& x);
  Matrix LinearBackward(const std::string& name, const Matrix& dout, const Matrix& x);
  Attended Attention(const Matrix& qkv) const;
  Matrix AttentionBackward(const Matrix& dout, const Matrix& qkv, const Attended& kept) const;

  const Settings settings_;
  const std::string text_;
  std::map<std::string, Weight> weights_;
};

}  // namespace stringline::plain
