// The orders found by searches of a schedule file, in a file beside the schedule: best.sched.found.
//
//   # Orders found for the search blocks of best.sched. They are found again without this file.
//   found 3f2a9c41 value=22 bound=22
//   rank 0: 0F 0F&0B 0B …
//   end 8812e0b7
//
// Where places or layers were free, too, the first line goes on: ` place=1 layers=3,4,4,5`.
//
// Every entry has the key of its problem and a sum of its text. Damaged entries are passed
// over, and orders of another problem do not fit (FitsProblem), so no content of the file
// can make a search wrong. If the folder cannot be written, nothing is kept.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schedlang/search/kept_orders.h"

namespace stringline {

class FoundFile : public search::KeptOrders {
 public:
  enum class Use : uint8_t {
    kReadAndWrite,
    kOnlyWrite,  // earlier orders are not looked at
    kOnlyRead,
  };
  static Use UseOf(bool again) { return again ? Use::kOnlyWrite : Use::kReadAndWrite; }

  // `schedule`: the FILE of a command line. If FILE is no file, nothing is kept.
  FoundFile(const std::string& schedule, Use use);
  // Writes new orders, in the place of those under the same keys.
  ~FoundFile() override;
  FoundFile(const FoundFile&) = delete;
  FoundFile& operator=(const FoundFile&) = delete;

  std::optional<search::Found> Find(uint64_t key) override;
  void Keep(uint64_t key, const search::Found& found) override;

 private:
  std::string path_;  // empty: nowhere
  const Use use_;
  std::mutex mutex_;
  std::optional<std::map<uint64_t, std::string>> old_;  // entries, once they have been read
  std::map<uint64_t, std::string> new_;
};

}  // namespace stringline
