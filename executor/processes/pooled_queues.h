// Queues, first in, first out, whose elements lie in one pool: an empty queue is two numbers, and
// nothing is allocated once the pool has been as full as it gets.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace stringline {

template <typename T>
class PooledQueues {
 public:
  struct Queue {
    int first = -1, last = -1;  // places in the pool; -1: empty
    bool empty() const { return first < 0; }
  };

  // Room for so many elements of all queues.
  void MakeRoom(size_t elements) { nodes_.reserve(elements); }
  // Returns the place of the element, which stays the same until Pop.
  int Push(Queue* queue, T value) {
    int place = free_;
    if (place < 0) {
      place = static_cast<int>(nodes_.size());
      nodes_.push_back({std::move(value), -1});
    } else {
      free_ = nodes_[place].next;
      nodes_[place] = {std::move(value), -1};
    }
    (queue->empty() ? queue->first : nodes_[queue->last].next) = place;
    queue->last = place;
    return place;
  }
  T Pop(Queue* queue) {
    const int place = queue->first;
    queue->first = nodes_[place].next;
    nodes_[place].next = free_;
    free_ = place;
    return std::move(nodes_[place].value);
  }
  const T& Front(const Queue& queue) const { return nodes_[queue.first].value; }
  T& at(int place) { return nodes_[place].value; }
  const T& at(int place) const { return nodes_[place].value; }

 private:
  struct Node {
    T value;
    int next = -1;  // in its queue, or in the list of free places
  };
  std::vector<Node> nodes_;
  int free_ = -1;
};

}  // namespace stringline
