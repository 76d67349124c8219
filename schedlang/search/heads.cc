// The pass of relaxed.h from the first microbatch to the last: the least time before a letter,
// along its dependencies and on its rank.
#include <algorithm>

#include "schedlang/search/relaxed.h"

namespace stringline::search {
namespace {

// The arrival of a message: messages of a link follow each other.
int64_t Arrive(const Relaxed::Link& link, int64_t end, int64_t before) {
  return std::max(end, before - link.latency) + link.transfer + link.latency;
}

class HeadPass {
 public:
  HeadPass(const Relaxed& relaxed, const Frontier& frontier, Heads* heads)
      : relaxed_(relaxed),
        frontier_(frontier),
        heads_(*heads),
        stop_(relaxed.problem->stop, LooksOf(relaxed)) {
    const size_t size = relaxed.at(relaxed.problem->stage_count(), 0);
    for (auto* part : {&heads_.forward, &heads_.back, &heads_.release}) {
      part->assign(size, kLongAgo);
    }
    last_activation_.assign(relaxed.least.size(), kLongAgo);
    last_gradient_ = last_activation_;
    for (const std::vector<int>& row : relaxed.rows) AddMarks(row);
  }

  void Run() {
    for (const std::vector<int>& pipe : relaxed_.pipes) {
      const int count = relaxed_.count(pipe[0]);
      for (int k = 0; k < count; ++k) {
        if (stop_.IsWished()) return;
        for (const int s : pipe) {
          if (k >= frontier_.forwards[s]) heads_.forward[relaxed_.at(s, k)] = Forward(s, k);
        }
        for (size_t i = pipe.size(); i-- > 0;) {
          const int s = pipe[i];
          if (k >= frontier_.backs[s]) heads_.back[relaxed_.at(s, k)] = Back(s, k);
        }
        for (const int s : pipe) {
          if (k >= frontier_.releases[s]) heads_.release[relaxed_.at(s, k)] = Release(s, k);
        }
      }
    }
  }

 private:
  // A moment from which work is counted: the first remaining back of a stage, or the beginning (no
  // stage). `done`: the letters that may have been done before.
  struct Mark {
    int stage = -1;
    int k = 0;
    RowCounts done;
  };

  const LeastTimes& LeastOf(int s) const { return relaxed_.least[s]; }

  void AddMarks(const std::vector<int>& row) {
    std::vector<Mark>& marks = marks_.emplace_back();
    Mark& beginning = marks.emplace_back();
    for (const int s : row) {
      beginning.done.forwards.push_back(frontier_.forwards[s]);
      beginning.done.backs.push_back(frontier_.backs[s]);
      beginning.done.releases.push_back(frontier_.releases[s]);
    }
    AddMark(row, row.back(), &marks);
    if (row.size() > 1) AddMark(row, row.front(), &marks);
  }

  void AddMark(const std::vector<int>& row, int stage, std::vector<Mark>* marks) const {
    Mark mark{.stage = stage, .k = frontier_.backs[stage], .done = (*marks)[0].done};
    for (size_t l = 0; l < row.size(); ++l) {
      const int fits = mark.k + relaxed_.behind[relaxed_.pair(row[l], stage)];
      const int turned = static_cast<int>(l) <= relaxed_.place[stage] ? mark.k : fits;
      mark.done.forwards[l] = std::max(mark.done.forwards[l], fits);
      mark.done.backs[l] = std::max(mark.done.backs[l], turned);
      mark.done.releases[l] = std::max(mark.done.releases[l], turned);
    }
    marks->push_back(std::move(mark));
  }

  // The earliest start by the work before a letter: `before_`.
  int64_t BehindWork(int s) const {
    const std::vector<int>& row = relaxed_.row_of(s);
    int64_t head = kLongAgo;
    for (const Mark& mark : marks_[relaxed_.row[s]]) {
      int64_t begin = frontier_.now[relaxed_.rank(s)];
      if (mark.stage >= 0) {
        if (before_.backs[relaxed_.place[mark.stage]] <= mark.k) continue;
        begin = heads_.back[relaxed_.at(mark.stage, mark.k)];
      }
      head = std::max(head, begin + WorkBetween(relaxed_, row, mark.done, before_));
    }
    return head;
  }

  int64_t Forward(int s, int k) {
    const StageWork& stage = relaxed_.problem->stages[s];
    int64_t head = frontier_.now[stage.rank];
    if (k > frontier_.forwards[s]) {
      head = std::max(head, heads_.forward[relaxed_.at(s, k - 1)] + LeastOf(s).forward);
    }
    if (stage.previous >= 0) {
      int64_t& arrival = last_activation_[s];
      arrival = k < frontier_.forwards[stage.previous]
                    ? frontier_.activations[relaxed_.at(s, k)]
                    : Arrive(relaxed_.forward_link[stage.previous],
                             heads_.forward[relaxed_.at(stage.previous, k)] +
                                 LeastOf(stage.previous).forward,
                             arrival);
      head = std::max(head, arrival);
    }
    CountBefore(relaxed_, s, k, &before_);
    const std::vector<int>& row = relaxed_.row_of(s);
    for (size_t l = 0; l < row.size(); ++l) {
      if (before_.backs[l] > frontier_.backs[row[l]]) {
        const size_t last = relaxed_.at(row[l], before_.backs[l] - 1);
        head = std::max(head, heads_.back[last] + LeastOf(row[l]).back);
      }
      if (before_.releases[l] > frontier_.releases[row[l]]) {
        head = std::max(head, heads_.release[relaxed_.at(row[l], before_.releases[l] - 1)]);
      }
    }
    return std::max(head, BehindWork(s));
  }

  // Counts the letters before back k: F k of every stage of the row and their needs, and the backs
  // of later stages.
  void CountBeforeBack(int s, int k) {
    const std::vector<int>& row = relaxed_.row_of(s);
    for (size_t l = 0; l < row.size(); ++l) {
      const int place = static_cast<int>(l) - relaxed_.place[s];
      before_.forwards[l] = k + 1;
      before_.backs[l] =
          place > 0 ? k + 1 : std::max(place == 0 ? k : 0, k + 1 - relaxed_.least_behind[row[l]]);
      before_.releases[l] = std::max(0, k + 1 - relaxed_.least_release_behind[row[l]]);
    }
  }

  int64_t Back(int s, int k) {
    const StageWork& stage = relaxed_.problem->stages[s];
    int64_t head = frontier_.now[stage.rank];
    if (k > frontier_.backs[s]) {
      head = std::max(head, heads_.back[relaxed_.at(s, k - 1)] + LeastOf(s).back);
    }
    if (stage.next < 0) {
      if (k >= frontier_.forwards[s]) {
        head = std::max(head, heads_.forward[relaxed_.at(s, k)] + LeastOf(s).forward);
      }
    } else {
      int64_t& arrival = last_gradient_[s];
      arrival =
          k < frontier_.backs[stage.next]
              ? frontier_.gradients[relaxed_.at(s, k)]
              : Arrive(relaxed_.back_link[stage.next],
                       heads_.back[relaxed_.at(stage.next, k)] + LeastOf(stage.next).back, arrival);
      head = std::max(head, arrival);
    }
    before_.forwards.resize(relaxed_.row_of(s).size());
    before_.backs.resize(before_.forwards.size());
    before_.releases.resize(before_.forwards.size());
    CountBeforeBack(s, k);
    return std::max(head, BehindWork(s));
  }

  int64_t Release(int s, int k) const {
    int64_t end = frontier_.now[relaxed_.rank(s)];
    if (k >= frontier_.backs[s]) {
      end = heads_.back[relaxed_.at(s, k)] + LeastOf(s).release;
    } else {
      end += LeastOf(s).between;  // the W of a finished I
    }
    if (k > frontier_.releases[s]) {
      end = std::max(end, heads_.release[relaxed_.at(s, k - 1)] + LeastOf(s).between);
    }
    return end;
  }

  const Relaxed& relaxed_;
  const Frontier& frontier_;
  Heads& heads_;
  std::vector<int64_t> last_activation_, last_gradient_;  // by receiving stage
  std::vector<std::vector<Mark>> marks_;                  // by row
  RowCounts before_;
  SparseStop stop_;
};

}  // namespace

void FindHeads(const Relaxed& relaxed, const Frontier& frontier, Heads* heads) {
  HeadPass(relaxed, frontier, heads).Run();
}

}  // namespace stringline::search
