#include "tests/cuda/ptx/played.h"

#include <algorithm>

#include "absl/strings/str_split.h"
#include "schedlang/base/sl_check.h"

namespace stringline::ptx {
namespace {

std::unique_ptr<Library> LoadLibrary() {
  const std::vector<std::string> files = absl::StrSplit(STRINGLINE_PTX_FILES, ':');
  auto library = Library::Load(files);
  SL_CHECK(library.ok()) << library.status();
  return *std::move(library);
}

std::vector<Piece> PiecesOf(const std::vector<StandinLaunch::Bytes>& all) {
  std::vector<Piece> pieces;
  for (const StandinLaunch::Bytes& bytes : all) {
    const auto begin = reinterpret_cast<uint64_t>(bytes.begin);
    if (bytes.bytes > 0)
      pieces.push_back({begin, begin + bytes.bytes, bytes.writes, false, 0, 0, nullptr});
  }
  return pieces;
}

}  // namespace

PlayedKernels& PlayedKernels::Get() {
  static auto* const kernels = new PlayedKernels;
  return *kernels;
}

PlayedKernels::PlayedKernels() : library_(LoadLibrary()), player_(library_.get()) {
  standin_.sizes = [this](const char* kernel, std::vector<size_t>* sizes) {
    const auto program = library_->Find(kernel);
    if (absl::IsNotFound(program.status())) return false;
    SL_CHECK(program.ok()) << program.status();
    for (const Variable& param : (*program)->params) {
      sizes->push_back(static_cast<size_t>(param.bytes));
    }
    return true;
  };
  standin_.play = [this](const StandinLaunch& launch) { return Play(launch); };
}

StandinPlayed PlayedKernels::Play(const StandinLaunch& launch) {
  const Program& program = **library_->Find(launch.kernel);
  const LaunchSize size = {{launch.grid[0], launch.grid[1], launch.grid[2]},
                           {launch.block[0], launch.block[1], launch.block[2]},
                           static_cast<int64_t>(launch.shared)};
  LaunchMemory allowed = {PiecesOf(launch.memory), PiecesOf(launch.declared)};
  if (memory_) {
    for (const Piece& piece : memory_()) allowed.allocations.push_back(piece);
  }
  const Played played = takes_out_ ? removal_.Play(&player_, program, size, launch.args, allowed)
                                   : player_.Play(program, size, launch.args, allowed);
  ++launches_[program.name];
  int64_t& shared = shared_[program.shown];
  shared = std::max(shared, program.shared_bytes + size.dynamic_shared);
  instructions_ += played.instructions;
  return {played.fault, played.ns};
}

}  // namespace stringline::ptx
