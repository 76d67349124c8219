// Copies of a pipeline: `mesh: {pipeline: P, data: D, expert: X}`.
//
// The plan speaks of P pipeline ranks. Every coordinate (data, expert) runs the same plan on its
// own microbatches; rank r of it is rank coordinate * P + r of the mesh. Experts are shared out
// over `expert`, everything else is alike on all coordinates and its gradients are summed over
// them.
#pragma once

namespace stringline {

struct Mesh {
  int data = 1;
  int expert = 1;

  int coordinates() const { return data * expert; }
  int coordinate(int data_index, int expert_index) const {
    return data_index * expert + expert_index;
  }
  int data_of(int coordinate) const { return coordinate / expert; }
  int expert_of(int coordinate) const { return coordinate % expert; }
};

}  // namespace stringline
