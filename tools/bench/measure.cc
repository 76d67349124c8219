// Both sides answer with a JSON object on standard output, which holds the figures or the error.
// The control is read before and after, and the worse reading is kept.
#include "tools/bench/measure.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schedlang/base/status.h"
#include "schedlang/base/write_file.h"
#include "tools/bench/child_program.h"
#include "tools/bench/machine.h"
#include "tools/bench/spread.h"
#include "tools/training/fingerprint.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

constexpr int kMostSecondsOfRun = 600;  // for one repetition
constexpr int kSkipped = 77;            // the exit status of torch/run without torch

std::string LastLine(const std::string& text) {
  const std::vector<std::string> lines =
      absl::StrSplit(absl::StripAsciiWhitespace(text), '\n', absl::SkipEmpty());
  return lines.empty() ? "" : lines.back();
}

// The reason why a program gave no answer.
std::string WhyNothing(const EndedProgram& ended, const Json& answer) {
  if (answer.is_object()) {
    const auto error = answer.find("error");
    if (error != answer.end() && error->is_string()) return error->get<std::string>();
    const auto findings = answer.find("findings");
    if (findings != answer.end() && !findings->empty()) {
      return findings->front().value("message", "it has findings");
    }
  }
  const std::string said = LastLine(ended.err);
  return absl::StrCat("ended with ", ended.status, said.empty() ? "" : ": ", said);
}

// A program's answer, between two readings of the control.
struct Answer {
  Json json;
  ControlReading control;
};
absl::StatusOr<Answer> Ask(const std::vector<std::string>& words,
                           const std::function<bool()>& stop) {
  const ControlReading before = ReadControl();
  SL_ASSIGN_OR_RETURN(const EndedProgram ended, RunProgram(words, kMostSecondsOfRun, stop));
  const ControlReading after = ReadControl();
  Answer answer;
  answer.control = {std::max(before.late, after.late), std::min(before.speed, after.speed)};
  answer.json = Json::parse(LastLine(ended.out), nullptr, /*allow_exceptions=*/false);
  if (ended.status != 0 || !answer.json.is_object()) {
    return absl::UnknownError(WhyNothing(ended, answer.json));
  }
  return answer;
}

std::vector<double> WithoutFirst(const Json& list, size_t count) {
  std::vector<double> values = list.get<std::vector<double>>();
  values.erase(values.begin(),
               values.begin() + static_cast<std::ptrdiff_t>(std::min(count, values.size())));
  return values;
}

// The side's answer as figures. `warm_up` steps do not count.
absl::StatusOr<MeasuredCase> FiguresOf(const Answer& answer, size_t warm_up) {
  MeasuredCase measured;
  Repetition& of = measured.repetition;
  of.date = DateNow();
  of.control = answer.control;
  try {
    const Json& json = answer.json;
    of.step_us = WithoutFirst(json.at("steps_us"), warm_up);
    const std::vector<double> processor_us = WithoutFirst(json.at("processor_us"), warm_up);
    if (of.step_us.empty() || processor_us.empty())
      return absl::UnknownError("no step was measured");
    of.processor_us = Median(processor_us);
    of.loss = json.at("losses").back().get<double>();
    of.resident_bytes = json.at("resident_bytes").get<int64_t>();
    measured.params = json.at("params").get<int64_t>();
    measured.tokens_per_step = json.at("tokens_per_step").get<int64_t>();
    measured.runs = json.value("runs", json.value("schedule", ""));
    if (json.contains("measured_bubble"))
      of.measured_bubble = json["measured_bubble"].get<double>();
    if (json.contains("simulated_bubble")) {
      of.simulated_bubble = json["simulated_bubble"].get<double>();
    }
    if (json.contains("peak_bytes")) {
      int64_t sum = 0;
      for (const Json& rank : json["peak_bytes"]) sum += rank.at("allocated").get<int64_t>();
      of.allocated_bytes = sum;
    }
  } catch (const Json::exception& error) {
    return absl::UnknownError(absl::StrCat("an answer without figures: ", error.what()));
  }
  return measured;
}

// The folder above which tools/environments/torch/run is, from here upwards; "" for none.
std::string CheckoutAbove(fs::path from) {
  std::error_code error;
  for (; !from.empty(); from = from.parent_path()) {
    if (fs::exists(from / "tools/bench/torch_pipeline.py", error)) return from.string();
    if (from == from.parent_path()) break;
  }
  return "";
}

}  // namespace

absl::StatusOr<MeasuringFolder> MeasuringFolder::Make() {
  std::error_code error;
  std::string path = (fs::temp_directory_path(error) / "stringline-bench-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr) {
    return absl::UnavailableError(absl::StrCat(path, ": cannot be made"));
  }
  return MeasuringFolder(std::move(path));
}

MeasuringFolder::~MeasuringFolder() {
  std::error_code error;
  if (!path_.empty()) fs::remove_all(path_, error);
}

absl::StatusOr<TorchPrograms> FindTorch(const std::function<bool()>& stop) {
  std::error_code error;
  std::string checkout = CheckoutAbove(fs::read_symlink("/proc/self/exe", error).parent_path());
  if (checkout.empty()) checkout = CheckoutAbove(fs::current_path(error));
  TorchPrograms torch;
  if (checkout.empty()) {
    torch.reason =
        "torch's side is a program of the checkout, tools/bench/torch_pipeline.py, and "
        "this stringline is in none";
    return torch;
  }
  torch.runner = checkout + "/tools/environments/torch/run";
  torch.program = checkout + "/tools/bench/torch_pipeline.py";
  torch.programs = absl::StrCat(FingerprintOf(torch.program), "; ",
                                FingerprintOf(checkout + "/tools/bench/torch_models.py"));
  const absl::StatusOr<EndedProgram> ended = RunProgram(
      {torch.runner, "-c", "import torch; print(torch.__version__)"}, kMostSecondsOfRun, stop);
  if (absl::IsCancelled(ended.status())) return ended.status();
  if (!ended.ok()) {
    torch.reason = std::string(ended.status().message());
  } else if (ended->status == kSkipped) {
    torch.reason = LastLine(ended->out);
  } else if (ended->status != 0) {
    torch.reason = WhyNothing(*ended, {});
  } else {
    torch.version = LastLine(ended->out);
  }
  return torch;
}

absl::StatusOr<MeasuredCase> MeasureOwn(const PreparedCase& prepared, int warm_up,
                                        const std::string& folder,
                                        const std::function<bool()>& stop) {
  const std::string file = folder + "/run.yaml";
  SL_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(folder, "/", kPlanOfCase), prepared.plan));
  SL_RETURN_IF_ERROR(WriteFileAtomically(file, prepared.of.run_file));
  SL_ASSIGN_OR_RETURN(
      const Answer answer,
      Ask({"/proc/self/exe", "run", file, "--json", "--out", folder + "/out"}, stop));
  return FiguresOf(answer, static_cast<size_t>(warm_up));
}

absl::StatusOr<MeasuredCase> MeasureTorch(const PreparedCase& prepared, const TorchPrograms& torch,
                                          const std::string& folder,
                                          const std::function<bool()>& stop) {
  const std::string file = folder + "/torch_case.json", csv = folder + "/case.csv";
  Json asked = prepared.torch;
  std::error_code error;
  asked["text"] = fs::absolute(prepared.of.config.data.text, error).string();
  asked["csv"] = prepared.torch_csv.empty() ? "" : csv;
  SL_RETURN_IF_ERROR(WriteFileAtomically(csv, prepared.torch_csv));
  SL_RETURN_IF_ERROR(WriteFileAtomically(file, asked.dump()));
  SL_ASSIGN_OR_RETURN(const Answer answer, Ask({torch.runner, torch.program, file}, stop));
  return FiguresOf(answer, asked["warm_up"].get<size_t>());
}

}  // namespace stringline
