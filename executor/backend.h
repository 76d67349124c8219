// What ranks run on: a device, groups of ranks on it, and the kernels that it has; and, where other
// processes hold ranks of the same run, the way to them.
#pragma once

#include <string>

#include "executor/available_memory.h"
#include "executor/device.h"
#include "executor/group.h"
#include "executor/programs/kernels.h"
#include "executor/world.h"

namespace stringline {

class Backend {
 public:
  virtual ~Backend() = default;
  virtual Device* device() = 0;
  virtual Groups* groups() = 0;
  virtual Kernels* kernels() = 0;
  // The memory that one of the device's places can still give.
  virtual AvailableMemory available(int place = 0) = 0;
  // Which rank is where, for people; "" where there is one place.
  virtual std::string DescribePlaces() const { return ""; }
  // Null: this process holds all ranks.
  virtual World* world() { return nullptr; }
};

}  // namespace stringline
