// Every key is a row of a table that both the printer and the reader walk.
#include "executor/checkpoint/checkpoint_state.h"

#include <cmath>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/checkpoint/json_tree.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr const char* kFormat = "stringline checkpoint 1";
constexpr const char* kDeterministic = "deterministic";
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

absl::Status TakeModel(const nlohmann::json& tree, CheckpointState* state) {
  const nlohmann::json* const model = Find(tree, "model");
  if (model == nullptr || !model->is_object()) return WrongKey("model", "no object");
  for (const auto& [name, value] : model->items()) {
    SL_RETURN_IF_ERROR(Take(value, "model", &state->model[name]));
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
    std::string hexadecimal;
    SL_RETURN_IF_ERROR(Take(*sum, "sum", &hexadecimal));
    if (!absl::SimpleHexAtoi(hexadecimal, &file.sum)) return WrongKey("sum", "no number");
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

}  // namespace

std::string Print(const CheckpointState& state) {
  OrderedJson tree = {{"format", kFormat}};
  (void)ForEveryKey(state, state.history, [&tree](const char* key, const auto& value) {
    tree[key] = value;
    return absl::OkStatus();
  });
  if (!state.deterministic) tree[kDeterministic] = false;
  tree["model"] = state.model;
  for (const auto& [name, file] : state.files) {
    tree["files"][name] = {{"bytes", file.bytes}, {"sum", absl::StrFormat("%016x", file.sum)}};
  }
  // A line for every key.
  std::string text = "{";
  for (const auto& [key, value] : tree.items()) {
    absl::StrAppend(&text, text.size() == 1 ? "" : ",", "\n  \"", key,
                    "\": ", value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  return text + "\n}\n";
}

absl::StatusOr<CheckpointState> ParseCheckpointState(absl::string_view text) {
  SL_ASSIGN_OR_RETURN(const nlohmann::json tree, ParseJsonObject(text, "the state", kDeepest));
  const nlohmann::json* const format = Find(tree, "format");
  if (format == nullptr || !format->is_string() || format->get<std::string>() != kFormat) {
    return WrongKey("format", absl::StrCat("not '", kFormat, "'"));
  }
  CheckpointState state;
  SL_RETURN_IF_ERROR(
      ForEveryKey(state, state.history, [&tree](const char* key, auto& value) -> absl::Status {
        const nlohmann::json* const found = Find(tree, key);
        return found == nullptr ? WrongKey(key, "missing") : Take(*found, key, &value);
      }));
  if (const nlohmann::json* const found = Find(tree, kDeterministic); found != nullptr) {
    if (!found->is_boolean()) return WrongKey(kDeterministic, "neither true nor false");
    state.deterministic = found->get<bool>();
  }
  SL_RETURN_IF_ERROR(TakeModel(tree, &state));
  SL_RETURN_IF_ERROR(TakeFiles(tree, &state));
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
