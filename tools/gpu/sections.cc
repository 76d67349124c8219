#include "tools/gpu/sections.h"

namespace stringline {

std::vector<CheckSection> AllSections(const std::string& schedules) {
  return {
      {"device", CheckDevice, 60},
      {"training",
       [schedules](CheckRows* rows) {
         CheckTraining(schedules, {1, 2, 4}, rows);
       },
       240},
  };
}

}  // namespace stringline
