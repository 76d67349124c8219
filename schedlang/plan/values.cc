#include "schedlang/plan/values.h"

namespace stringline {

const char* NameOf(StageValue value) {
  static constexpr const char* kNames[] = {
#define VALUE(value, printed) printed,
#include "schedlang/plan/values.def"
  };
  return kNames[static_cast<int>(value)];
}

bool MayBeComputedAgain(StageValue value) {
  constexpr bool kOnce = false, kAgain = true;
  static constexpr bool kRows[] = {
#define KEPT(value, printed, again, ...) again,
#define HOSTED(value, printed, again, ...) again,
#define MOVED(value, printed, again, ...) again,
#define OWN(value) kOnce,
#include "schedlang/plan/values.def"
  };
  return kRows[static_cast<int>(value)];
}

const char* NameOf(MemoryClass memory_class) {
  static constexpr const char* kNames[] = {
#define STATE(memory_class, printed, key, meaning) printed,
#define KEPT(value, printed, ...) printed,
#define HOSTED(value, printed, ...) printed,
#define OWN(value) "own value",
#include "schedlang/plan/values.def"
      "messages",
  };
  return kNames[static_cast<int>(memory_class)];
}

MemoryClass ClassOf(StageValue value) {
  static constexpr MemoryClass kClasses[] = {
#define KEPT(value, ...) MemoryClass::value,
#define HOSTED(value, ...) MemoryClass::value,
#define OWN(value) MemoryClass::value,
#define MOVED(value, ...) MemoryClass::kMessages,
#include "schedlang/plan/values.def"
  };
  return kClasses[static_cast<int>(value)];
}

}  // namespace stringline
