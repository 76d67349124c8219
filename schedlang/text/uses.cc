#include "schedlang/text/uses.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schedlang/text/parse.h"

namespace stringline {
namespace {

class UseReader {
 public:
  UseReader(Source* source, const ReadUsed& read, Diagnostics* diagnostics)
      : source_(*source), read_(read), diagnostics_(diagnostics) {}

  std::optional<ast::File> Run() {
    std::optional<ast::File> file = Parse(source_, diagnostics_);
    const std::string path = std::filesystem::path(source_.path()).lexically_normal().string();
    if (!file || !ReadUses(path, &*file)) return std::nullopt;
    return file;
  }

 private:
  // Reads all files used by `file`, which was read from `path`, even after a finding.
  bool ReadUses(const std::string& path, ast::File* file) {
    open_.push_back(path);
    bool good = true;
    for (ast::Use& use : file->uses) good = ReadUse(path, &use) && good;
    open_.pop_back();
    return good && NamesAreFree(*file);
  }

  bool ReadUse(const std::string& user, ast::Use* use) {
    const absl::StatusOr<Source> used = read_(use->path, user);
    if (!used.ok()) return Bad(use->span, std::string(used.status().message()));
    if (const auto known = files_.find(used->path()); known != files_.end()) {
      use->file = known->second;
      return use->file != nullptr;  // its findings are reported already
    }
    const auto open = std::find(open_.begin(), open_.end(), used->path());
    if (open != open_.end()) return Bad(use->span, Cycle(open, used->path()));
    if (open_.size() > static_cast<size_t>(kDeepestUse)) {
      diagnostics_->Add(Code::kTooDeep, use->span,
                        absl::StrCat("files use files more than ", kDeepestUse, " deep here"));
      return false;
    }
    if (source_.next_offset() + used->text().size() > kMostUsedBytes) {
      return Bad(use->span, absl::StrCat(used->path(), ": with it, the files that are used hold ",
                                         "more than ", kMostUsedBytes >> 20, " MiB"));
    }
    use->file = ReadFile(*used, use->span);
    files_[used->path()] = use->file;
    return use->file != nullptr;
  }

  // Null after a finding.
  std::shared_ptr<const ast::File> ReadFile(const Source& used, Span use) {
    const uint32_t first_offset = source_.next_offset();
    source_.Append(used);
    Diagnostics findings;
    std::optional<ast::File> file = Parse(used, &findings, first_offset);
    for (const Diagnostic& finding : findings.findings()) {
      Diagnostic& added = diagnostics_->Add(finding.code, finding.span, finding.text);
      added.notes = finding.notes;
      added.notes.push_back({use, "the file is used here", ""});
    }
    if (!file || !ReadUses(used.path(), &*file)) return nullptr;
    return std::make_shared<const ast::File>(*std::move(file));
  }

  // Checks that no schedule of a used file has a name taken in `file`.
  bool NamesAreFree(const ast::File& file) {
    std::map<absl::string_view, Span> taken;
    for (const ast::Schedule& own : file.schedules) taken.emplace(own.name.text, own.name.span);
    std::map<const ast::File*, Span> before;
    bool good = true;
    for (const ast::Use& use : file.uses) {
      const auto [first, is_new] = before.emplace(use.file.get(), use.span);
      if (!is_new) {
        diagnostics_->Add(Code::kRedefined, use.span, "this file is used a second time")
            .notes.push_back({first->second, "the first time is here", ""});
        good = false;
        continue;
      }
      for (const ast::Schedule& schedule : use.file->schedules) {
        const auto [it, is_free] = taken.emplace(schedule.name.text, schedule.name.span);
        if (is_free) continue;
        diagnostics_
            ->Add(Code::kRedefined, use.span,
                  absl::StrCat("it holds a second schedule '", schedule.name.text, "'"))
            .notes = {{it->second, "the first one is here", ""},
                      {schedule.name.span, "the second one is here", ""}};
        good = false;
      }
    }
    return good;
  }

  std::string Cycle(std::vector<std::string>::const_iterator first, const std::string& path) {
    if (first + 1 == open_.end()) return "the file uses itself";
    return absl::StrCat(
        "files use each other in a cycle: ", absl::StrJoin(first, open_.cend(), ", "), ", ", path);
  }

  bool Bad(Span span, std::string text) {
    diagnostics_->Add(Code::kBadUse, span, std::move(text));
    return false;
  }

  Source& source_;
  const ReadUsed& read_;
  Diagnostics* diagnostics_;
  std::vector<std::string> open_;  // files whose uses are being read, each used by its predecessor
  std::map<std::string, std::shared_ptr<const ast::File>> files_;  // files read; null: a finding
};

}  // namespace

std::optional<ast::File> ParseWithUses(Source* source, const ReadUsed& read,
                                       Diagnostics* diagnostics) {
  return UseReader(source, read, diagnostics).Run();
}

}  // namespace stringline
