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
#include "schedlang/base/open_file.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

struct CloseGzip {
  void operator()(gzFile file) const { gzclose(file); }
};
using GzipFile = std::unique_ptr<gzFile_s, CloseGzip>;

class UnpackedBytes : public std::streambuf {
 public:
  explicit UnpackedBytes(GzipFile file) : file_(std::move(file)) {}

 protected:
  int_type underflow() override {
    const int count = gzread(file_.get(), bytes_.data(), static_cast<unsigned>(bytes_.size()));
    if (count <= 0) return traits_type::eof();
    setg(bytes_.data(), bytes_.data(), bytes_.data() + count);
    return traits_type::to_int_type(bytes_[0]);
  }

 private:
  GzipFile file_;
  std::vector<char> bytes_ = std::vector<char>(1 << 18);
};

class UnpackedFile : public std::istream {
 public:
  explicit UnpackedFile(GzipFile file) : std::istream(nullptr), bytes_(std::move(file)) {
    rdbuf(&bytes_);
  }

 private:
  UnpackedBytes bytes_;
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

absl::StatusOr<std::unique_ptr<std::istream>> OpenUnpacked(const std::string& file) {
  SL_ASSIGN_OR_RETURN(const int descriptor, OpenToRead(file));
  GzipFile unpacked(gzdopen(descriptor, "rb"));
  if (!unpacked) {
    close(descriptor);
    return absl::ResourceExhaustedError(absl::StrCat(file, ": no memory to unpack it"));
  }
  return std::make_unique<UnpackedFile>(std::move(unpacked));
}

absl::StatusOr<RankTrace> OpenRankTrace(const std::string& file) {
  SL_ASSIGN_OR_RETURN(const std::unique_ptr<std::istream> json, OpenUnpacked(file));
  return ReadRankTrace(*json, file);
}

}  // namespace stringline
