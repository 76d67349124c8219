// Training a small GPT, written out plainly in double precision: what a training run has to be.
//
// Written from what the headers promise (stages/models/gpt.h and stages/init.h for the model,
// executor/data.h for the batches, executor/optimizer.h and executor/run_config.h for the steps)
// and sharing no code with what stands behind them: no graph, no derived gradient, no kernel, no
// stages, one sequence at a time. Its backward is written by hand; plain_training_test compares it
// with differences of its own loss before anything else is compared with it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace stringline::plain {

struct Settings {
  int layers = 0, width = 0, heads = 0, context = 0, vocabulary = 256;
  int sequences = 0;     // of a microbatch
  int microbatches = 0;  // of a step
  int64_t steps = 0, warmup_steps = 0;
  double learning_rate = 0, final_rate = 0;
  double beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
  double clip_norm = 0;  // 0: none
  uint64_t seed = 0;
};

// Rows of numbers, one after the other.
struct Matrix {
  int rows = 0, columns = 0;
  std::vector<double> at;

  Matrix() = default;
  Matrix(int rows_, int columns_)
      : rows(rows_), columns(columns_), at(static_cast<size_t>(rows_) * columns_, 0.0) {}
  double* row(int r) { return at.data() + static_cast<size_t>(r) * columns; }
  const double* row(int r) const { return at.data() + static_cast<size_t>(r) * columns; }
};

// A parameter; a vector is one row. The gradient is that of the step's mean loss per token.
struct Weight {
  Matrix value, gradient, moment1, moment2;
  bool is_matrix = false;
};

struct Batch {
  std::vector<int> tokens, targets;  // sequences * context each
};

struct Step {
  double loss = 0;  // mean per token, in nats
  double norm = 0;  // of the gradient over all parameters, before clipping
  double rate = 0;
};

class Training {
 public:
  // `text` gives the batches; every parameter gets its first values.
  Training(const Settings& settings, const std::string& text);

  // Sets the gradients and gives the loss of step `step`, from 0; parameters stay as they are.
  double Gradients(int64_t step);
  // Clips, and moves every parameter.
  Step Update(double loss, int64_t step);

  Batch BatchOf(int64_t step, int microbatch) const;
  double RateOf(int64_t step) const;
  std::map<std::string, Weight>& weights() { return weights_; }

 private:
  // What the backward of a norm needs: its input without mean and in units of its deviation.
  struct Normed {
    Matrix out, normal;
    std::vector<double> inverse_deviation;
  };
  struct Attended {
    Matrix out;
    std::vector<Matrix> shares;  // by head: how much of position j reaches position i
  };
  // The forward of a layer.
  struct Layer {
    Normed norm1;
    Matrix qkv;
    Attended attended;
    Normed norm2;
    Matrix up, gelu;
  };

  void AddMatrix(const std::string& name, int rows, int columns, double deviation);
  void AddVector(const std::string& name, int size, double value);

  // The summed loss of one sequence; adds its gradients.
  double Sequence(const int* tokens, const int* targets);
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
