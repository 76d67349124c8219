// gpu_check [FOLDER]: looks at everything that only a GPU can show, section by section, prints what
// it finds as it comes, and writes FOLDER/gpu_check.md and FOLDER/gpu_check.json.
//
// Exit status: 0 if nothing failed, 1 if something did, 2 if the files could not be written.
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tools/gpu/sections.h"
#include "tools/write_file.h"

namespace stringline {
namespace {

// What CUDA calls the device. A section of its own, since this process must not call CUDA.
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

// Beside the program, where it was packed; otherwise the checkout's.
std::string SchedulesFolder() {
  std::error_code error;
  const auto packed =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "schedules";
  return std::filesystem::is_directory(packed, error) ? packed.string() : "schedules";
}

std::string Today() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%d", std::gmtime(&now));
  return text;
}

int Main(int argc, char** argv) {
  if (argc > 2) {
    std::cerr << "usage: gpu_check [FOLDER]\n";
    return 2;
  }
  const std::string folder = argc == 2 ? argv[1] : ".";
  const std::vector<CheckRow> named = RunSections({{"device", NameDevice, 30}}, [](const auto&) {});
  if (named.front().result != CheckResult::kPass) {
    std::cerr << "gpu_check: no GPU can be used: " << named.front().said << "\n";
    return 1;
  }
  const std::string device = named.front().said;
  std::cout << device << std::endl;
  const std::vector<CheckRow> rows =
      RunSections(AllSections(SchedulesFolder()), [](const CheckRow& row) {
        std::cout << NameOf(row.result) << "  " << row.section << ": " << row.name
                  << (row.said.empty() ? "" : "  ") << row.said << std::endl;
      });
  for (const auto& [name, text] : {std::pair("gpu_check.md", PrintMarkdown(device, Today(), rows)),
                                   std::pair("gpu_check.json", PrintJson(device, Today(), rows))}) {
    const absl::Status written = WriteFileAtomically(absl::StrCat(folder, "/", name), text);
    if (!written.ok()) {
      std::cerr << "gpu_check: " << written.message() << "\n";
      return 2;
    }
  }
  const bool failed = std::any_of(rows.begin(), rows.end(), [](const CheckRow& row) {
    return row.result == CheckResult::kFail;
  });
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace stringline

int main(int argc, char** argv) { return stringline::Main(argc, argv); }
