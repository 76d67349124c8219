// One of torch's CSV files: read, print, read back, check.
#include <cstddef>
#include <cstdint>
#include <string>

#include "schedlang/base/sl_check.h"
#include "schedlang/check.h"
#include "schedlang/formats/torch_csv.h"
#include "schedlang/lower.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stringline;  // NOLINT: a whole program in one function
  const Source source("x.csv", std::string(reinterpret_cast<const char*>(data), size));
  Diagnostics diagnostics;
  const auto file = ReadTorchCsv(source, &diagnostics);
  SL_CHECK(file || !diagnostics.empty()) << "refused without a finding";
  if (file && file->plan.stages.size() * static_cast<size_t>(file->plan.microbatches) < 10'000) {
    Check(file->plan.lowered ? file->plan : Lower(file->plan), &diagnostics);
  }
  Render(diagnostics, source);
  return 0;
}
