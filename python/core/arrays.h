// Plans and timelines as arrays that NumPy reads in place, without a copy.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "schedlang/ask/session.h"
#include "tools/io/json.h"

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

// {"actions": {"item_bytes": 24, "fields": [["kind", "u1", 0], …]}, …}: NumPy's types and offsets
// of the fields for Python.
Json LayoutsAsJson();

}  // namespace stringline::python
