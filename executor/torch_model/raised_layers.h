// The cuts of a raised model into layers.
#pragma once

#include "absl/status/status.h"
#include "stages/models/raised.h"

namespace stringline {

// Sets `starts` and `layers`: a layer for each child of the module whose children hold the most
// nodes, as "model.layers.0", "model.layers.1", …; a child that no activation enters from the nodes
// before is merged with the layer before. Unimplemented for a model without such cuts, and for a
// parameter shared by several layers.
absl::Status FindLayers(RaisedModel* model);

}  // namespace stringline
