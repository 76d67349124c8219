// A backend runs ranks: a device, groups of ranks on it, and its kernels; and the world of
// processes, if other processes hold ranks of the same run.
#pragma once

#include <string>

#include "executor/engine/available_memory.h"
#include "executor/engine/device.h"
#include "executor/engine/group.h"
#include "executor/engine/kernels.h"
#include "executor/engine/world.h"

namespace stringline {

class Backend {
 public:
  virtual ~Backend() = default;
  virtual Device* device() = 0;
  virtual Groups* groups() = 0;
  virtual Kernels* kernels() = 0;
  // The memory still available at a place of the device.
  virtual AvailableMemory available(int place = 0) = 0;
  // The place of every rank, for people; "" if the device has a single place.
  virtual std::string DescribePlaces() const { return ""; }
  // Null: this process holds all ranks.
  virtual World* world() { return nullptr; }
};

}  // namespace stringline
