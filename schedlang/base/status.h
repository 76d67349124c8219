// Macros over absl::Status: errors of the world (files, peers, memory).
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define SL_STATUS_CONCAT_INNER(a, b) a##b
#define SL_STATUS_CONCAT(a, b) SL_STATUS_CONCAT_INNER(a, b)

#define SL_RETURN_IF_ERROR(expression)     \
  do {                                     \
    absl::Status sl_status = (expression); \
    if (!sl_status.ok()) return sl_status; \
  } while (0)

#define SL_ASSIGN_OR_RETURN(target, expression) \
  SL_ASSIGN_OR_RETURN_INNER(SL_STATUS_CONCAT(sl_or_, __LINE__), target, expression)
#define SL_ASSIGN_OR_RETURN_INNER(temporary, target, expression) \
  auto temporary = (expression);                                 \
  if (!temporary.ok()) return std::move(temporary).status();     \
  target = std::move(temporary).value()
