// Where a raised model may be cut into layers.
#pragma once

#include "absl/status/status.h"
#include "stages/models/raised.h"

namespace stringline {

// Sets `starts` and `layers`: one layer for each part of the module whose parts hold most of the
// nodes, as "model.layers.0", "model.layers.1", …, as far as it begins where a single activation
// goes to it from what is before; otherwise it is one with the layer before. Unimplemented for a
// model that has no such place, and for a parameter that several layers share.
absl::Status FindLayers(RaisedModel* model);

}  // namespace stringline
