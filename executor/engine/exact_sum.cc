#include "executor/engine/exact_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "schedlang/base/sl_check.h"

namespace stringline {
namespace {

constexpr int kDigitBits = 32;
constexpr uint64_t kDigitMask = (uint64_t{1} << kDigitBits) - 1;
constexpr int kFractionBits = 52;
constexpr int kMantissaBits = kFractionBits + 1;
constexpr int kLeastExponent = -1074;  // of the first digit
// A digit grows by less than 2^32 with each term.
constexpr int64_t kMostTerms = int64_t{1} << 30;

enum NotFinite : uint8_t { kPlusInfinity, kMinusInfinity, kNaN };

}  // namespace

void ExactSum::Add(double value) {
  if (!std::isfinite(value)) {
    ++not_finite_[std::isnan(value) ? kNaN : value > 0 ? kPlusInfinity : kMinusInfinity];
    return;
  }
  const auto bits = std::bit_cast<uint64_t>(value);
  const auto exponent = static_cast<int>((bits >> kFractionBits) & 0x7ff);  // 0: subnormal
  uint64_t mantissa = bits & ((uint64_t{1} << kFractionBits) - 1);
  if (exponent > 0) mantissa |= uint64_t{1} << kFractionBits;
  const int place = std::max(exponent - 1, 0);  // of the mantissa's last bit, from 2^-1074
  const int digit = place / kDigitBits, shift = place % kDigitBits;
  const uint64_t low = mantissa << shift;
  const uint64_t high = shift == 0 ? 0 : mantissa >> (64 - shift);
  const int64_t sign = value < 0 ? -1 : 1;
  digits_[digit] += sign * static_cast<int64_t>(low & kDigitMask);
  digits_[digit + 1] += sign * static_cast<int64_t>(low >> kDigitBits);
  digits_[digit + 2] += sign * static_cast<int64_t>(high);
  if (++added_ == kMostTerms) Carry();
}

// Afterwards every digit but the last is in [0, 2^32); the last has the sign.
void ExactSum::Carry() {
  int64_t carry = 0;
  for (int i = 0; i < kDigits; ++i) {
    const int64_t digit = digits_[i] + carry;
    carry = digit >> kDigitBits;
    digits_[i] =
        i + 1 < kDigits ? static_cast<int64_t>(static_cast<uint64_t>(digit) & kDigitMask) : digit;
  }
  added_ = 0;
}

ExactSum::Words ExactSum::words() const {
  ExactSum carried = *this;
  carried.Carry();
  Words words = {};
  for (int i = 0; i < kDigits; ++i) words[i] = static_cast<uint64_t>(carried.digits_[i]);
  std::copy(not_finite_.begin(), not_finite_.end(), words.begin() + kDigits);
  return words;
}

ExactSum ExactSum::FromWords(absl::Span<const uint64_t> words) {
  SL_CHECK(words.size() == kWords) << words.size() << " words are no sum";
  ExactSum sum;
  for (int i = 0; i < kDigits; ++i) sum.digits_[i] = static_cast<int64_t>(words[i]);
  std::copy(words.begin() + kDigits, words.end(), sum.not_finite_.begin());
  sum.Carry();
  return sum;
}

double ExactSum::Rounded() const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (not_finite_[kNaN] > 0 ||
      (not_finite_[kPlusInfinity] > 0 && not_finite_[kMinusInfinity] > 0)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (not_finite_[kPlusInfinity] > 0) return kInfinity;
  if (not_finite_[kMinusInfinity] > 0) return -kInfinity;
  ExactSum sum = *this;
  sum.Carry();
  const bool negative = sum.digits_.back() < 0;
  if (negative) {
    for (int64_t& digit : sum.digits_) digit = -digit;
    sum.Carry();
  }
  const auto bit = [&](int at) { return (sum.digits_[at / kDigitBits] >> (at % kDigitBits)) & 1; };
  int highest = kDigits * kDigitBits - 1;
  while (highest >= 0 && bit(highest) == 0) --highest;
  const int lowest = std::max(highest - kMantissaBits + 1, 0);
  uint64_t mantissa = 0;
  for (int at = highest; at >= lowest; --at) {
    mantissa = 2 * mantissa + static_cast<uint64_t>(bit(at));
  }
  bool more = false;  // than half of the last bit
  for (int at = lowest - 2; at >= 0 && !more; --at) more = bit(at) != 0;
  const bool half = lowest > 0 && bit(lowest - 1) != 0;
  if (half && (more || mantissa % 2 == 1)) ++mantissa;
  const double size = std::ldexp(static_cast<double>(mantissa), lowest + kLeastExponent);
  return negative ? -size : size;
}

}  // namespace stringline
