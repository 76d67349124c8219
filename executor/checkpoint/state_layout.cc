#include "executor/checkpoint/state_layout.h"

#include <algorithm>
#include <bit>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "executor/checkpoint/family_config.h"
#include "schedlang/base/sl_check.h"

namespace stringline {
namespace {

constexpr int64_t kMostOfOne = int64_t{1} << 24;  // values; a matrix of most models is smaller

// Among the holders of value `at` of the tensor, the process with the least to write so far.
struct Choice {
  int process = -1;
  int64_t end = 0;
};
Choice WhoWrites(int tensor, int64_t at, absl::Span<const std::vector<StateRange>> held,
                 absl::Span<const int64_t> load) {
  Choice best;
  for (size_t p = 0; p < held.size(); ++p) {
    for (const StateRange& range : held[p]) {
      if (range.tensor != tensor || at < range.first || at >= range.first + range.count) continue;
      const int64_t end = range.first + range.count;
      const bool same = best.process == static_cast<int>(p);
      if (best.process >= 0 && !same && load[p] >= load[best.process]) continue;
      best = {static_cast<int>(p), same ? std::max(best.end, end) : end};
    }
  }
  return best;
}

int WriterOf(int tensor, int64_t value, absl::Span<const std::vector<StateRange>> written) {
  for (size_t p = 0; p < written.size(); ++p) {
    for (const StateRange& range : written[p]) {
      if (range.tensor != tensor || value < range.first) continue;
      if (value < range.first + range.count) return static_cast<int>(p);
    }
  }
  SL_CHECK(false) << "nobody writes value " << value << " of tensor " << tensor;
  return 0;
}

// Files of a kind, one for each process that owns some, still without their number.
class FilesOfKind {
 public:
  FilesOfKind(const char* name, StateLayout* layout) : name_(name), layout_(layout) {}

  void Add(int owner, int tensor, StateKind kind, const StoredSlice& slice) {
    const auto [at, made] = index_.emplace(owner, static_cast<int>(layout_->files.size()));
    if (made) layout_->files.push_back({"", owner, {}});
    StateFile& file = layout_->files[at->second];
    const uint64_t begin = file.tensors.empty() ? 0 : file.tensors.back().end;
    const auto values = static_cast<uint64_t>(slice.rows * slice.columns) + slice.rest().size();
    file.tensors.push_back(
        {slice.name, "F32", slice.whole_shape(), begin, begin + values * sizeof(float)});
    layout_->slices[kind][tensor].push_back(
        {slice, at->second, static_cast<int64_t>(begin / sizeof(float))});
  }

  // By owner.
  void NameThem() {
    int number = 0;
    for (const auto& [owner, file] : index_) {
      layout_->files[file].name =
          absl::StrFormat("%s-%05d-of-%05d.safetensors", name_, ++number, index_.size());
    }
  }

 private:
  const char* const name_;
  StateLayout* const layout_;
  std::map<int, int> index_;  // file by owner
};

}  // namespace

std::vector<std::vector<StateRange>> ShareWriting(absl::Span<const int64_t> sizes,
                                                  absl::Span<const std::vector<StateRange>> held) {
  std::vector<std::vector<StateRange>> written(held.size());
  std::vector<int64_t> load(held.size());
  // The ranges by tensor, so that the search is linear in the number of tensors.
  std::vector<std::vector<std::vector<StateRange>>> of(
      sizes.size(), std::vector<std::vector<StateRange>>(held.size()));
  for (size_t p = 0; p < held.size(); ++p) {
    for (const StateRange& range : held[p]) of[range.tensor][p].push_back(range);
  }
  for (size_t t = 0; t < sizes.size(); ++t) {
    const auto tensor = static_cast<int>(t);
    for (int64_t at = 0; at < sizes[t];) {
      Choice who = WhoWrites(tensor, at, of[t], load);
      SL_CHECK(who.process >= 0) << "nobody has value " << at << " of tensor " << t;
      // Copies share out a large table, too.
      who.end = std::min(who.end, at + kMostOfOne);
      written[who.process].push_back({tensor, at, who.end - at});
      load[who.process] += who.end - at;
      at = who.end;
    }
  }
  return written;
}

std::vector<StoredSlice> SlicesOfState(const Param& param, const AnyShape& shape, StateKind kind) {
  if (kind == kValues) {
    const absl::StatusOr<FamilyConfig> family = FamilyOf(shape);
    return SlicesOf(param, shape, family.ok() ? family->params : absl::Span<const StoredParam>());
  }
  std::vector<StoredSlice> slices = SlicesOf(param, shape, {});
  for (StoredSlice& slice : slices) {
    absl::StrAppend(&slice.name, kind == kFirstMoment ? ".m" : ".v");
    slice.longer = false;
    slice.longer_values = nullptr;
  }
  return slices;
}

StateLayout LayoutOf(const AnyShape& shape, absl::Span<const StateTensor> tensors,
                     absl::Span<const std::vector<StateRange>> written) {
  StateLayout layout;
  FilesOfKind models("model", &layout), optimizers("optimizer", &layout);
  for (auto& slices : layout.slices) slices.resize(tensors.size());
  for (size_t t = 0; t < tensors.size(); ++t) {
    const auto tensor = static_cast<int>(t);
    for (const StateKind kind : {kValues, kFirstMoment, kSecondMoment}) {
      for (const StoredSlice& slice : SlicesOfState(tensors[t].param, shape, kind)) {
        const int owner = WriterOf(tensor, slice.first_row * slice.columns, written);
        (kind == kValues ? models : optimizers).Add(owner, tensor, kind, slice);
      }
    }
  }
  models.NameThem();
  optimizers.NameThem();
  return layout;
}

void ForEachRun(const StoredSlice& slice, int64_t first, int64_t count,
                absl::FunctionRef<void(const StoredRun&)> visit) {
  const int64_t begin = slice.first_row * slice.columns, size = slice.rows * slice.columns;
  const int64_t from = std::max<int64_t>(first - begin, 0);
  const int64_t to = std::min(first + count - begin, size);
  if (from >= to) return;
  if (!slice.transposed) {
    visit({from, to - from, begin + from, 1});
    return;
  }
  // The first row of a column whose value is not before the given value.
  const auto row_at = [&slice](int64_t value, int64_t column) {
    return std::max<int64_t>(0, (value - column + slice.columns - 1) / slice.columns);
  };
  for (int64_t c = 0; c < slice.columns; ++c) {
    const int64_t row = row_at(from, c), end = row_at(to, c);
    if (row >= end) continue;
    visit({c * slice.rows + row, end - row, begin + row * slice.columns + c, slice.columns});
  }
}

uint64_t SumOfPlaces(absl::Span<const float> values, int64_t first) {
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;
  uint64_t sum = 0, place = static_cast<uint64_t>(first);
  for (const float value : values) {
    sum += std::bit_cast<uint32_t>(value) * (place * kGolden | 1);
    ++place;
  }
  return sum;
}

}  // namespace stringline
