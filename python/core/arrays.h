// Plans and timelines as arrays that NumPy reads where they lie.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "tools/json.h"
#include "tools/session.h"

namespace stringline::python {

// Equal items behind each other, owned by the session.
struct Array {
  const void* data = nullptr;
  size_t items = 0;
  size_t item_bytes = 0;
};

// "actions", "stages" and "action_first" of the plan; "events", "parts" and "event_first" of the
// timeline. Nothing for other names, and where the session has no plan or no timeline.
std::optional<Array> ArrayOf(const Session& session, const std::string& name);

// {"actions": {"item_bytes": 24, "fields": [["kind", "u1", 0], …]}, …}: NumPy's types and the
// places of those fields that Python sees.
Json LayoutsAsJson();

}  // namespace stringline::python
