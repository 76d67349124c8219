#include "schedlang/base/threads.h"

#include <system_error>

#include "absl/strings/str_cat.h"

namespace stringline {

absl::Status StartThreads(int count, const std::function<void()>& work,
                          std::vector<std::thread>* threads) {
  for (int i = 0; i < count; ++i) {
    try {
      threads->emplace_back(work);
    } catch (const std::system_error& error) {
      return absl::ResourceExhaustedError(
          absl::StrCat(count, " threads are wanted, but the system started only ", i, " (",
                       error.code().message(), ")"));
    }
  }
  return absl::OkStatus();
}

void WorkOnThreads(int count, const std::function<void()>& work) {
  std::vector<std::thread> others;
  StartThreads(count - 1, work, &others).IgnoreError();
  work();
  for (std::thread& other : others) other.join();
}

}  // namespace stringline
