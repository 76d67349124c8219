#include "schedlang/torch/open_trace.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <streambuf>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schedlang/base/bytes.h"
#include "schedlang/base/open_file.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

struct CloseGzip {
  void operator()(gzFile file) const { gzclose(file); }
};
using GzipFile = std::unique_ptr<gzFile_s, CloseGzip>;

// The most that a gzipped trace may become: so many times its size, and this in any case. Traces
// are text, and become ten to forty times their size.
constexpr int64_t kMostUnpacked = int64_t{256} << 20;
constexpr int64_t kMostTimes = 200;

// The bytes of a file, unpacked if gzipped. A broken file ends early, and so does a bomb.
class UnpackedBytes : public std::streambuf {
 public:
  explicit UnpackedBytes(gzFile file) : file_(file) {}
  bool is_bomb() const { return is_bomb_; }

 protected:
  int_type underflow() override {
    const int count = gzread(file_, bytes_.data(), static_cast<unsigned>(bytes_.size()));
    if (count <= 0) return traits_type::eof();
    unpacked_ += count;
    is_bomb_ = is_bomb_ || (gzdirect(file_) == 0 && unpacked_ > kMostUnpacked &&
                            unpacked_ / kMostTimes > gzoffset(file_));
    if (is_bomb_) return traits_type::eof();
    setg(bytes_.data(), bytes_.data(), bytes_.data() + count);
    return traits_type::to_int_type(bytes_[0]);
  }

 private:
  gzFile file_;
  int64_t unpacked_ = 0;
  bool is_bomb_ = false;
  std::vector<char> bytes_ = std::vector<char>(1 << 18);
};

}  // namespace

bool IsTraceName(absl::string_view path) {
  return absl::EndsWith(path, ".json") || absl::EndsWith(path, ".json.gz");
}

absl::StatusOr<std::vector<std::string>> TraceFilesOf(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> inside;
    for (auto entry = fs::directory_iterator(path, error);
         !error && entry != fs::directory_iterator(); entry.increment(error)) {
      const std::string name = entry->path().string();
      if (IsTraceName(name) && entry->is_regular_file(error)) inside.push_back(name);
    }
    if (error) return absl::PermissionDeniedError(absl::StrCat(path, ": ", error.message()));
    if (inside.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": no trace is in this folder, nothing named *.json or *.json.gz"));
    }
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

absl::Status ReadUnpacked(const std::string& file,
                          const std::function<absl::Status(std::istream& text)>& read) {
  SL_ASSIGN_OR_RETURN(const int descriptor, OpenToRead(file));
  const GzipFile unpacked(gzdopen(descriptor, "rb"));
  if (!unpacked) {
    close(descriptor);
    return absl::ResourceExhaustedError(absl::StrCat(file, ": no memory to unpack it"));
  }
  UnpackedBytes bytes(unpacked.get());
  std::istream text(&bytes);
  absl::Status status = read(text);
  if (bytes.is_bomb()) {
    return absl::InvalidArgumentError(absl::StrCat(
        file, ": unpacks to more than ", PrintBytes(kMostUnpacked, 0), ", ", kMostTimes,
        " times its size and more, as no trace does; a file that is not packed has no such limit"));
  }
  return status;
}

absl::StatusOr<RankTrace> OpenRankTrace(const std::string& file) {
  absl::StatusOr<RankTrace> trace = absl::UnknownError(file);
  SL_RETURN_IF_ERROR(ReadUnpacked(file, [&](std::istream& json) {
    trace = ReadRankTrace(json, file);
    return trace.status();
  }));
  return trace;
}

}  // namespace stringline
