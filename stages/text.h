// Graphs as text, both ways, for tests and people.
//
//   graph {
//     in param 0 = w : f32[288,96]
//     in input 0 = x : f32[8,64,96]
//     h : f32[8,64,288] = linear x w
//     y : f32[8,64,288] = scale h {factor=0.5}
//     out output 0 = y
//   }
//
// One line a port or node, inputs first; `#` starts a comment. A scalar is `f32[]`. Names consist
// of letters, digits, `_` and `.`. Printing a canonical graph and reading it back gives the same
// graph, bit for bit in the attributes.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stages/graph.h"

namespace stringline {

std::string PrintType(const Type& type);
// InvalidArgument with `text` in quotes if it is no type.
absl::StatusOr<Type> ReadType(absl::string_view text);

// The shortest decimal that reads back as `number`.
std::string PrintNumber(double number);
std::string PrintNumber(float number);

std::string PrintGraph(const Graph& graph);
// InvalidArgument, "line 3: ...", for the first misfit: the form, an unknown op or role, a value
// used before its definition, or a type that contradicts the op's shape rule.
absl::StatusOr<Graph> ReadGraph(absl::string_view text);

}  // namespace stringline
