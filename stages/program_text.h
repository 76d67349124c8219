// Stage programs as text, both ways, and the check of a whole program.
//
//   program {
//     first
//     remakes                          # the stage has R
//     param embedding.weight : f32[256,96] normal=0.02 decay
//     param head.weight : f32[256,96] normal=0.02 decay eager
//     param norm.bias : f32[96] zeros
//     param copy.weight : f32[256,96] normal=0.02 decay tied=embedding.weight
//     input : i32[8,64]
//     output : f32[8,64,96]
//     saved : f32[8,64,96]
//     saved : f32[8,64,96] weight      # W reads it, too
//     saved : f32[8,64,96] remade      # R gives it
//     stash : f32[8,64,288]
//     moe_layers : 1                   # not if 0
//     parts forward : compute=12 network=3 compute=4 network=1 compute=2   # not if one
//   }
//   forward graph { … }                # each as in text.h
//   backward graph { … }
//   input_gradient graph { … }
//   weight_gradient graph { … }
//   recompute graph { … }              # if it remakes
//
// Saved and stash are numbered in the order written, params likewise.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "stages/stage_program.h"

namespace stringline {

std::string PrintStageProgram(const StageProgram& program);

// InvalidArgument, "line 3: ...", for the first misfit; or the error of CheckStageProgram.
absl::StatusOr<StageProgram> ReadStageProgram(absl::string_view text);

// Any number of programs behind each other. Errors as of ReadStageProgram, with the line in `text`.
absl::StatusOr<std::vector<StageProgram>> ReadStagePrograms(absl::string_view text);

// InvalidArgument if a port of a graph has an index or a type other than the program states, or if
// parts are not the graph's nodes in a row, collectives in network parts and the rest in others.
absl::Status CheckStageProgram(const StageProgram& program);

}  // namespace stringline
