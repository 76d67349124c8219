// Adjacent runs of a file are gathered in a buffer, and read or written at once: a matrix stored
// transposed has as many runs as columns.
#include "executor/checkpoint/shard_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/checkpoint/family_config.h"
#include "executor/checkpoint/model_sizes.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr int64_t kAtOnce = 1 << 18;  // values of a buffer

std::string In(const std::string& folder, const std::string& name) {
  return (std::filesystem::path(folder) / name).string();
}

// A file written by several processes, each at its own places.
class SharedFile {
 public:
  explicit SharedFile(std::string path) : path_(std::move(path)) { buffer_.reserve(kAtOnce); }
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;
  ~SharedFile() {
    if (file_ >= 0) (void)close(file_);
  }

  absl::Status Open() {
    file_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    return file_ >= 0 ? absl::OkStatus() : CannotWrite();
  }

  absl::Status WriteAt(int64_t offset, absl::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t written = pwrite(file_, bytes.data(), bytes.size(), offset);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return CannotWrite();
      bytes.remove_prefix(static_cast<size_t>(written));
      offset += written;
    }
    return absl::OkStatus();
  }

  // `count` values of the file from `place` on: `values` and every `stride`-th value after the
  // first. The file's values begin at byte `data`.
  absl::Status Add(int64_t data, int64_t place, const float* values, int64_t count,
                   int64_t stride) {
    while (count > 0) {
      if (place != first_ + size() || size() == kAtOnce) {
        SL_RETURN_IF_ERROR(Flush(data));
        first_ = place;
      }
      const int64_t here = std::min(count, kAtOnce - size());
      for (int64_t i = 0; i < here; ++i) buffer_.push_back(values[i * stride]);
      values += here * stride;
      place += here;
      count -= here;
    }
    return absl::OkStatus();
  }

  absl::Status Flush(int64_t data) {
    if (buffer_.empty()) return absl::OkStatus();
    sum_ += SumOfPlaces(buffer_, first_);
    const absl::string_view bytes(reinterpret_cast<const char*>(buffer_.data()),
                                  buffer_.size() * sizeof(float));
    const absl::Status written =
        WriteAt(data + first_ * static_cast<int64_t>(sizeof(float)), bytes);
    buffer_.clear();
    return written;
  }

  absl::Status Force() {
    // A file system that cannot force a file to the disk gives EINVAL.
    if (fsync(file_) != 0 && errno != EINVAL) return CannotWrite();
    return close(std::exchange(file_, -1)) == 0 ? absl::OkStatus() : CannotWrite();
  }

  uint64_t sum() const { return sum_; }

 private:
  int64_t size() const { return static_cast<int64_t>(buffer_.size()); }
  absl::Status CannotWrite() const {
    return absl::UnavailableError(
        absl::StrCat(path_, ": cannot be written: ", std::strerror(errno)));
  }

  const std::string path_;
  int file_ = -1;
  int64_t first_ = 0;  // place of the first value in the buffer
  std::vector<float> buffer_;
  uint64_t sum_ = 0;
};

// Writes a file's part of the copy.
class FileWriter {
 public:
  FileWriter(const StateLayout& layout, int file, const StateCopy& copy)
      : layout_(layout), file_(file), copy_(copy) {}

  bool IsNeeded(int process) const {
    bool needed = layout_.files[file_].owner == process;
    ForEverySlice([&](const PlacedSlice& slice, size_t range, StateKind) {
      const StateRange& of = copy_.ranges()[range];
      ForEachRun(slice.stored, of.first, of.count, [&](const StoredRun&) { needed = true; });
    });
    return needed;
  }

  absl::StatusOr<uint64_t> Write(const std::string& path, const std::string& header, bool owns) {
    SharedFile out(path);
    SL_RETURN_IF_ERROR(out.Open());
    if (owns) SL_RETURN_IF_ERROR(out.WriteAt(0, header));
    const auto data = static_cast<int64_t>(header.size());
    absl::Status status;
    ForEverySlice([&](const PlacedSlice& slice, size_t range, StateKind kind) {
      const StateRange& of = copy_.ranges()[range];
      const absl::Span<const float> values = copy_.Of(range, kind);
      ForEachRun(slice.stored, of.first, of.count, [&](const StoredRun& run) {
        if (!status.ok()) return;
        status = out.Add(data, slice.first + run.stored, &values[run.first - of.first], run.count,
                         run.stride);
      });
    });
    if (status.ok() && owns) status = AddRests(data, &out);
    if (status.ok()) status = out.Flush(data);
    if (status.ok()) status = out.Force();
    if (!status.ok()) return status;
    return out.sum();
  }

 private:
  // Writes values of this file outside all parameters; only the file's owner calls this.
  absl::Status AddRests(int64_t data, SharedFile* out) const {
    for (const std::vector<PlacedSlice>& slices : layout_.slices[kValues]) {
      for (const PlacedSlice& slice : slices) {
        const absl::Span<const float> rest = slice.stored.rest();
        if (slice.file != file_ || rest.empty()) continue;
        SL_RETURN_IF_ERROR(out->Add(data, slice.first + slice.stored.rows * slice.stored.columns,
                                    rest.data(), static_cast<int64_t>(rest.size()), 1));
      }
    }
    return absl::OkStatus();
  }

  // Visits the slices of this file in which this process may have values.
  template <typename Visit>
  void ForEverySlice(Visit visit) const {
    for (size_t r = 0; r < copy_.ranges().size(); ++r) {
      for (const StateKind kind : {kValues, kFirstMoment, kSecondMoment}) {
        for (const PlacedSlice& slice : layout_.slices[kind][copy_.ranges()[r].tensor]) {
          if (slice.file == file_) visit(slice, r, kind);
        }
      }
    }
  }

  const StateLayout& layout_;
  const int file_;
  const StateCopy& copy_;
};

absl::Status WrongFile(const std::string& path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

// Values `first`, … of a parameter, as far as the slice has them.
absl::Status ReadSlice(const StoredSlice& slice, const PlacedTensor& from, int64_t first,
                       absl::Span<float> values) {
  absl::Status status;
  std::vector<float> buffer;
  std::vector<StoredRun> runs;  // adjacent in the file, and their length there
  int64_t begin = 0, end = 0;
  const auto read = [&] {
    buffer.resize(static_cast<size_t>(end - begin));
    if (status.ok() && !runs.empty()) {
      status = from.file->Read(*from.tensor, static_cast<uint64_t>(begin), absl::MakeSpan(buffer));
    }
    for (const StoredRun& run : runs) {
      for (int64_t i = 0; i < run.count && status.ok(); ++i) {
        values[run.first - first + i * run.stride] = buffer[run.stored - begin + i];
      }
    }
    runs.clear();
  };
  ForEachRun(slice, first, static_cast<int64_t>(values.size()), [&](const StoredRun& run) {
    if (run.stride == 1) {
      status.Update(from.file->Read(*from.tensor, static_cast<uint64_t>(run.stored),
                                    values.subspan(run.first - first, run.count)));
      return;
    }
    if (run.stored != end || end - begin >= kAtOnce) {
      read();
      begin = run.stored;
    }
    runs.push_back(run);
    end = run.stored + run.count;
  });
  read();
  return status;
}

// A tensor may have more rows than the parameter, where the family's table says so.
bool Fits(const StoredSlice& slice, const StoredTensor& tensor) {
  std::vector<uint64_t> wanted = slice.shape();
  if (slice.longer && tensor.shape.size() == wanted.size()) {
    wanted[0] = std::max(wanted[0], tensor.shape[0]);
  }
  return tensor.shape == wanted && tensor.dtype == "F32";
}

int64_t ValuesOf(const TensorFile& file) {
  const std::vector<StoredTensor>& tensors = file.header().tensors;
  return tensors.empty() ? 0 : static_cast<int64_t>(tensors.back().end / sizeof(float));
}

std::string SaidBy(const TensorFile& file, const char* key) {
  const auto found = file.header().metadata.find(key);
  return found == file.header().metadata.end() ? "" : found->second;
}

}  // namespace

StateCopy::StateCopy(std::vector<StateRange> ranges) : ranges_(std::move(ranges)) {
  int64_t all = 0;
  for (const StateRange& range : ranges_) {
    first_.push_back(all);
    all += kStateKinds * range.count;
  }
  values_.resize(static_cast<size_t>(all));
}

absl::Span<float> StateCopy::Of(size_t range, StateKind kind) {
  const int64_t count = ranges_[range].count;
  return absl::MakeSpan(values_).subspan(static_cast<size_t>(first_[range] + kind * count),
                                         static_cast<size_t>(count));
}

absl::Span<const float> StateCopy::Of(size_t range, StateKind kind) const {
  return const_cast<StateCopy*>(this)->Of(range, kind);
}

int64_t StateCopy::BytesOf(absl::Span<const StateRange> ranges) {
  int64_t values = 0;
  for (const StateRange& range : ranges) values += range.count;
  return kStateKinds * values * static_cast<int64_t>(sizeof(float));
}

std::string HeaderOf(const StateFile& file, const CheckpointState& state) {
  TensorHeader header;
  header.tensors = file.tensors;
  header.metadata = state.model;
  header.metadata["format"] = "pt";
  header.metadata["run"] = state.run;
  header.metadata["steps"] = absl::StrCat(state.step);
  return PrintTensorHeader(header);
}

absl::StatusOr<std::vector<uint64_t>> WriteShards(const std::string& folder,
                                                  const StateLayout& layout,
                                                  const CheckpointState& state, int process,
                                                  const StateCopy& copy) {
  std::vector<uint64_t> sums(layout.files.size());
  for (size_t f = 0; f < layout.files.size(); ++f) {
    const StateFile& file = layout.files[f];
    FileWriter writer(layout, static_cast<int>(f), copy);
    if (!writer.IsNeeded(process)) continue;
    SL_ASSIGN_OR_RETURN(
        sums[f], writer.Write(In(folder, file.name), HeaderOf(file, state), file.owner == process));
  }
  return sums;
}

absl::StatusOr<ShardFiles> ShardFiles::Open(const std::string& folder,
                                            const CheckpointState& state) {
  ShardFiles shards;
  for (const auto& [name, said] : state.files) {
    const std::string path = In(folder, name);
    std::error_code error;
    const uintmax_t bytes = std::filesystem::file_size(path, error);
    if (!error && static_cast<int64_t>(bytes) != said.bytes) {
      return WrongFile(path, absl::StrCat("has ", bytes, " bytes; ", said.bytes, " were written"));
    }
    SL_ASSIGN_OR_RETURN(TensorFile opened, TensorFile::Open(path));
    shards.files_.push_back(std::make_unique<TensorFile>(std::move(opened)));
    const TensorFile& file = *shards.files_.back();
    if (SaidBy(file, "run") != state.run) return WrongFile(path, "is of another run's checkpoint");
    if (SaidBy(file, "steps") != absl::StrCat(state.step)) {
      return WrongFile(path, absl::StrCat("is of the checkpoint after ", SaidBy(file, "steps"),
                                          " steps, not after ", state.step));
    }
    if (said.header) {
      SL_ASSIGN_OR_RETURN(const std::string header, file.ReadHeader());
      if (SumOfText(header) != *said.header) {
        return WrongFile(path, "begins with another list of tensors than was written");
      }
    }
    for (const StoredTensor& tensor : file.header().tensors) {
      shards.tensors_[tensor.name] = {&file, &tensor};
    }
  }
  return shards;
}

// The values of all files are one row, of which the parts are of equal length.
absl::StatusOr<std::vector<uint64_t>> ShardFiles::SumsOfPart(
    int part, int parts, absl::FunctionRef<void()> working) const {
  int64_t all = 0;
  for (const auto& file : files_) all += ValuesOf(*file);
  const int64_t from = all * part / parts, to = all * (part + 1) / parts;
  std::vector<uint64_t> sums(files_.size());
  std::vector<float> values;
  int64_t before = 0;  // values of earlier files
  for (size_t f = 0; f < files_.size(); before += ValuesOf(*files_[f++])) {
    for (const StoredTensor& tensor : files_[f]->header().tensors) {
      if (tensor.dtype != "F32") {
        return WrongFile(files_[f]->path(), "holds something else than F32");
      }
      const auto begin = static_cast<int64_t>(tensor.begin / sizeof(float));
      const auto end = static_cast<int64_t>(tensor.end / sizeof(float));
      const int64_t last = std::min(end, to - before);
      for (int64_t at = std::max(begin, from - before); at < last; at += kAtOnce) {
        values.resize(static_cast<size_t>(std::min(kAtOnce, last - at)));
        SL_RETURN_IF_ERROR(
            files_[f]->Read(tensor, static_cast<uint64_t>(at - begin), absl::MakeSpan(values)));
        sums[f] += SumOfPlaces(values, at);
        working();
      }
    }
  }
  return sums;
}

absl::Status ShardFiles::Read(const Param& param, const AnyShape& shape, StateKind kind,
                              int64_t first, absl::Span<float> values) const {
  for (const StoredSlice& slice : SlicesOfState(param, shape, kind)) {
    const auto found = tensors_.find(slice.name);
    if (found == tensors_.end() || !Fits(slice, *found->second.tensor)) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", Quoted(slice.name), " is missing, or of another shape"));
    }
    SL_RETURN_IF_ERROR(ReadSlice(slice, found->second, first, values));
  }
  return absl::OkStatus();
}

}  // namespace stringline
