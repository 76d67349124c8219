// Each row is a function of values, which a template makes a loop over the threads of a block.
//
// Roundings: those of PTX where the host has them. Approximate instructions (ex2.approx,
// div.approx, rcp.approx) give the nearest float32 value, which lies within the GPU's error; ftz
// flushes subnormal numbers. mma adds its 16 products, which are exact in double, and the
// accumulator in double and rounds once, where a tensor core aligns and truncates.
#include "tests/cuda/ptx/operations.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace stringline::ptx {
namespace {

using P = uint8_t;  // a predicate
using U16 = uint16_t;
using S16 = int16_t;
using U32 = uint32_t;
using S32 = int32_t;
using U64 = uint64_t;
using S64 = int64_t;
using F32 = float;
using F64 = double;

template <class Signature>
struct Each;
template <class To, class... From>
struct Each<To(From...)> {
  template <auto kF>
  static void Apply(const Step& step, const Lanes& lanes) {
    [&]<size_t... kIndex>(std::index_sequence<kIndex...>) {
      To* const to = lanes.cells<To>(step.at[0]);
      const std::tuple<const From*...> from(lanes.cells<From>(step.at[kIndex + 1])...);
      ForEach(lanes, [&](int t) { to[t] = kF(std::get<kIndex>(from)[t]...); });
    }
    (std::index_sequence_for<From...>());
  }
  template <auto kF>
  static Operation Row(const char* name) {
    return {name, {int{sizeof(To)}, int{sizeof(From)}...}, Apply<kF>};
  }
};

// With the carry flag: f(arguments, &flag).
template <bool kReads, bool kWrites, class F>
void WithCarry(const Step& step, const Lanes& lanes, int arguments, F f) {
  U32* const to = lanes.cells<U32>(step.at[0]);
  const U32* const a = lanes.cells<U32>(step.at[1]);
  const U32* const b = lanes.cells<U32>(step.at[2]);
  const U32* const c = lanes.cells<U32>(step.at[arguments == 3 ? 3 : 2]);
  U32* const flag = lanes.cells<U32>(step.at[arguments + 1]);
  ForEach(lanes, [&](int t) {
    const U64 sum = f(a[t], b[t], c[t], kReads ? flag[t] : 0);
    to[t] = static_cast<U32>(sum);
    if (kWrites) flag[t] = static_cast<U32>(sum >> 32) & 1;
  });
}
template <bool kReads, bool kWrites>
Operation AddRow(const char* name) {
  return {name,
          {4, 4, 4},
          [](const Step& step, const Lanes& lanes) {
            WithCarry<kReads, kWrites>(step, lanes, 2,
                                       [](U64 a, U64 b, U64, U64 carry) { return a + b + carry; });
          },
          -1,
          Kind::kEach,
          true};
}
template <bool kReads, bool kWrites>
Operation SubRow(const char* name) {
  return {name,
          {4, 4, 4},
          [](const Step& step, const Lanes& lanes) {
            WithCarry<kReads, kWrites>(
                step, lanes, 2, [](U64 a, U64 b, U64, U64 borrow) { return a - b - borrow; });
          },
          -1,
          Kind::kEach,
          true};
}
template <bool kHigh, bool kReads, bool kWrites>
Operation MadRow(const char* name) {
  return {name,
          {4, 4, 4, 4},
          [](const Step& step, const Lanes& lanes) {
            WithCarry<kReads, kWrites>(step, lanes, 3, [](U64 a, U64 b, U64 c, U64 carry) {
              const U64 product = a * b;
              return (kHigh ? product >> 32 : product & 0xffffffffu) + c + carry;
            });
          },
          -1,
          Kind::kEach,
          true};
}

template <typename T>
T Divide(T a, T b) {
  if (b == 0) return static_cast<T>(~T{0});
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
  }
  return static_cast<T>(a / b);
}
template <typename T>
T Remainder(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
  }
  return static_cast<T>(a % b);
}
template <typename T>
T ShiftedRight(T a, U32 by) {
  constexpr U32 kBits = 8 * sizeof(T);
  if constexpr (std::is_signed_v<T>) return static_cast<T>(a >> std::min(by, kBits - 1));
  return by < kBits ? static_cast<T>(a >> by) : T{0};
}
template <typename T>
T ShiftedLeft(T a, U32 by) {
  return by < 8 * sizeof(T) ? static_cast<T>(a << by) : T{0};
}
// A number is preferred to NaN, as by min and max of PTX.
template <typename T>
T Smaller(T a, T b) {
  return std::isnan(a) ? b : std::isnan(b) ? a : a < b || (a == b && std::signbit(a)) ? a : b;
}
template <typename T>
T Larger(T a, T b) {
  return std::isnan(a) ? b : std::isnan(b) ? a : a > b || (a == b && std::signbit(b)) ? a : b;
}
// Out of range, the nearest integer; NaN gives 0.
template <typename To, typename From>
To Integer(From value) {
  const From end = std::ldexp(From{1}, std::numeric_limits<To>::digits);
  if (std::isnan(value)) return 0;
  if (value >= end) return std::numeric_limits<To>::max();
  if (value < -end) return std::numeric_limits<To>::min();
  return static_cast<To>(value);
}

F32 Flushed(F32 value) { return std::fpclassify(value) == FP_SUBNORMAL ? 0 * value : value; }

U16 RoundedToBf16(F32 value) {
  U32 bits = std::bit_cast<U32>(value);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  bits += 0x7fffu + (bits >> 16 & 1u);
  return nan ? U16{0x7fff} : static_cast<U16>(bits >> 16);
}
F32 FromBf16(U32 bits) { return std::bit_cast<F32>(bits << 16); }

// The upper half of the result's bits, as rcp.approx.ftz.f64 gives.
F64 RoughReciprocal(F64 value) {
  const F64 flushed = std::fpclassify(value) == FP_SUBNORMAL ? 0 * value : value;
  return std::bit_cast<F64>(std::bit_cast<U64>(1 / flushed) & ~U64{0xffffffffu});
}

// In another rounding mode, kept from the compiler's eyes.
template <int kMode, class Signature, auto kF>
__attribute__((noinline)) void Rounding(const Step& step, const Lanes& lanes) {
  const int before = std::fegetround();
  std::fesetround(kMode);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  Each<Signature>::template Apply<kF>(step, lanes);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::fesetround(before);
}

// Lanes of a warp.

template <bool kDown>
void Shuffle(const Step& step, const Lanes& lanes) {
  U32* const to = lanes.cells<U32>(step.at[0]);
  P* const valid = lanes.cells<P>(step.at[1]);
  const U32* const from = lanes.cells<U32>(step.at[2]);
  const U32* const by = lanes.cells<U32>(step.at[3]);
  const U32* const clamp = lanes.cells<U32>(step.at[4]);
  for (int warp = lanes.begin / 32 * 32; warp < lanes.end; warp += 32) {
    U32 value[32];
    std::memcpy(value, from + warp, sizeof value);
    const auto one = [&](int t) {
      const int lane = t - warp;
      const auto segment = static_cast<int>(clamp[t] >> 8 & 31);
      const int last = (lane & segment) | (static_cast<int>(clamp[t] & 31) & ~segment);
      const int first = lane & segment;
      const int b = static_cast<int>(by[t] & 31);
      const int source = kDown ? lane + b : first | (b & ~segment);
      const bool inside = source <= last;
      valid[t] = inside ? 1 : 0;
      to[t] = value[inside ? source : lane];
    };
    Lanes of_warp = lanes;
    of_warp.begin = std::max(lanes.begin, warp);
    of_warp.end = std::min(lanes.end, warp + 32);
    if (lanes.list == nullptr) {
      ForEach(of_warp, one);
    } else {
      for (int k = 0; k < lanes.count; ++k) {
        if (lanes.list[k] / 32 == warp / 32) one(lanes.list[k]);
      }
    }
  }
}

// D (16 x 8) = A (16 x 16) B (16 x 8) + C: lane 4g + i holds rows g and g + 8 of A, column g of B.
void MultiplyTiles(const Step& step, const Lanes& lanes) {
  const auto bf16 = [&](int operand, int t, int half) {
    return FromBf16(lanes.cells<U32>(step.at[operand])[t] >> (16 * half) & 0xffffu);
  };
  for (int warp = lanes.begin; warp < lanes.end; warp += 32) {
    F32 a[16][16], b[16][8];
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, i = lane % 4, t = warp + lane;
      for (int r = 0; r < 4; ++r) {
        for (int half = 0; half < 2; ++half) {
          a[g + 8 * (r % 2)][2 * i + half + 8 * (r / 2)] = bf16(4 + r, t, half);
          if (r < 2) b[2 * i + half + 8 * r][g] = bf16(8 + r, t, half);
        }
      }
    }
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, i = lane % 4, t = warp + lane;
      F32 sums[4];
      for (int r = 0; r < 4; ++r) {
        const int row = g + 8 * (r / 2), column = 2 * i + r % 2;
        F64 sum = lanes.cells<F32>(step.at[10 + r])[t];
        for (int k = 0; k < 16; ++k) sum += F64{a[row][k]} * F64{b[k][column]};
        sums[r] = static_cast<F32>(sum);
      }
      for (int r = 0; r < 4; ++r) lanes.cells<F32>(step.at[r])[t] = sums[r];
    }
  }
}

// The first of two 32-bit words of a list is the low one.
void Split(const Step& step, const Lanes& lanes) {
  U32 *const low = lanes.cells<U32>(step.at[0]), *const high = lanes.cells<U32>(step.at[1]);
  const U64* const from = lanes.cells<U64>(step.at[2]);
  ForEach(lanes, [&](int t) {
    const U64 bits = from[t];
    low[t] = static_cast<U32>(bits);
    high[t] = static_cast<U32>(bits >> 32);
  });
}
void SplitHalves(const Step& step, const Lanes& lanes) {
  U16 *const low = lanes.cells<U16>(step.at[0]), *const high = lanes.cells<U16>(step.at[1]);
  const U32* const from = lanes.cells<U32>(step.at[2]);
  ForEach(lanes, [&](int t) {
    const U32 bits = from[t];
    low[t] = static_cast<U16>(bits);
    high[t] = static_cast<U16>(bits >> 16);
  });
}

// ROW("add.s32", U32(U32, U32), (U32 a, U32 b) { return a + b; })
#define ROW(name, signature, ...) Each<signature>::Row<([] __VA_ARGS__)>(name)
#define ROW_ROUNDING(name, mode, signature, bytes, ...) \
  Operation { name, bytes, Rounding<mode, signature, ([] __VA_ARGS__)> }

// Integers wrap, so signed sums are those of unsigned numbers.
#define INTEGERS(bits)                                                                             \
  ROW(                                                                                             \
      "mov.b" #bits, U##bits(U##bits), (U##bits a) { return a; }),                                 \
      ROW(                                                                                         \
          "mov.u" #bits, U##bits(U##bits), (U##bits a) { return a; }),                             \
      ROW(                                                                                         \
          "mov.s" #bits, U##bits(U##bits), (U##bits a) { return a; }),                             \
      ROW(                                                                                         \
          "and.b" #bits, U##bits(U##bits, U##bits),                                                \
          (U##bits a, U##bits b) { return static_cast<U##bits>(a & b); }),                         \
      ROW(                                                                                         \
          "or.b" #bits, U##bits(U##bits, U##bits),                                                 \
          (U##bits a, U##bits b) { return static_cast<U##bits>(a | b); }),                         \
      ROW(                                                                                         \
          "xor.b" #bits, U##bits(U##bits, U##bits),                                                \
          (U##bits a, U##bits b) { return static_cast<U##bits>(a ^ b); }),                         \
      ROW(                                                                                         \
          "not.b" #bits, U##bits(U##bits), (U##bits a) { return static_cast<U##bits>(~a); }),      \
      ROW(                                                                                         \
          "shl.b" #bits, U##bits(U##bits, U32), (U##bits a, U32 b) { return ShiftedLeft(a, b); }), \
      ROW(                                                                                         \
          "setp.eq.b" #bits, P(U##bits, U##bits), (U##bits a, U##bits b) { return P(a == b); }),   \
      ROW(                                                                                         \
          "setp.ne.b" #bits, P(U##bits, U##bits), (U##bits a, U##bits b) { return P(a != b); }),   \
      ROW(                                                                                         \
          "selp.b" #bits, U##bits(U##bits, U##bits, P),                                            \
          (U##bits a, U##bits b, P p) { return p ? a : b; }),                                      \
      ROW(                                                                                         \
          "neg.s" #bits, U##bits(U##bits), (U##bits a) { return static_cast<U##bits>(0 - a); })

#define OF_INTEGER(T, type, U)                                                                     \
  ROW(                                                                                             \
      "add." type, U(U, U), (U a, U b) { return static_cast<U>(a + b); }),                         \
      ROW(                                                                                         \
          "sub." type, U(U, U), (U a, U b) { return static_cast<U>(a - b); }),                     \
      ROW(                                                                                         \
          "mul.lo." type, U(U, U), (U a, U b) { return static_cast<U>(U64{a} * b); }),             \
      ROW(                                                                                         \
          "mad.lo." type, U(U, U, U), (U a, U b, U c) { return static_cast<U>(U64{a} * b + c); }), \
      ROW(                                                                                         \
          "div." type, T(T, T), (T a, T b) { return Divide(a, b); }),                              \
      ROW(                                                                                         \
          "rem." type, T(T, T), (T a, T b) { return Remainder(a, b); }),                           \
      ROW(                                                                                         \
          "min." type, T(T, T), (T a, T b) { return std::min(a, b); }),                            \
      ROW(                                                                                         \
          "max." type, T(T, T), (T a, T b) { return std::max(a, b); }),                            \
      ROW(                                                                                         \
          "shr." type, T(T, U32), (T a, U32 b) { return ShiftedRight(a, b); }),                    \
      ROW(                                                                                         \
          "selp." type, T(T, T, P), (T a, T b, P p) { return p ? a : b; }),                        \
      ROW(                                                                                         \
          "setp.eq." type, P(T, T), (T a, T b) { return P(a == b); }),                             \
      ROW(                                                                                         \
          "setp.ne." type, P(T, T), (T a, T b) { return P(a != b); }),                             \
      ROW(                                                                                         \
          "setp.lt." type, P(T, T), (T a, T b) { return P(a < b); }),                              \
      ROW(                                                                                         \
          "setp.le." type, P(T, T), (T a, T b) { return P(a <= b); }),                             \
      ROW(                                                                                         \
          "setp.gt." type, P(T, T), (T a, T b) { return P(a > b); }),                              \
      ROW(                                                                                         \
          "setp.ge." type, P(T, T), (T a, T b) { return P(a >= b); })

// Comparisons are false for NaN; with a u, true.
#define OF_FLOAT(T, type)                                                             \
  ROW(                                                                                \
      "mov." type, T(T), (T a) { return a; }),                                        \
      ROW(                                                                            \
          "add." type, T(T, T), (T a, T b) { return a + b; }),                        \
      ROW(                                                                            \
          "add.rn." type, T(T, T), (T a, T b) { return a + b; }),                     \
      ROW(                                                                            \
          "sub." type, T(T, T), (T a, T b) { return a - b; }),                        \
      ROW(                                                                            \
          "sub.rn." type, T(T, T), (T a, T b) { return a - b; }),                     \
      ROW(                                                                            \
          "mul." type, T(T, T), (T a, T b) { return a * b; }),                        \
      ROW(                                                                            \
          "mul.rn." type, T(T, T), (T a, T b) { return a * b; }),                     \
      ROW(                                                                            \
          "fma.rn." type, T(T, T, T), (T a, T b, T c) { return std::fma(a, b, c); }), \
      ROW(                                                                            \
          "div.rn." type, T(T, T), (T a, T b) { return a / b; }),                     \
      ROW(                                                                            \
          "rcp.rn." type, T(T), (T a) { return 1 / a; }),                             \
      ROW(                                                                            \
          "sqrt.rn." type, T(T), (T a) { return std::sqrt(a); }),                     \
      ROW(                                                                            \
          "neg." type, T(T), (T a) { return -a; }),                                   \
      ROW(                                                                            \
          "abs." type, T(T), (T a) { return std::abs(a); }),                          \
      ROW(                                                                            \
          "min." type, T(T, T), (T a, T b) { return Smaller(a, b); }),                \
      ROW(                                                                            \
          "max." type, T(T, T), (T a, T b) { return Larger(a, b); }),                 \
      ROW(                                                                            \
          "copysign." type, T(T, T), (T a, T b) { return std::copysign(b, a); }),     \
      ROW(                                                                            \
          "selp." type, T(T, T, P), (T a, T b, P p) { return p ? a : b; }),           \
      ROW(                                                                            \
          "setp.eq." type, P(T, T), (T a, T b) { return P(a == b); }),                \
      ROW(                                                                            \
          "setp.ne." type, P(T, T), (T a, T b) { return P(a < b || a > b); }),        \
      ROW(                                                                            \
          "setp.lt." type, P(T, T), (T a, T b) { return P(a < b); }),                 \
      ROW(                                                                            \
          "setp.le." type, P(T, T), (T a, T b) { return P(a <= b); }),                \
      ROW(                                                                            \
          "setp.gt." type, P(T, T), (T a, T b) { return P(a > b); }),                 \
      ROW(                                                                            \
          "setp.ge." type, P(T, T), (T a, T b) { return P(a >= b); }),                \
      ROW(                                                                            \
          "setp.equ." type, P(T, T), (T a, T b) { return P(!(a < b || a > b)); }),    \
      ROW(                                                                            \
          "setp.neu." type, P(T, T), (T a, T b) { return P(a != b); }),               \
      ROW(                                                                            \
          "setp.ltu." type, P(T, T), (T a, T b) { return P(!(a >= b)); }),            \
      ROW(                                                                            \
          "setp.leu." type, P(T, T), (T a, T b) { return P(!(a > b)); }),             \
      ROW(                                                                            \
          "setp.gtu." type, P(T, T), (T a, T b) { return P(!(a <= b)); }),            \
      ROW(                                                                            \
          "setp.geu." type, P(T, T), (T a, T b) { return P(!(a < b)); }),             \
      ROW(                                                                            \
          "setp.num." type, P(T, T), (T a, T b) { return P(a == a && b == b); }),     \
      ROW(                                                                            \
          "setp.nan." type, P(T, T), (T a, T b) { return P(a != a || b != b); })

std::vector<Operation> IntegerOperations() {
  return {
      INTEGERS(16),
      INTEGERS(32),
      INTEGERS(64),
      OF_INTEGER(S16, "s16", U16),
      OF_INTEGER(U16, "u16", U16),
      OF_INTEGER(S32, "s32", U32),
      OF_INTEGER(U32, "u32", U32),
      OF_INTEGER(S64, "s64", U64),
      OF_INTEGER(U64, "u64", U64),
      ROW(
          "mul.wide.s32", S64(S32, S32), (S32 a, S32 b) { return S64{a} * b; }),
      ROW(
          "mul.wide.u32", U64(U32, U32), (U32 a, U32 b) { return U64{a} * b; }),
      ROW(
          "mul.hi.u32", U32(U32, U32), (U32 a, U32 b) { return U32(U64{a} * b >> 32); }),
      ROW(
          "mul.hi.s32", S32(S32, S32), (S32 a, S32 b) { return S32(S64{a} * b >> 32); }),
      ROW(
          "mad.wide.s32", U64(S32, S32, U64),
          (S32 a, S32 b, U64 c) { return U64(S64{a} * b) + c; }),
      ROW(
          "mad.wide.u32", U64(U32, U32, U64), (U32 a, U32 b, U64 c) { return U64{a} * b + c; }),
      ROW(
          "clz.b32", U32(U32), (U32 a) { return U32(std::countl_zero(a)); }),
      ROW(
          "clz.b64", U32(U64), (U64 a) { return U32(std::countl_zero(a)); }),
      ROW(
          "popc.b32", U32(U32), (U32 a) { return U32(std::popcount(a)); }),
      AddRow<false, true>("add.cc.u32"),
      AddRow<true, true>("addc.cc.u32"),
      AddRow<true, false>("addc.u32"),
      SubRow<false, true>("sub.cc.u32"),
      SubRow<true, true>("subc.cc.u32"),
      SubRow<true, false>("subc.u32"),
      MadRow<false, false, true>("mad.lo.cc.u32"),
      MadRow<false, true, true>("madc.lo.cc.u32"),
      MadRow<true, true, true>("madc.hi.cc.u32"),
      MadRow<true, true, false>("madc.hi.u32"),
      ROW(
          "mov.pred", P(P), (P a) { return a; }),
      ROW(
          "and.pred", P(P, P), (P a, P b) { return P(a & b); }),
      ROW(
          "or.pred", P(P, P), (P a, P b) { return P(a | b); }),
      ROW(
          "xor.pred", P(P, P), (P a, P b) { return P(a ^ b); }),
      ROW(
          "not.pred", P(P), (P a) { return P(a ^ 1); }),
      ROW(
          "mov.b64:1=2", U64(U32, U32), (U32 low, U32 high) { return U64{high} << 32 | low; }),
      ROW(
          "mov.b32:1=2", U32(U16, U16), (U16 low, U16 high) { return U32{high} << 16 | low; }),
      {"mov.b64:2=1", {4, 4, 8}, Split},
      {"mov.b32:2=1", {2, 2, 4}, SplitHalves},
      ROW(
          "cvta.to.global.u64", U64(U64), (U64 a) { return a; }),
      ROW(
          "cvta.global.u64", U64(U64), (U64 a) { return a; }),
      ROW(
          "cvta.shared.u64", U64(U64), (U64 a) { return a | kSharedWindow; }),
      ROW(
          "cvta.to.shared.u64", U64(U64), (U64 a) { return a & ~kSharedWindow; }),
      ROW(
          "cvta.local.u64", U64(U64), (U64 a) { return a | kLocalWindow; }),
      ROW(
          "cvta.to.local.u64", U64(U64), (U64 a) { return a & ~kLocalWindow; }),
  };
}

std::vector<Operation> FloatOperations() {
  return {
      OF_FLOAT(F32, "f32"),
      OF_FLOAT(F64, "f64"),
      ROW_ROUNDING(
          "fma.rm.f32", FE_DOWNWARD, F32(F32, F32, F32), (std::vector<int>{4, 4, 4, 4}),
          (F32 a, F32 b, F32 c) { return std::fma(a, b, c); }),
      ROW_ROUNDING(
          "add.rz.f64", FE_TOWARDZERO, F64(F64, F64), (std::vector<int>{8, 8, 8}),
          (F64 a, F64 b) { return a + b; }),
      ROW(
          "ex2.approx.f32", F32(F32), (F32 a) { return std::exp2(a); }),
      ROW(
          "ex2.approx.ftz.f32", F32(F32), (F32 a) { return Flushed(std::exp2(Flushed(a))); }),
      ROW(
          "lg2.approx.f32", F32(F32), (F32 a) { return std::log2(a); }),
      ROW(
          "lg2.approx.ftz.f32", F32(F32), (F32 a) { return Flushed(std::log2(Flushed(a))); }),
      ROW(
          "div.approx.f32", F32(F32, F32), (F32 a, F32 b) { return a / b; }),
      ROW(
          "div.full.f32", F32(F32, F32), (F32 a, F32 b) { return a / b; }),
      ROW(
          "rcp.approx.f32", F32(F32), (F32 a) { return 1 / a; }),
      ROW(
          "rcp.approx.ftz.f32", F32(F32), (F32 a) { return Flushed(1 / Flushed(a)); }),
      ROW(
          "rcp.approx.ftz.f64", F64(F64), (F64 a) { return RoughReciprocal(a); }),
      ROW(
          "rsqrt.approx.f32", F32(F32),
          (F32 a) { return static_cast<F32>(1 / std::sqrt(F64{a})); }),
      ROW(
          "tanh.approx.f32", F32(F32), (F32 a) { return std::tanh(a); }),
      // Conversions.
      ROW(
          "cvt.s64.s32", S64(S32), (S32 a) { return S64{a}; }),
      ROW(
          "cvt.u64.u32", U64(U32), (U32 a) { return U64{a}; }),
      ROW(
          "cvt.u32.u64", U32(U64), (U64 a) { return static_cast<U32>(a); }),
      ROW(
          "cvt.s32.s64", U32(U64), (U64 a) { return static_cast<U32>(a); }),
      ROW(
          "cvt.u16.u32", U16(U32), (U32 a) { return static_cast<U16>(a); }),
      ROW(
          "cvt.u32.u16", U32(U16), (U16 a) { return U32{a}; }),
      ROW(
          "cvt.s32.s16", S32(S16), (S16 a) { return S32{a}; }),
      ROW(
          "cvt.u64.u16", U64(U16), (U16 a) { return U64{a}; }),
      ROW(
          "cvt.u16.u64", U16(U64), (U64 a) { return static_cast<U16>(a); }),
      ROW(
          "cvt.s64.s16", S64(S16), (S16 a) { return S64{a}; }),
      ROW(
          "cvt.sat.f32.f32", F32(F32), (F32 a) { return a > 0 ? (a < 1 ? a : 1.0f) : 0.0f; }),
      ROW(
          "cvt.f64.f32", F64(F32), (F32 a) { return F64{a}; }),
      ROW(
          "cvt.rn.f32.f64", F32(F64), (F64 a) { return static_cast<F32>(a); }),
      ROW(
          "cvt.rn.f32.s32", F32(S32), (S32 a) { return static_cast<F32>(a); }),
      ROW(
          "cvt.rn.f32.u32", F32(U32), (U32 a) { return static_cast<F32>(a); }),
      ROW(
          "cvt.rn.f32.s64", F32(S64), (S64 a) { return static_cast<F32>(a); }),
      ROW(
          "cvt.rn.f64.s32", F64(S32), (S32 a) { return static_cast<F64>(a); }),
      ROW(
          "cvt.rn.f64.u32", F64(U32), (U32 a) { return static_cast<F64>(a); }),
      ROW(
          "cvt.rn.f64.s64", F64(S64), (S64 a) { return static_cast<F64>(a); }),
      ROW(
          "cvt.rzi.f64.f64", F64(F64), (F64 a) { return std::trunc(a); }),
      ROW(
          "cvt.rzi.s64.f64", S64(F64), (F64 a) { return Integer<S64>(std::trunc(a)); }),
      ROW(
          "cvt.rzi.s32.f64", S32(F64), (F64 a) { return Integer<S32>(std::trunc(a)); }),
      ROW(
          "cvt.rzi.s32.f32", S32(F32), (F32 a) { return Integer<S32>(std::trunc(a)); }),
      ROW(
          "cvt.rni.s32.f64", S32(F64), (F64 a) { return Integer<S32>(std::nearbyint(a)); }),
      ROW(
          "cvt.rni.f32.f32", F32(F32), (F32 a) { return std::nearbyint(a); }),
      ROW(
          "cvt.rmi.f32.f32", F32(F32), (F32 a) { return std::floor(a); }),
      ROW(
          "cvt.rzi.f32.f32", F32(F32), (F32 a) { return std::trunc(a); }),
      ROW(
          "cvt.rn.bf16.f32", U16(F32), (F32 a) { return RoundedToBf16(a); }),
      ROW(
          "cvt.rn.bf16x2.f32", U32(F32, F32),
          (F32 high, F32 low) { return U32{RoundedToBf16(high)} << 16 | RoundedToBf16(low); }),
      ROW(
          "cvt.f32.bf16", F32(U16), (U16 a) { return FromBf16(a); }),
  };
}

std::vector<Operation> WarpOperations() {
  return {
      {"shfl.sync.down.b32", {4, 1, 4, 4, 4, 4}, Shuffle<true>, 5, Kind::kTogether},
      {"shfl.sync.idx.b32", {4, 1, 4, 4, 4, 4}, Shuffle<false>, 5, Kind::kTogether},
      {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32:4=4,2,4",
       {4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4},
       MultiplyTiles,
       -1,
       Kind::kTogether},
  };
}

}  // namespace

const std::vector<Operation>& AllOperations() {
  static const auto* const all = [] {
    auto* const rows = new std::vector<Operation>;
    for (const auto& part : {IntegerOperations(), FloatOperations(), WarpOperations()}) {
      rows->insert(rows->end(), part.begin(), part.end());
    }
    return rows;
  }();
  return *all;
}

const Operation* FindOperation(absl::string_view name) {
  static const auto* const by_name = [] {
    auto* const map = new std::map<std::string, const Operation*, std::less<>>;
    for (const Operation& row : AllOperations()) map->emplace(row.name, &row);
    return map;
  }();
  const auto found = by_name->find(std::string(name));
  return found == by_name->end() ? nullptr : found->second;
}

}  // namespace stringline::ptx
