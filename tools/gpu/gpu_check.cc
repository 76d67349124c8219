// gpu_check [FOLDER [SECTION…]]: checks all behaviour that only a GPU can show, section by section,
// or in the given sections, in eight minutes at most; prints findings as they come, and keeps them
// in FOLDER/gpu_check.md and FOLDER/gpu_check.json.
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
#include "tools/gpu/sections.h"

namespace stringline {
namespace {

// Eight minutes, less the time for the device's name.
constexpr int kMostSeconds = 8 * 60 - 10;

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

// The sections requested; all by default. Empty if a name is unknown.
std::vector<CheckSection> SectionsOf(const std::vector<std::string>& names) {
  const std::vector<CheckSection> all = AllSections(
      PackedOr("schedules", "schedules"), PackedOr("torch_speed.py", "tools/gpu/torch_speed.py"));
  if (names.empty()) return all;
  std::vector<CheckSection> chosen;
  for (const std::string& name : names) {
    const auto found = std::find_if(
        all.begin(), all.end(), [&](const CheckSection& section) { return section.name == name; });
    if (found == all.end()) {
      std::cerr << "gpu_check: there is no section '" << name << "'; there are";
      for (const CheckSection& section : all) std::cerr << " " << section.name;
      std::cerr << "\n";
      return {};
    }
    chosen.push_back(*found);
  }
  return chosen;
}

// Writes all findings until now into both files.
absl::Status Write(const std::string& folder, const std::string& device, const std::string& date,
                   const std::vector<CheckRow>& rows) {
  SL_RETURN_IF_ERROR(
      WriteFileAtomically(folder + "/gpu_check.md", PrintMarkdown(device, date, rows)));
  return WriteFileAtomically(folder + "/gpu_check.json", PrintJson(device, date, rows));
}

std::string Today() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%d", std::gmtime(&now));
  return text;
}

int Main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
  const std::vector<CheckSection> sections =
      SectionsOf(std::vector<std::string>(argv + std::min(argc, 2), argv + argc));
  if (sections.empty()) return 2;
  const std::vector<CheckRow> named = RunSections({{"device", NameDevice, 30}}, [](const auto&) {});
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
    std::cout << NameOf(row.result) << "  " << row.section << ": " << row.name
              << (row.said.empty() ? "" : "  ") << row.said << std::endl;
    rows.push_back(row);
    written = Write(folder, device, date, rows);
  };
  (void)RunSections(sections, follow, kMostSeconds);
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

int main(int argc, char** argv) { return stringline::Main(argc, argv); }
