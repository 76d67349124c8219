// A CSV file of torch: read, print, read back, check.
#include <cstddef>
#include <cstdint>
#include <string>

#include "schedlang/base/sl_check.h"
#include "schedlang/check/check.h"
#include "schedlang/lower/lower.h"
#include "schedlang/torch/torch_csv.h"

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
  if (!file) return 0;
  Diagnostics said;
  const TorchForm form = file->plan.lowered ? TorchForm::kComms : TorchForm::kCompute;
  const auto text = PrintTorchCsv(file->plan, file->waits, form, &said);
  SL_CHECK(text || !said.empty()) << "not written without a finding";
  if (!text) return 0;
  const auto again = ReadTorchCsv(Source("x.csv", *text), &said);
  SL_CHECK(again) << "what is written reads back: " << *text;
  SL_CHECK(PrintTorchCsv(again->plan, again->waits, form, &said) == text) << *text;
  return 0;
}
