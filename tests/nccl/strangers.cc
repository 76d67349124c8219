#include "tests/nccl/strangers.h"

#include <dirent.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <new>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/processes/sockets.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/sl_check.h"

namespace stringline {
namespace {

// A process and its children, children of children, and so on.
void AddProcesses(pid_t pid, std::vector<pid_t>* all) {
  all->push_back(pid);
  std::ifstream children(absl::StrCat("/proc/", pid, "/task/", pid, "/children"));
  for (pid_t child = 0; children >> child;) {
    if (child != getpid()) AddProcesses(child, all);
  }
}

// The sockets of a process, by inode.
void AddSockets(pid_t pid, std::set<uint64_t>* inodes) {
  const std::string folder = absl::StrCat("/proc/", pid, "/fd");
  DIR* const files = opendir(folder.c_str());
  if (files == nullptr) return;
  while (const dirent* const file = readdir(files)) {
    char target[64] = {};
    uint64_t inode = 0;
    if (readlink(absl::StrCat(folder, "/", file->d_name).c_str(), target, sizeof(target) - 1) > 0 &&
        std::sscanf(target, "socket:[%" SCNu64 "]", &inode) == 1) {
      inodes->insert(inode);
    }
  }
  (void)closedir(files);
}

// The ports of IPv4 on which the processes listen.
std::vector<int> ListeningPorts(pid_t top) {
  std::vector<pid_t> processes;
  AddProcesses(top, &processes);
  std::set<uint64_t> inodes;
  for (const pid_t pid : processes) AddSockets(pid, &inodes);
  std::vector<int> ports;
  std::ifstream table("/proc/net/tcp");
  for (std::string line; std::getline(table, line);) {
    unsigned port = 0, state = 0;
    uint64_t inode = 0;
    constexpr unsigned kListens = 0x0A;
    if (std::sscanf(line.c_str(), " %*d: %*x:%x %*x:%*x %x %*x:%*x %*x:%*x %*x %*d %*d %" SCNu64,
                    &port, &state, &inode) == 3 &&
        state == kListens && inodes.count(inode) > 0) {
      ports.push_back(static_cast<int>(port));
    }
  }
  return ports;
}

// The bytes that a stranger says.
std::string WordsOf(int kind, std::mt19937* random) {
  std::string words;
  if (kind == 1) words.resize((*random)() % 100'000);
  if (kind == 2) words.resize(33);  // half a proof
  for (char& c : words) c = static_cast<char>((*random)());
  if (kind == 3) {  // a frame that never ends (frames.h)
    words = std::string("SLW1\1\0\0\0\0\0\x0f\0\0\0\0\0", 16) + std::string(60'000, 'x');
  }
  return words;
}

// Ports that a thread looks for, again and again: where many processes hold many files, one look
// takes a while.
class Ports {
 public:
  Ports(pid_t top, int first) : ports_({first}) {
    std::thread([this, top, first] {
      for (;; usleep(20'000)) {
        std::vector<int> found = ListeningPorts(top);
        found.push_back(first);
        const std::lock_guard<std::mutex> lock(mutex_);
        ports_ = std::move(found);
      }
    }).detach();
  }
  int Draw(std::mt19937* random) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return ports_[(*random)() % ports_.size()];
  }

 private:
  std::mutex mutex_;
  std::vector<int> ports_;
};

[[noreturn]] void Knock(int count, int port, pid_t top, std::atomic<int64_t>* had) {
  std::mt19937 random(11);
  std::vector<int> open(static_cast<size_t>(count), -1);
  Ports ports(top, port);
  for (;; usleep(500)) {
    for (int& fd : open) {
      const int kind = static_cast<int>(random() % 5);
      // Some keep what they have for a while.
      if (fd >= 0 && kind != 4) continue;
      if (fd >= 0) (void)close(fd);
      const auto made = ConnectTo("127.0.0.1", ports.Draw(&random), NowNs() + 50'000'000);
      fd = made.ok() ? *made : -1;
      if (fd < 0) continue;
      ++*had;
      const std::string words = WordsOf(kind, &random);
      (void)!send(fd, words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  }
}

}  // namespace

Strangers::Strangers(int count, int port) {
  void* const shared =
      mmap(nullptr, sizeof(*had_), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  SL_CHECK(shared != MAP_FAILED);
  had_ = new (shared) std::atomic<int64_t>(0);
  const pid_t top = getpid();
  pid_ = fork();
  SL_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    Knock(count, port, top, had_);
  }
}

void Strangers::Await(int64_t connections) const {
  while (had() < connections) usleep(10'000);
}

Strangers::~Strangers() {
  (void)kill(pid_, SIGKILL);
  (void)waitpid(pid_, nullptr, 0);
  (void)munmap(had_, sizeof(*had_));
}

}  // namespace stringline
