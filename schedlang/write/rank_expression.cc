#include "schedlang/write/rank_expression.h"

#include "absl/strings/str_cat.h"

namespace stringline::search {
namespace {

std::string TimesText(int64_t n, const std::string& x) {
  return n == 1 ? x : absl::StrCat(n, " * ", x);
}

// " + 2 * r", " - 3", or nothing for 0 times.
std::string TermText(int64_t n, const std::string& x) {
  if (n == 0) return "";
  return absl::StrCat(n < 0 ? " - " : " + ", TimesText(n < 0 ? -n : n, x));
}
std::string TermText(int64_t n) {
  if (n == 0) return "";
  return absl::StrCat(n < 0 ? " - " : " + ", n < 0 ? -n : n);
}

// The k of the k * P closest to the number, if k is small and the difference at most two; else 0.
int64_t MultipleOf(int64_t number, int ranks) {
  if (ranks < 2) return 0;
  const int64_t less = number < 0 ? 1 : -1;
  for (const int64_t offset : {int64_t{0}, less, -less, 2 * less, -2 * less}) {
    const int64_t whole = (number - offset) / ranks;
    if ((number - offset) % ranks != 0 || (offset * offset > 1 && ranks < 4)) continue;
    const int64_t most = offset == 0 || offset == less ? 4 : 2;
    if (whole >= -most && whole <= most) return whole;
  }
  return 0;
}

// at_zero - n * r, for n > 1.
std::string WriteFalling(int64_t at_zero, int64_t n, int ranks, const std::string& r) {
  const int64_t above = at_zero - n * ranks;  // for n * (P - r)
  if (ranks == 0 || above < -n - 1 || above > n) {
    return absl::StrCat(at_zero, " - ", TimesText(n, r));
  }
  const bool is_nearer_to_one_less = above < 0 && above + n <= -above;
  return is_nearer_to_one_less ? absl::StrCat(n, " * (P - 1 - ", r, ")", TermText(above + n))
                               : absl::StrCat(n, " * (P - ", r, ")", TermText(above));
}

}  // namespace

std::optional<Affine> AffineThrough(absl::Span<const std::optional<int64_t>> values, int first) {
  std::optional<size_t> a, b;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i]) continue;
    if (!a) {
      a = i;
    } else if (!b) {
      b = i;
    }
  }
  Affine line;
  if (a) line.at_zero = *values[*a];
  if (b) {
    const int64_t rise = *values[*b] - *values[*a];
    const auto run = static_cast<int64_t>(*b - *a);
    if (rise % run != 0) return std::nullopt;
    line.slope = rise / run;
    line.at_zero = *values[*a] - line.slope * (first + static_cast<int64_t>(*a));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] && line.At(first + static_cast<int64_t>(i)) != *values[i]) return std::nullopt;
  }
  return line;
}

std::string WriteAffine(Affine a, int ranks, const std::string& r) {
  if (a.slope == 0) return absl::StrCat(a.at_zero);
  const int64_t n = a.slope < 0 ? -a.slope : a.slope;
  if (a.slope < -1) return WriteFalling(a.at_zero, n, ranks, r);
  const int64_t wholes = MultipleOf(a.at_zero, ranks);
  if (a.slope == -1) {
    if (wholes <= 0) return absl::StrCat(a.at_zero, " - ", r);
    return absl::StrCat(TimesText(wholes, "P"), TermText(a.at_zero - wholes * ranks), " - ", r);
  }
  const bool is_whole = wholes != 0 && a.at_zero == wholes * ranks;
  if (is_whole && wholes > 0) return absl::StrCat(TimesText(wholes, "P"), TermText(n, r));
  if (is_whole) return absl::StrCat(TimesText(n, r), TermText(wholes, "P"));
  return absl::StrCat(TimesText(n, r), TermText(a.at_zero));
}

std::string WriteNumber(int64_t number, int ranks) {
  for (const int64_t less : {0, 1, 2}) {
    const int64_t whole = ranks < 3 ? 0 : (number + less) / ranks;
    if (whole < 1 || whole > 2 || whole * ranks - less != number) continue;
    return absl::StrCat(TimesText(whole, "P"), TermText(-less));
  }
  return absl::StrCat(number);
}

std::string WriteSum(const std::string& lead, Affine a, int ranks) {
  const int64_t wholes =
      a.at_zero >= -2 && a.at_zero <= 2 && a.at_zero != -ranks ? 0 : MultipleOf(a.at_zero, ranks);
  const std::string of_rank = TermText(a.slope, "r");
  const std::string rest = TermText(a.at_zero - wholes * ranks);
  return absl::StrCat(lead, TermText(wholes, "P"), a.slope < 0 ? rest : of_rank,
                      a.slope < 0 ? of_rank : rest);
}

std::string WriteCases(absl::Span<const std::optional<int64_t>> values, const std::string& variable,
                       int ranks) {
  std::string out;
  for (size_t i = 0; i < values.size();) {
    size_t end = i + 1;
    std::optional<Affine> line = AffineThrough(values.subspan(i, 1), static_cast<int>(i));
    for (; end < values.size(); ++end) {
      const auto longer = AffineThrough(values.subspan(i, end + 1 - i), static_cast<int>(i));
      if (!longer) break;
      line = longer;
    }
    // Two values are always on a line; only a line that counts up is informative.
    if (end == i + 2 && line->slope != 0 && line->slope != 1) {
      end = i + 1;
      line = AffineThrough(values.subspan(i, 1), static_cast<int>(i));
    }
    if (end < values.size()) {
      absl::StrAppend(&out, variable, end == i + 1 ? " == " : " < ", end == i + 1 ? i : end, " ? ");
    }
    absl::StrAppend(&out, WriteAffine(*line, ranks, variable), end < values.size() ? " : " : "");
    i = end;
  }
  return out;
}

}  // namespace stringline::search
