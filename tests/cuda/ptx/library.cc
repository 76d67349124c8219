#include "tests/cuda/ptx/library.h"

#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"
#include "tests/cuda/standin/kernel_names.h"

namespace stringline::ptx {

absl::StatusOr<std::unique_ptr<Library>> Library::Make(absl::Span<const std::string> texts) {
  auto library = std::make_unique<Library>();
  for (const std::string& text : texts) {
    SL_ASSIGN_OR_RETURN(library->modules_.emplace_back(), ParseModule(text));
    const Module& module = library->modules_.back();
    for (const Variable& variable : module.variables) {
      if (variable.space != Variable::Space::kGlobal) continue;
      auto& memory = library->memory_.emplace_back(variable.bytes / 8 + 1);
      if (!variable.values.empty()) {
        std::memcpy(memory.data(), variable.values.data(), variable.values.size());
      }
      const auto begin = reinterpret_cast<uint64_t>(memory.data());
      library->variables_[&module][variable.name] = begin;
      library->constants_.push_back(
          {begin, begin + static_cast<uint64_t>(variable.bytes), false, true, 0, 0, nullptr});
    }
    for (const Function& function : module.functions) {
      if (function.is_entry) library->entries_[function.name] = {&module, &function, nullptr};
    }
  }
  return library;
}

absl::StatusOr<std::unique_ptr<Library>> Library::Load(absl::Span<const std::string> files) {
  std::vector<std::string> texts;
  for (const std::string& file : files) {
    std::ifstream in(file);
    std::ostringstream text;
    text << in.rdbuf();
    if (!in) return absl::NotFoundError(absl::StrCat(file, ": cannot be read"));
    texts.push_back(std::move(text).str());
  }
  return Make(texts);
}

std::vector<std::string> Library::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

absl::StatusOr<const Program*> Library::Find(const std::string& name) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return absl::NotFoundError(absl::StrCat("no kernel ", name));
  Entry& entry = found->second;
  if (entry.program == nullptr) {
    SL_ASSIGN_OR_RETURN(Program program,
                        DecodeKernel(*entry.module, *entry.function, variables_[entry.module]));
    program.shown = ShownKernel(Demangled(name));
    entry.program = std::make_unique<Program>(std::move(program));
  }
  return entry.program.get();
}

Played Player::Play(const Program& program, const LaunchSize& size, void* const* args,
                    const LaunchMemory& allowed, std::vector<Saved>* saved) {
  // Of memory that is freed, too.
  constexpr size_t kMostTraces = size_t{1} << 30;
  if (traces_.bytes() > kMostTraces) traces_.Forget();
  std::vector<uint64_t> params(static_cast<size_t>(program.param_bytes) / 8 + 1);
  for (size_t i = 0; i < program.params.size(); ++i) {
    std::memcpy(reinterpret_cast<std::byte*>(params.data()) + program.param_at[i], args[i],
                static_cast<size_t>(program.params[i].bytes));
  }
  std::vector<Piece> allocations = allowed.allocations;
  for (const Piece& constant : library_.constants()) allocations.push_back(constant);
  Memory memory(std::move(allocations), allowed.declared, program.global_unit, &traces_, saved);
  Launch launch;
  launch.program = &program;
  launch.grid = size.grid;
  launch.block = size.block;
  launch.dynamic_shared = size.dynamic_shared;
  launch.params = reinterpret_cast<const std::byte*>(params.data());
  launch.memory = &memory;
  launch.without = &program == changed_ ? without_ : -1;
  launch.most_instructions = most_instructions_;
  Time time;
  time.interval = interval_;
  time.interval.launch = time.interval.now + 1;
  BlockPlayer player(launch, &time);
  Played played;
  for (unsigned z = 0; z < size.grid.z; ++z) {
    for (unsigned y = 0; y < size.grid.y; ++y) {
      for (unsigned x = 0; x < size.grid.x && played.fault.empty(); ++x) {
        played.fault = player.Play({x, y, z});
      }
    }
  }
  interval_ = time.interval;
  played.ns = time.ns;
  played.instructions = time.instructions;
  return played;
}

}  // namespace stringline::ptx
