// Where a raised model may be cut into layers.
#pragma once

#include "absl/status/status.h"
#include "stages/models/raised.h"

namespace stringline {

// Sets `starts` and `layers`: one layer for each module of the list of modules that holds most of
// the nodes ("model.layers.0", "model.layers.1", …); without a list, between any two modules where
// a single activation goes from one to the other. InvalidArgument for a model that nowhere can be
// cut, and for a parameter that several layers share.
absl::Status FindLayers(RaisedModel* model);

}  // namespace stringline
