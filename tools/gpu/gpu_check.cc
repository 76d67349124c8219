// gpu_check [FOLDER [first | second | SECTION…]]: checks all behaviour that only a GPU can show,
// section by section; prints findings as they come, and keeps them in a table of FOLDER: gpu_check
// or, of a half, gpu_check_first or gpu_check_second, as .md and .json. `gpu_check --help` lists
// the sections.
//
// Exit status: 0 if no check failed, 1 if some did, 2 if a section is unknown or the files could
// not be written.
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"
#include "schedlang/base/write_file.h"
#include "tools/gpu/chosen_sections.h"
#include "tools/gpu/sections.h"

namespace stringline {
namespace {

// CUDA's name of the device. A section of its own, since this process must not call CUDA.
void NameDevice(CheckRows* rows) {
  cudaDeviceProp properties;
  int driver = 0, runtime = 0;
  const cudaError_t error = cudaGetDeviceProperties(&properties, 0);
  if (error != cudaSuccess) return rows->Fail("", cudaGetErrorString(error));
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  rows->Pass("", absl::StrCat(properties.name, ", ", properties.multiProcessorCount, " SMs, ",
                              properties.totalGlobalMem >> 30, " GiB, driver for CUDA ",
                              driver / 1000, ".", driver % 1000 / 10, ", runtime ", runtime / 1000,
                              ".", runtime % 1000 / 10));
}

// The file beside the program, if packed; otherwise in the checkout.
std::string PackedOr(const std::string& name, const std::string& in_checkout) {
  std::error_code error;
  const auto packed = std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / name;
  return std::filesystem::exists(packed, error) ? packed.string() : in_checkout;
}

std::vector<CheckSection> SectionsHere() {
  CheckFiles files;
  std::error_code error;
  files.program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  files.schedules = PackedOr("schedules", files.schedules);
  files.torch_speed = PackedOr("torch_speed.py", files.torch_speed);
  files.paper = PackedOr("paper.json", files.paper);
  return AllSections(files);
}

void Print(const CheckRow& row) {
  std::cout << NameOf(row.result) << "  " << row.section << ": " << row.name
            << (row.said.empty() ? "" : "  ") << row.said << std::endl;
}

// `--here SECTION`: a section in this process, for a program that watches it.
int RunHere(const std::string& name) {
  struct Printed final : CheckRows {
    void Say(CheckRow row) override {
      Print(row);
      failed = failed || row.result == CheckResult::kFail;
    }
    bool failed = false;
  } rows;
  for (const CheckSection& section : SectionsHere()) {
    if (section.name != name) continue;
    section.run(&rows);
    return rows.failed ? 1 : 0;
  }
  return 2;
}

// Writes the table until now into both files; `path` is without their endings.
absl::Status Write(const std::string& path, const std::string& device, const std::string& date,
                   const std::vector<CheckRow>& rows) {
  SL_RETURN_IF_ERROR(WriteFileAtomically(path + ".md", PrintMarkdown(device, date, rows)));
  return WriteFileAtomically(path + ".json", PrintJson(device, date, rows));
}

std::string Today() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%d", std::gmtime(&now));
  return text;
}

int Main(const std::string& folder, const std::vector<std::string>& words) {
  const std::vector<CheckSection> all = SectionsHere();
  const absl::StatusOr<ChosenSections> chosen = ChooseSections(all, words);
  if (!chosen.ok()) {
    std::cerr << "gpu_check: " << chosen.status().message() << "\n";
    return 2;
  }
  const std::vector<CheckRow> named =
      RunSections({{"device", NameDevice, kNamingSeconds}}, [](const auto&) {});
  if (named.front().result != CheckResult::kPass) {
    std::cerr << "gpu_check: no GPU can be used: " << named.front().said << "\n";
    return 1;
  }
  const std::string device = named.front().said;
  std::cout << device << std::endl;
  const std::string date = Today();
  std::vector<CheckRow> rows;
  absl::Status written;
  const auto follow = [&](const CheckRow& row) {
    Print(row);
    rows.push_back(row);
    written = Write(absl::StrCat(folder, "/", chosen->table), device, date,
                    WithSectionsLeftOut(rows, all, *chosen));
  };
  for (const std::vector<CheckSection>& half : chosen->runs) {
    (void)RunSections(half, follow, kHalfSeconds - kNamingSeconds);
  }
  if (!written.ok()) {
    std::cerr << "gpu_check: " << written.message() << "\n";
    return 2;
  }
  const bool failed = std::any_of(rows.begin(), rows.end(), [](const CheckRow& row) {
    return row.result == CheckResult::kFail;
  });
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace stringline

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + std::min(argc, 2), argv + argc);
  const std::string folder = argc > 1 ? argv[1] : ".";
  if (folder == "--here" && words.size() == 1) return stringline::RunHere(words[0]);
  if (folder != "--help") return stringline::Main(folder, words);
  std::cout << "usage: gpu_check [FOLDER [first | second | SECTION…]]\n"
            << stringline::DescribeSections(stringline::SectionsHere());
  return 0;
}
