// Every key is a row of a table that both the printer and the reader walk. The last line is a sum
// over the text before it, so that a bit that changes anywhere is seen. Format 1, of earlier
// versions, has no sums over texts.
#include "executor/checkpoint/checkpoint_state.h"

#include <cmath>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/checkpoint/json_tree.h"
#include "schedlang/base/fnv.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr const char* kFormat = "stringline checkpoint 2";
constexpr const char* kFormatWithoutSums = "stringline checkpoint 1";
constexpr absl::string_view kEnd = "\n}\n";
constexpr const char* kDeterministic = "deterministic";
constexpr const char* kValidations = "validations";
constexpr const char* kTexts = "texts";
constexpr int kDeepest = 4;

struct Key {
  const char* name;
  std::variant<std::string CheckpointState::*, int64_t CheckpointState::*,
               uint64_t CheckpointState::*, std::vector<double> StepHistory::*>
      member;
};
constexpr Key kKeys[] = {
    {"run", &CheckpointState::run},
    {"step", &CheckpointState::step},
    {"seed", &CheckpointState::seed},
    {"data", &CheckpointState::data},
    {"microbatches", &CheckpointState::microbatches},
    {"microbatch", &CheckpointState::microbatch},
    {"context", &CheckpointState::context},
    {"losses", &StepHistory::losses_nats},
    {"grad_norms", &StepHistory::grad_norms},
    {"learning_rates", &StepHistory::learning_rates},
};

absl::Status WrongKey(absl::string_view key, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("'", key, "' is ", what));
}

absl::Status Take(const nlohmann::json& value, const char* key, std::string* to) {
  if (!value.is_string()) return WrongKey(key, "no text");
  *to = value.get<std::string>();
  return absl::OkStatus();
}

absl::Status Take(const nlohmann::json& value, const char* key, int64_t* to) {
  if (!value.is_number_integer()) return WrongKey(key, "no whole number");
  *to = value.get<int64_t>();
  return *to >= 0 ? absl::OkStatus() : WrongKey(key, "less than 0");
}

absl::Status Take(const nlohmann::json& value, const char* key, uint64_t* to) {
  int64_t number = 0;
  SL_RETURN_IF_ERROR(Take(value, key, &number));
  *to = static_cast<uint64_t>(number);
  return absl::OkStatus();
}

absl::Status Take(const nlohmann::json& value, const char* key, std::vector<double>* to) {
  if (!value.is_array()) return WrongKey(key, "no list");
  for (const nlohmann::json& item : value) {
    if (!item.is_number()) return WrongKey(key, "no list of numbers");
    to->push_back(item.get<double>());
  }
  return absl::OkStatus();
}

const nlohmann::json* Find(const nlohmann::json& tree, const char* key) {
  const auto found = tree.find(key);
  return found == tree.end() ? nullptr : &*found;
}

absl::Status TakeSum(const nlohmann::json& value, const char* key, uint64_t* to) {
  std::string hexadecimal;
  SL_RETURN_IF_ERROR(Take(value, key, &hexadecimal));
  return absl::SimpleHexAtoi(hexadecimal, to) ? absl::OkStatus() : WrongKey(key, "no number");
}

absl::Status TakeModel(const nlohmann::json& tree, CheckpointState* state) {
  const nlohmann::json* const model = Find(tree, "model");
  if (model == nullptr || !model->is_object()) return WrongKey("model", "no object");
  for (const auto& [name, value] : model->items()) {
    SL_RETURN_IF_ERROR(Take(value, "model", &state->model[name]));
  }
  return absl::OkStatus();
}

// Steps with their losses; none in the text of a run that does not evaluate.
absl::Status TakeValidations(const nlohmann::json& tree, CheckpointState* state) {
  const nlohmann::json* const found = Find(tree, kValidations);
  if (found == nullptr) return absl::OkStatus();
  if (!found->is_array()) return WrongKey(kValidations, "no list");
  for (const nlohmann::json& one : *found) {
    if (!one.is_array() || one.size() != 2 || !one[1].is_number()) {
      return WrongKey(kValidations, "no list of steps with losses");
    }
    int64_t step = 0;
    SL_RETURN_IF_ERROR(Take(one[0], kValidations, &step));
    if (step > state->step) return WrongKey(kValidations, "of a step that is not done");
    state->history.validations_nats[step] = one[1].get<double>();
  }
  return absl::OkStatus();
}

absl::Status TakeFiles(const nlohmann::json& tree, CheckpointState* state) {
  const nlohmann::json* const files = Find(tree, "files");
  if (files == nullptr || !files->is_object()) return WrongKey("files", "no object");
  for (const auto& [name, value] : files->items()) {
    if (name.find('/') != std::string::npos) return WrongKey("files", "not of this folder");
    CheckpointState::File& file = state->files[name];
    const nlohmann::json* const bytes = value.is_object() ? Find(value, "bytes") : nullptr;
    const nlohmann::json* const sum = value.is_object() ? Find(value, "sum") : nullptr;
    if (bytes == nullptr || sum == nullptr) return WrongKey("files", "without bytes and sum");
    SL_RETURN_IF_ERROR(Take(*bytes, "bytes", &file.bytes));
    SL_RETURN_IF_ERROR(TakeSum(*sum, "sum", &file.sum));
    const nlohmann::json* const header = Find(value, "header");
    if (header != nullptr) {
      SL_RETURN_IF_ERROR(TakeSum(*header, "header", &file.header.emplace()));
    } else if (state->has_sums) {
      return WrongKey("files", "without the sum of a header");
    }
  }
  return absl::OkStatus();
}

// Checkpoints of before the version that wrote them have none.
absl::Status TakeTexts(const nlohmann::json& tree, CheckpointState* state) {
  const nlohmann::json* const texts = Find(tree, kTexts);
  if (texts == nullptr) return absl::OkStatus();
  if (!texts->is_object()) return WrongKey(kTexts, "no object");
  for (const auto& [name, value] : texts->items()) {
    if (name.find('/') != std::string::npos) return WrongKey(kTexts, "not of this folder");
    SL_RETURN_IF_ERROR(TakeSum(value, kTexts, &state->texts[name]));
  }
  return absl::OkStatus();
}

template <typename State, typename History, typename Visit>
absl::Status ForEveryKey(State& state, History& history, Visit visit) {
  for (const Key& key : kKeys) {
    SL_RETURN_IF_ERROR(std::visit(
        [&](auto member) {
          if constexpr (std::is_same_v<decltype(member), std::vector<double> StepHistory::*>) {
            return visit(key.name, history.*member);
          } else {
            return visit(key.name, state.*member);
          }
        },
        key.member));
  }
  return visit("dropped", history.dropped);
}

std::string PrintSum(uint64_t sum) { return absl::StrFormat("%016x", sum); }

// The line with the sum over the text before it.
std::string SumLine(absl::string_view text) {
  return absl::StrCat(",\n  \"sum\": \"", PrintSum(SumOfText(text)), "\"", kEnd);
}

// The text's format, and its sum where the format has one.
absl::Status CheckFormat(const nlohmann::json& tree, absl::string_view text,
                         CheckpointState* state) {
  const nlohmann::json* const format = Find(tree, "format");
  const std::string said =
      format != nullptr && format->is_string() ? format->get<std::string>() : "";
  state->has_sums = said == kFormat;
  if (said != kFormat && said != kFormatWithoutSums) {
    return WrongKey("format", absl::StrCat("not '", kFormat, "'"));
  }
  if (!state->has_sums) {
    return Find(tree, "sum") == nullptr ? absl::OkStatus()
                                        : WrongKey("format", "not that of a text with a sum");
  }
  const size_t line = SumLine("").size();
  if (text.size() < line) return WrongKey("sum", "missing");
  const absl::string_view before = text.substr(0, text.size() - line);
  if (text.substr(before.size()) == SumLine(before)) return absl::OkStatus();
  return absl::InvalidArgumentError("holds another text than was written: its sum is wrong");
}

}  // namespace

uint64_t SumOfText(absl::string_view text) {
  Fnv sum;
  for (const unsigned char c : text) sum.Add(c);
  return sum.value();
}

std::string Print(const CheckpointState& state) {
  OrderedJson tree = {{"format", state.has_sums ? kFormat : kFormatWithoutSums}};
  (void)ForEveryKey(state, state.history, [&tree](const char* key, const auto& value) {
    tree[key] = value;
    return absl::OkStatus();
  });
  for (const auto& [step, nats] : state.history.validations_nats) {
    tree[kValidations].push_back({step, nats});
  }
  if (!state.deterministic) tree[kDeterministic] = false;
  tree["model"] = state.model;
  for (const auto& [name, file] : state.files) {
    tree["files"][name] = {{"bytes", file.bytes}, {"sum", PrintSum(file.sum)}};
    if (file.header) tree["files"][name]["header"] = PrintSum(*file.header);
  }
  for (const auto& [name, sum] : state.texts) tree[kTexts][name] = PrintSum(sum);
  // A line for every key.
  std::string text = "{";
  for (const auto& [key, value] : tree.items()) {
    absl::StrAppend(&text, text.size() == 1 ? "" : ",", "\n  \"", key,
                    "\": ", value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  return text + (state.has_sums ? SumLine(text) : std::string(kEnd));
}

absl::StatusOr<CheckpointState> ParseCheckpointState(absl::string_view text) {
  SL_ASSIGN_OR_RETURN(const nlohmann::json tree, ParseJsonObject(text, "the state", kDeepest));
  CheckpointState state;
  SL_RETURN_IF_ERROR(CheckFormat(tree, text, &state));
  SL_RETURN_IF_ERROR(
      ForEveryKey(state, state.history, [&tree](const char* key, auto& value) -> absl::Status {
        const nlohmann::json* const found = Find(tree, key);
        return found == nullptr ? WrongKey(key, "missing") : Take(*found, key, &value);
      }));
  if (const nlohmann::json* const found = Find(tree, kDeterministic); found != nullptr) {
    if (!found->is_boolean()) return WrongKey(kDeterministic, "neither true nor false");
    state.deterministic = found->get<bool>();
  }
  SL_RETURN_IF_ERROR(TakeValidations(tree, &state));
  SL_RETURN_IF_ERROR(TakeModel(tree, &state));
  SL_RETURN_IF_ERROR(TakeFiles(tree, &state));
  SL_RETURN_IF_ERROR(TakeTexts(tree, &state));
  const auto steps = static_cast<size_t>(state.step);
  for (const auto* const of :
       {&state.history.losses_nats, &state.history.grad_norms, &state.history.learning_rates}) {
    if (of->size() == steps) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("there are ", of->size(), " losses, norms or rates of ", steps, " steps"));
  }
  return state;
}

}  // namespace stringline
