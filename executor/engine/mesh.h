// Copies of a pipeline: `mesh: {pipeline: P, data: D, expert: X, shard: S}`.
//
// The plan speaks of P pipeline ranks. Every coordinate (data, expert) runs the same plan on its
// own microbatches; rank r of it is rank coordinate * P + r of the mesh. Experts are shared out
// over `expert`, everything else is alike on all coordinates and its gradients are summed over
// them. With a `sharding`, S of the D data copies share out their state among them (sharding.h);
// the other D / S are replicas: data index d = replica * S + place in its shard group.
#pragma once

namespace stringline {

struct Mesh {
  int data = 1;
  int expert = 1;
  int shard = 0;  // a divisor of `data`; 0: all of `data`

  int coordinates() const { return data * expert; }
  int coordinate(int data_index, int expert_index) const {
    return data_index * expert + expert_index;
  }
  int data_of(int coordinate) const { return coordinate / expert; }
  int expert_of(int coordinate) const { return coordinate % expert; }

  // The number of members of a shard group, and a coordinate's index in its group.
  int shards() const { return shard == 0 ? data : shard; }
  int shard_of(int coordinate) const { return data_of(coordinate) % shards(); }
};

}  // namespace stringline
