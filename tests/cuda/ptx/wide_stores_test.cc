// Rows of bf16 are stored 16 bytes at a time in the PTX of every kernel in the table.
#include <gtest/gtest.h>

#include <set>

#include "tests/cuda/ptx/played.h"
#include "tests/cuda/ptx/wide_rows.h"

namespace stringline::ptx {
namespace {

StoreCounts StoresOf(const Program& program) {
  StoreCounts stores;
  for (const Step& step : program.steps) {
    if (step.kind != Kind::kStore) continue;
    if (step.space != Space::kGlobal && step.space != Space::kGeneric) continue;
    const int bytes = step.element * step.count;
    stores.of_16 += bytes == 16 ? 1 : 0;
    stores.of_8 += bytes == 8 ? 1 : 0;
    stores.of_4 += bytes == 4 ? 1 : 0;
  }
  return stores;
}

TEST(WideStores, RowsOfBf16AreStored16BytesAtATime) {
  Library& library = PlayedKernels::Get().library();
  std::set<const WideRows*> seen;
  for (const std::string& name : library.names()) {
    const auto program = library.Find(name);
    ASSERT_TRUE(program.ok()) << program.status();
    const WideRows* const row = WideRowsOf((*program)->shown);
    if (row == nullptr) continue;
    seen.insert(row);
    const StoreCounts stores = StoresOf(**program);
    EXPECT_EQ(Holds(*row, stores), row->holds)
        << (*program)->shown << ": " << stores.of_16 << " stores of 16 bytes, " << stores.of_8
        << " of 8, " << stores.of_4 << " of 4; correct the table if this is better";
  }
  EXPECT_EQ(seen.size(), std::size(kWideRows)) << "a row without a kernel";
}

}  // namespace
}  // namespace stringline::ptx
