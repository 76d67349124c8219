// The values of a stage: per microbatch, and independent of microbatches; values.def as types.
// Producers and consumers: effects.h.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace stringline {

// The values of a microbatch that take memory, in the order of values.def.
enum class StageValue : uint8_t {
#define VALUE(value, printed) value,
#include "schedlang/plan/values.def"
};
inline constexpr int kStageValues = 0
#define VALUE(value, printed) +1
#include "schedlang/plan/values.def"
    ;
// The number of built-in values, which come before a schedule's own.
inline constexpr int kBuiltInValues = static_cast<int>(StageValue::kOwn0);
const char* NameOf(StageValue value);  // "input", …, "saved for I", …
bool MayBeComputedAgain(StageValue value);

// Bytes of a microbatch of a stage; 0 for values that the stage does not have.
struct StageBytes {
  std::array<int64_t, kStageValues> bytes = {};
  int64_t& operator[](StageValue value) { return bytes[static_cast<size_t>(value)]; }
  int64_t operator[](StageValue value) const { return bytes[static_cast<size_t>(value)]; }
};

// Sets of values, one bit each, also for those without memory: kInput, kOutput, …; combine with |.
using Values = uint32_t;
constexpr Values SetOf(StageValue value) {
  return static_cast<Values>(1u << static_cast<unsigned>(value));
}
// Each value of a set that takes memory, in order.
template <typename Visit>
void ForEachOf(Values values, Visit visit) {
  for (values &= SetOf(static_cast<StageValue>(kStageValues)) - 1; values != 0;
       values &= values - 1) {
    visit(static_cast<StageValue>(std::countr_zero(values)));
  }
}
// The lowest value of a set, as a set.
constexpr Values LowestOf(Values values) { return values & (~values + 1); }
// Each value of a set as a set, also those without memory: visit(values).
template <typename Visit>
void ForEachSetOf(Values values, Visit visit) {
  for (; values != 0; values &= values - 1) visit(LowestOf(values));
}
#define VALUE(value, printed) inline constexpr Values value = SetOf(StageValue::value);
#include "schedlang/plan/values.def"
inline constexpr Values kWeightGrad = 1u << kStageValues;
inline constexpr Values kToRemake = kWeightGrad << 1;
inline constexpr Values kToOffload = kToRemake << 1;
inline constexpr Values kMade = kToOffload << 1;
inline constexpr Values kSentBack = kMade << 1;
inline constexpr int kValueRows = kStageValues + 5;
static_assert(kValueRows <= 32);
inline constexpr Values kSaved = kSavedForInput | kSavedForWeight;

// The needs of an action, and what it gives and releases.
struct Effects {
  Values needs = 0;
  Values gives = 0;
  Values releases = 0;
};

// The classes by which memory is counted over time: each state of a stage, each value that stays on
// its rank, and all values that move between stages as one class.
enum class MemoryClass : uint8_t {
#define STATE(memory_class, printed, key, meaning) memory_class,
#define KEPT(value, printed, ...) value,
#define HOSTED(value, printed, ...) value,
#define OWN(value) value,
#include "schedlang/plan/values.def"
  kMessages,
};
inline constexpr int kMemoryClasses = static_cast<int>(MemoryClass::kMessages) + 1;
// True for memory that a microbatch takes, and false for a stage's own.
constexpr bool IsOfMicrobatch(MemoryClass memory_class) {
  return memory_class > MemoryClass::kUnsharded;
}
// True for memory of the host, which no sum of a device's memory contains.
constexpr bool IsOnHost(StageValue value) {
  return value == StageValue::kHosted ||
         (value >= StageValue::kOwnHost0 && value <= StageValue::kOwnHost2);
}
// True for an own value that each rank has, and for one that another rank than the stage's holds.
constexpr bool IsOfEachRank(StageValue value) {
  return value >= StageValue::kOwnEach0 && value <= StageValue::kOwnEach4;
}
constexpr bool IsAway(StageValue value) { return value >= StageValue::kOwnAway0; }
// Sets of own values by where they live, and all values of the stage's own device.
inline constexpr Values kOfEachRank =
    SetOf(StageValue::kOwnEach4) * 2 - SetOf(StageValue::kOwnEach0);
inline constexpr Values kOwnValues = SetOf(StageValue::kOwnAway2) * 2 - SetOf(StageValue::kOwn0);
inline constexpr Values kAway = SetOf(StageValue::kOwnAway2) * 2 - SetOf(StageValue::kOwnAway0);
inline constexpr Values kOnDevice =
    (SetOf(StageValue::kOwnHost0) - 1) & ~SetOf(StageValue::kHosted);
const char* NameOf(MemoryClass memory_class);  // "weights", …, "saved for I", …
MemoryClass ClassOf(StageValue value);
constexpr bool IsOnHost(MemoryClass memory_class) {
  return memory_class == MemoryClass::kHosted ||
         (memory_class >= MemoryClass::kOwnHost0 && memory_class <= MemoryClass::kOwnHost2);
}

}  // namespace stringline
