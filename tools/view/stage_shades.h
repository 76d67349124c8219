// The stages of a rank told apart, by one rule for every form of picture. A stage has a shade from
// 0 to 3: an odd shade is a darker colour or a small letter, a shade from 2 on bears a mark (a bar,
// an underline, a dotted letter). Shades count a rank's stages by their numbers, and where there
// are pipes, those of the first pipe before those of the next. The fifth stage looks like the
// first.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "schedlang/plan/timeline.h"

namespace stringline {

inline constexpr int kShades = 4;
constexpr bool IsDark(int shade) { return (shade & 1) != 0; }
constexpr bool IsMarked(int shade) { return (shade & 2) != 0; }

struct StageShades {
  std::vector<int> of;             // by stage
  std::vector<std::string> names;  // by shade in use; with a single name nothing needs telling
                                   // apart
};
StageShades ShadesOf(const Timeline& timeline);

// The meanings of shades in a picture of several timelines.
class ShadeNames {
 public:
  void Add(const StageShades& shades);
  // "pipe up"; "" for a shade that is not drawn, or needs no words.
  std::string Of(int shade) const;

 private:
  std::array<std::vector<std::string>, kShades> names_;
};

}  // namespace stringline
