#include "tools/training/agreement.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "executor/run/run_keys.h"
#include "schedlang/base/fnv.h"
#include "stages/text.h"
#include "tools/training/fingerprint.h"

namespace stringline {
namespace {

namespace fs = std::filesystem;

constexpr OwnKey kOwnKeys[] = {
    {"schedule.file", "a path: the plan is compared"},
    {"schedule.name", "a name in that file: the plan is compared"},
    {"model.folder", "a path: the sizes and the files are compared"},
    {"model.export", "a path: the program and the file are compared"},
    {"model.dropout", "it is 0, or a config with dropout is refused"},
    {"data.text", "a path: the file is compared"},
    {"data.tokens", "a path: the file is compared"},
    {"data.samples", "a path: the file is compared"},
    {"data.packed", "a path: the file is compared, or the token is"},
    {"evaluate.text", "a path: the file is compared"},
    {"evaluate.tokens", "a path: the file is compared"},
    {"evaluate.samples", "a path: the file is compared"},
    {"evaluate.packed", "a path: the file is compared, or the token is"},
    {"evaluate.schedule", "a path: the plan is compared"},
    {"train.threads", "the cores of a process: results do not depend on them"},
    {"checkpoint.keep", "the first process removes checkpoints"},
    {"metrics.file", "the first process notes metrics"},
    {"metrics.prometheus", "the first process notes metrics"},
    {"metrics.tensorboard", "the first process notes metrics"},
    {"device", "auto may mean the same as its result, which is compared"},
    {"transport", "auto may mean the same as its result, and who takes another does not meet"},
    {"capture", "a captured step computes the same as an issued one"},
    {"gpus", "a process of several has a GPU of its own, and refuses the key"},
    {"sms_per_rank", "a process of several has a GPU of its own, and refuses the key"},
    {"timeout", "how long a process waits is its own"},
    {"elastic", "the process that starts the others reads it"},
};

// The linker's sum over this program (GNU build id), which is in memory with it: another compiler,
// other options or another commit give another. "none" where the linker was told to leave it out.
std::string BuildId() {
  std::string id = "none";
  const auto visit = [](dl_phdr_info* info, size_t, void* found) {
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& header = info->dlpi_phdr[i];
      if (header.p_type != PT_NOTE) continue;
      const auto* at = reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr);
      const char* const end = at + header.p_memsz;
      while (end - at >= static_cast<std::ptrdiff_t>(sizeof(ElfW(Nhdr)))) {
        ElfW(Nhdr) note;
        std::memcpy(&note, at, sizeof(note));
        const char* const name = at + sizeof(note);
        const char* const bytes = name + (note.n_namesz + 3) / 4 * 4;
        if (bytes + note.n_descsz > end) break;
        if (note.n_type == NT_GNU_BUILD_ID &&
            absl::string_view(name, note.n_namesz) == absl::string_view("GNU", sizeof("GNU"))) {
          *static_cast<std::string*>(found) =
              absl::BytesToHexString(absl::string_view(bytes, note.n_descsz));
        }
        at = bytes + (note.n_descsz + 3) / 4 * 4;
      }
    }
    return 1;  // the first object is the program
  };
  (void)dl_iterate_phdr(visit, &id);
  return id;
}

std::string PrintPlan(const Plan& plan) {
  Fnv hash;
  for (const unsigned char c : Print(plan)) hash.Add(c);
  return absl::StrCat(plan.schedule, " ", PrintParameters(plan), ": ", plan.actions.size(),
                      " actions, ", absl::Hex(hash.value()));
}

// The files behind a loaded folder; "none" without a folder.
std::string PrintFolder(const std::string& folder) {
  if (folder.empty()) return "none";
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    const bool is_read =
        name == "config.json" || name == "generation_config.json" ||
        absl::EndsWith(name, ".safetensors.index.json") ||
        (absl::EndsWith(name, ".safetensors") && !absl::StartsWith(name, "optimizer-"));
    if (is_read) files.push_back(at->path().string());
  }
  std::sort(files.begin(), files.end());
  return FingerprintOf(files);
}

std::string PrintFile(const std::string& file) {
  return file.empty() ? std::string("none") : FingerprintOf(file);
}

std::string PrintFiles(const DataFiles& data) {
  std::string text = !data.samples.empty() ? absl::StrCat("samples of ", PrintFile(data.samples))
                     : data.tokens.empty() ? absl::StrCat("text of ", PrintFile(data.text))
                                           : absl::StrCat("tokens of ", PrintFile(data.tokens));
  if (!data.packed.lengths.empty()) {
    absl::StrAppend(&text, ", lengths of ", PrintFile(data.packed.lengths));
  }
  if (data.packed.end >= 0) absl::StrAppend(&text, ", documents end with ", data.packed.end);
  return text;
}

}  // namespace

absl::Span<const OwnKey> OwnKeys() { return kOwnKeys; }

ConfigLines AgreementOf(const RunConfig& config, const Plan& plan, const RunFolders& folders,
                        const Plan* evaluation) {
  ConfigLines lines;
  for (auto& setting : SettingsOf(config)) {
    const auto own = std::find_if(std::begin(kOwnKeys), std::end(kOwnKeys),
                                  [&](const OwnKey& of) { return of.key == setting.first; });
    if (own == std::end(kOwnKeys)) lines.push_back(std::move(setting));
  }
  const ConfigLines more = {
      {"version", STRINGLINE_VERSION},
      {"build", BuildId()},
      {"plan", PrintPlan(plan)},
      {"plan of evaluations", evaluation == nullptr ? "none" : PrintPlan(*evaluation)},
      {"contents of data", PrintFiles(config.data)},
      {"contents of data of evaluations", PrintFiles(config.evaluate.data)},
      {"contents of model.folder", PrintFolder(config.model_folder)},
      {"contents of model.export", PrintFile(config.model_export)},
      {"contents of --load", PrintFolder(folders.load)},
      {"--save", folders.save.empty() ? "not given" : "given"},
      {"--resume", config.resume},
      {"--evaluate", config.evaluate.alone ? "given" : "not given"},
      {"--strict", config.strict ? "given" : "not given"},
      {"--link", absl::StrCat(config.link.latency_ns, "ns, ", PrintNumber(config.link.bytes_per_s),
                              " bytes/s")}};
  lines.insert(lines.end(), more.begin(), more.end());
  return lines;
}

}  // namespace stringline
