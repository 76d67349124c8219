// Every schedule against the same run written out plainly in double precision. Schedules compared
// with each other would share any mistake of the model, the data, the clipping, the rate or the
// update.
#include "tests/executor/plain_training.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/executor/kept_run.h"
#include "tests/executor/plans.h"
#include "tests/executor/reference_runs.h"

namespace stringline {
namespace {

using Tensors = std::map<std::string, std::vector<double>>;

struct Reference {
  std::vector<plain::Step> steps;
  std::vector<std::vector<int>> tokens, targets;  // by step
  Tensors first, gradients, last;
};

Tensors ValuesOf(plain::Training* training) {
  Tensors values;
  for (const auto& [name, weight] : training->weights()) values[name] = weight.value.at;
  return values;
}

Reference ReferenceOf(const RunConfig& config, const std::vector<size_t>& documents = {}) {
  Reference reference;
  plain::Settings settings = SettingsOf(config);
  settings.documents = documents;
  plain::Training training(settings, ReferenceText());
  reference.first = ValuesOf(&training);
  for (int64_t step = 0; step < config.steps; ++step) {
    const double loss = training.Gradients(step);
    for (const auto& [name, weight] : training.weights()) {
      if (step == 0) reference.gradients[name] = weight.gradient.at;
    }
    reference.steps.push_back(training.Update(loss, step));
    std::vector<int>& tokens = reference.tokens.emplace_back();
    std::vector<int>& targets = reference.targets.emplace_back();
    for (int m = 0; m < kReferenceMicrobatches; ++m) {
      const plain::Batch batch = training.BatchOf(step, m);
      tokens.insert(tokens.end(), batch.tokens.begin(), batch.tokens.end());
      targets.insert(targets.end(), batch.targets.begin(), batch.targets.end());
    }
  }
  reference.last = ValuesOf(&training);
  return reference;
}

// Its gradients are the slopes of its loss, in every tensor, at the parameters of the third step.
TEST(PlainTraining, ItsGradientsAreTheSlopesOfItsLoss) {
  RunConfig config = OtherRun();
  config.shape = GptShape{.layers = 2, .width = 6, .heads = 2, .context = 5, .microbatch = 1};
  plain::Training training(SettingsOf(config), ReferenceText());
  for (int step = 0; step < 2; ++step) training.Update(training.Gradients(step), step);
  training.Gradients(2);
  const std::map<std::string, plain::Weight> weights = training.weights();
  constexpr double kNudge = 1e-5;
  for (const auto& [name, weight] : weights) {
    const std::vector<double>& gradient = weight.gradient.at;
    // The steepest element, and some others.
    std::vector<size_t> places = {0, gradient.size() / 2, gradient.size() - 1};
    const auto steepest =
        std::max_element(gradient.begin(), gradient.end(),
                         [](double a, double b) { return std::fabs(a) < std::fabs(b); });
    places.push_back(steepest - gradient.begin());
    for (const size_t i : places) {
      double& value = training.weights()[name].value.at[i];
      const double before = value;
      value = before + kNudge;
      const double above = training.Gradients(2);
      value = before - kNudge;
      const double below = training.Gradients(2);
      value = before;
      EXPECT_NEAR((above - below) / (2 * kNudge), gradient[i], 1e-7 + 1e-5 * std::fabs(gradient[i]))
          << name << " " << i;
    }
  }
}

// The largest difference in units of the largest value, and its place.
struct Difference {
  double most = 0;
  std::string name = "none";

  void Add(const std::string& of, double difference) {
    if (!(difference > most)) return;
    most = difference;
    name = of;
  }
  // For a tensor's elements from `begin` to `end`.
  template <typename Found>
  void AddTensor(const std::string& of, const std::vector<double>& want, const Found& found,
                 size_t begin, size_t end) {
    double largest = 0, most_here = 0;
    for (const double value : want) largest = std::max(largest, std::fabs(value));
    for (size_t i = begin; i < end; ++i) {
      most_here = std::max(most_here, std::fabs(want[i] - static_cast<double>(found[i])));
      if (std::isnan(found[i])) most_here = INFINITY;
    }
    Add(of, largest > 0 ? most_here / largest : most_here);
  }
};

struct Differences {
  Difference first, gradient, loss, norm, last;
};

// Shifting all keys of a layer by one vector leaves attention unchanged: the gradient of their bias
// is 0, and its update by AdamW is rounding noise, which is not compared.
size_t ComparedFrom(const std::string& name, size_t size, size_t* skipped_to) {
  const bool has_keys = name.find("attention.qkv.bias") != std::string::npos;
  *skipped_to = has_keys ? size / 3 * 2 : size;
  return has_keys ? size / 3 : size;
}

void CompareParams(const Reference& want, const KeptRun& found, size_t pipes,
                   Differences* differences) {
  ASSERT_EQ(want.first.size(), found.params.size());
  for (const auto& [name, param] : found.params) {
    ASSERT_EQ(want.first.count(name), 1u) << name;
    const size_t size = want.first.at(name).size();
    ASSERT_EQ(param.first.size(), size) << name;
    ASSERT_EQ(param.last.size(), pipes) << name;
    differences->first.AddTensor(name, want.first.at(name), param.first, 0, size);
    differences->gradient.AddTensor(name, want.gradients.at(name), param.gradient, 0, size);
    size_t after = 0;
    const size_t before = ComparedFrom(name, size, &after);
    for (const std::vector<float>& last : param.last) {
      differences->last.AddTensor(name, want.last.at(name), last, 0, before);
      differences->last.AddTensor(name, want.last.at(name), last, after, size);
    }
  }
}

void CompareSteps(const Reference& want, const KeptRun& found, Differences* differences) {
  ASSERT_EQ(want.steps.size(), found.steps.size());
  for (size_t s = 0; s < want.steps.size(); ++s) {
    const std::string step = "step " + std::to_string(s + 1);
    EXPECT_EQ(want.tokens[s], found.tokens[s]) << step;
    EXPECT_EQ(want.targets[s], found.targets[s]) << step;
    EXPECT_NEAR(found.steps[s].learning_rate, want.steps[s].rate, 1e-12) << step;
    const double loss = want.steps[s].loss, norm = want.steps[s].norm;
    differences->loss.Add(step, std::fabs(found.steps[s].loss_nats / loss - 1));
    differences->norm.Add(step, std::fabs(found.steps[s].grad_norm / norm - 1));
  }
}

struct Case {
  const char* schedule;
  int p;
  std::vector<int> split;  // layers per stage
  int data = 1;            // copies of the pipeline
};

// The limits are some ten times the observed effect of rounding to 24 bits. For the final values
// the rounding has gone through AdamW, which makes small gradients large. A wrong rule exceeds them
// by far.
void Compare(const RunConfig& run, const Reference& reference, const Case& c,
             const Documents* documents = nullptr) {
  SCOPED_TRACE(testing::Message() << c.schedule << " P=" << c.p << " data=" << c.data);
  RunConfig config = run;
  config.layers_per_stage = c.split;
  config.mesh.data = c.data;
  const Plan plan =
      WithSums(LibraryPlan(c.schedule, c.p, kReferenceMicrobatches / c.data).value(), config.mesh);
  const std::string text = ReferenceText();
  const TrainingData data(text);
  const KeptRun found =
      TrainAndKeep(config, plan, documents == nullptr ? data : data.PackedOf(*documents));
  Differences differences;
  CompareSteps(reference, found, &differences);
  CompareParams(reference, found, std::max<size_t>(1, plan.pipes.size()), &differences);
  const std::pair<const char*, std::pair<Difference, double>> rows[] = {
      {"first values", {differences.first, 5e-7}}, {"gradients", {differences.gradient, 5e-6}},
      {"loss", {differences.loss, 5e-7}},          {"norm", {differences.norm, 1e-6}},
      {"last values", {differences.last, 5e-4}},
  };
  std::cout << c.schedule << " P=" << c.p << ", worst differences:";
  for (const auto& [what, row] : rows) {
    std::cout << " " << what << " " << row.first.most;
    EXPECT_LT(row.first.most, row.second) << what << ", worst in " << row.first.name;
  }
  std::cout << "\n";
}

TEST(TrainingTruth, EveryScheduleTrainsAsTheFormulasSay) {
  const Reference reference = ReferenceOf(LongRun());
  int clipped = 0;
  for (const plain::Step& step : reference.steps) {
    clipped += step.norm > LongRun().clip_norm ? 1 : 0;
  }
  EXPECT_GE(clipped, 3);
  EXPECT_LE(clipped, 7);
  const Case cases[] = {
      {"gpipe", 1, {3}},          {"1f1b", 2, {2, 1}},          {"interleaved", 2, {1, 1, 1, 0}},
      {"zb_h1", 4, {0, 1, 1, 1}}, {"zb_v", 2, {0, 2, 1, 0}},    {"dualpipe_v", 2, {1, 1, 1, 0}},
      {"chimera", 2, {1, 2}},     {"chimera", 4, {0, 1, 2, 0}}, {"dualpipe", 2, {2, 1}},
  };
  for (const Case& c : cases) Compare(LongRun(), reference, c);
}

// Documents of one token, of some, and longer than a window; the plain training computes each as a
// sequence of its own.
TEST(TrainingTruth, DocumentsTrainAsSequencesOfTheirOwn) {
  const std::string text = ReferenceText();
  std::vector<size_t> lengths;
  size_t left = text.size();
  for (size_t i = 0; left > 0; ++i) {
    const size_t some[] = {40, 1, 7, 260, 3, 1, 1, 19, 90, 33};
    lengths.push_back(std::min(left, some[i % 10]));
    left -= lengths.back();
  }
  const std::string path = absl::StrCat(testing::TempDir(), "/lengths-", getpid());
  std::ofstream(path) << absl::StrJoin(lengths, "\n") << "\n";
  const auto documents = Documents::Read(path, static_cast<int64_t>(text.size()));
  ASSERT_TRUE(documents.ok()) << documents.status();
  RunConfig config = LongRun();
  config.data.packed.lengths = path;
  const Reference reference = ReferenceOf(config, lengths);
  for (const Case& c :
       {Case{"1f1b", 2, {2, 1}}, Case{"zb_v", 2, {0, 2, 1, 0}}, Case{"dualpipe_v", 2, {1, 1, 1, 0}},
        Case{"chimera", 2, {1, 2}}, Case{"1f1b", 2, {2, 1}, 2}}) {
    Compare(config, reference, c, &*documents);
  }
  unlink(path.c_str());
}

TEST(TrainingTruth, DocumentsEndWithAToken) {
  const std::string text = ReferenceText();
  std::vector<size_t> lengths = {0};
  for (const char letter : text) {
    ++lengths.back();
    if (letter == 'e') lengths.push_back(0);
  }
  RunConfig config = OtherRun();
  config.data.packed.end = 'e';
  const Documents documents = Documents::EndingWith('e');
  Compare(config, ReferenceOf(config, lengths), Case{"gpipe", 1, {2}}, &documents);
}

TEST(TrainingTruth, EverySettingOfARunCounts) {
  const Reference reference = ReferenceOf(OtherRun());
  for (const Case& c : {Case{"gpipe", 1, {2}}, Case{"dualpipe", 2, {1, 1}}}) {
    Compare(OtherRun(), reference, c);
  }
}

}  // namespace
}  // namespace stringline
