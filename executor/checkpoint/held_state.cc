// The processes count the values that they lack. Where any lacks some, they exchange the places of
// their values, from which each knows what it gives and what it gets; then the values move.
#include "executor/checkpoint/held_state.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/engine/lost_process.h"
#include "executor/engine/packed_numbers.h"
#include "schedlang/base/clock.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr size_t kMostCopies = 2;
constexpr int kFetched = -1;  // the number of a share of values from other processes

bool HoldsPart(const std::vector<HeldRange>& ranges, size_t count, const StateTensor::Part& part) {
  return std::any_of(ranges.begin(), ranges.begin() + static_cast<int64_t>(count),
                     [&](const HeldRange& range) {
                       return range.first <= part.first && part.end() <= range.end();
                     });
}

// Copies the state of this process, into memory that may be used again.
absl::Status TakeShare(Trainer* trainer, HeldTensors* share) {
  const std::vector<StateTensor> tensors = StateOf(*trainer);
  share->resize(tensors.size());
  for (size_t t = 0; t < tensors.size(); ++t) {
    std::vector<HeldRange>& ranges = (*share)[t];
    size_t taken = 0;
    for (const StateTensor::Part& part : tensors[t].parts) {
      if (HoldsPart(ranges, taken, part)) continue;  // of another copy in this process
      if (taken == ranges.size()) ranges.emplace_back();
      HeldRange& range = ranges[taken++];
      range.first = part.first;
      for (const StateKind kind : {kValues, kFirstMoment, kSecondMoment}) {
        range.of[kind].resize(part.of[kind].size());
        SL_RETURN_IF_ERROR(
            trainer->device()->CopyNow(range.of[kind].data(), part.of[kind].data(),
                                       static_cast<int64_t>(part.of[kind].size() * sizeof(float))));
      }
    }
    ranges.resize(taken);
  }
  return absl::OkStatus();
}

using RangesOfTensors = std::vector<std::vector<const HeldRange*>>;

RangesOfTensors RangesOf(const std::vector<HeldShare>& shares, size_t tensors) {
  RangesOfTensors ranges(tensors);
  for (const HeldShare& share : shares) {
    for (size_t t = 0; t < share.tensors.size() && t < tensors; ++t) {
      for (const HeldRange& range : share.tensors[t]) ranges[t].push_back(&range);
    }
  }
  return ranges;
}

HeldAndWanted SpansOf(const RangesOfTensors& held, const std::vector<StateTensor>& tensors) {
  HeldAndWanted spans;
  spans.held.resize(tensors.size());
  spans.wanted.resize(tensors.size());
  for (size_t t = 0; t < tensors.size(); ++t) {
    for (const HeldRange* range : held[t]) spans.held[t].push_back({range->first, range->end()});
    for (const StateTensor::Part& part : tensors[t].parts) {
      // Parts of several copies in this process overlap.
      const std::vector<ValueSpan> more = Without({{part.first, part.end()}}, spans.wanted[t]);
      spans.wanted[t].insert(spans.wanted[t].end(), more.begin(), more.end());
    }
  }
  return spans;
}

bool LacksAny(const HeldAndWanted& spans) {
  for (size_t t = 0; t < spans.wanted.size(); ++t) {
    if (!Without(spans.wanted[t], spans.held[t]).empty()) return true;
  }
  return false;
}

// Calls with each piece of the span in one of the ranges: the range, and the first and the number
// of its values. False if some lie in none.
template <typename Use>
bool ForPieces(const std::vector<const HeldRange*>& ranges, const ValueSpan& span, const Use& use) {
  for (int64_t at = span.first; at < span.end;) {
    const auto found = std::find_if(ranges.begin(), ranges.end(), [at](const HeldRange* range) {
      return range->first <= at && at < range->end();
    });
    if (found == ranges.end()) return false;
    const int64_t end = std::min(span.end, (*found)->end());
    use(**found, at, end - at);
    at = end;
  }
  return true;
}

void AddSpans(const std::vector<std::vector<ValueSpan>>& tensors, PackedNumbers* packed) {
  for (const std::vector<ValueSpan>& spans : tensors) {
    packed->Add<int64_t>(static_cast<int64_t>(spans.size()));
    packed->AddAll<ValueSpan>(spans);
  }
}

void TakeSpans(std::vector<std::vector<ValueSpan>>* tensors, NumberReader* reader) {
  for (std::vector<ValueSpan>& spans : *tensors) {
    spans.resize(static_cast<size_t>(reader->Take<int64_t>()));
    reader->TakeAll(absl::MakeSpan(spans));
  }
}

std::string PackHistory(const StepHistory& history) {
  PackedNumbers packed;
  packed.Add(history.dropped);
  for (const std::vector<double>* numbers :
       {&history.losses_nats, &history.grad_norms, &history.learning_rates}) {
    packed.Add<int64_t>(static_cast<int64_t>(numbers->size()));
    packed.AddAll<double>(*numbers);
  }
  return packed.bytes();
}

StepHistory ReadHistory(const std::string& bytes) {
  NumberReader reader(bytes);
  StepHistory history;
  history.dropped = reader.Take<int64_t>();
  for (std::vector<double>* numbers :
       {&history.losses_nats, &history.grad_norms, &history.learning_rates}) {
    numbers->resize(static_cast<size_t>(reader.Take<int64_t>()));
    reader.TakeAll(absl::MakeSpan(*numbers));
  }
  return history;
}

}  // namespace

absl::Status HeldState::LearnLayout(const HeldTensors& own, World* world) {
  const uint64_t mine = PlacesSum(own);
  PackedNumbers packed;
  packed.Add(mine);
  std::vector<std::string> all = {packed.bytes()};
  if (world != nullptr) {
    SL_ASSIGN_OR_RETURN(all, world->Exchange(packed.bytes()));
  }
  std::map<uint64_t, int> holders;
  for (const std::string& bytes : all) ++holders[NumberReader(bytes).Take<uint64_t>()];
  layout_.known = true;
  layout_.count = static_cast<int>(holders.size());
  layout_.own = static_cast<int>(std::distance(holders.begin(), holders.find(mine)));
  const bool alone = std::any_of(holders.begin(), holders.end(),
                                 [](const auto& entry) { return entry.second == 1; });
  layout_.keeps = alone && layout_.ring < static_cast<int>(all.size());
  return absl::OkStatus();
}

absl::Status HeldState::KeepNeighbour(World* world, Copy* copy) {
  if (!layout_.keeps) return absl::OkStatus();
  const int count = world->processes();
  const int keeper = (world->process() + layout_.ring) % count;
  const int kept = (world->process() + count - layout_.ring) % count;
  SL_ASSIGN_OR_RETURN(const auto moved,
                      parcels_->Move({{keeper, PackHeld(copy->shares[0])}}, {kept}, world));
  copy->shares.push_back(ReadHeld(moved.at(kept)));
  return absl::OkStatus();
}

absl::Status HeldState::Take(int64_t step, const StepHistory& history, Trainer* trainer) {
  const Age age = {layout_.number, step};
  if (!copies_.empty() && copies_.front().age() == age) return absl::OkStatus();
  Copy copy;
  // The memory of the oldest copy is used again.
  if (copies_.size() == kMostCopies) {
    copy = std::move(copies_.back());
    copies_.pop_back();
  }
  copy.shares.resize(1);
  copy.layout = layout_.number;
  copy.step = step;
  copy.history = history;
  SL_RETURN_IF_ERROR(TakeShare(trainer, &copy.shares[0].tensors));
  if (!layout_.known) {
    SL_RETURN_IF_ERROR(LearnLayout(copy.shares[0].tensors, trainer->world()));
  }
  copy.count = layout_.count;
  copy.shares[0].number = layout_.own;
  copies_.push_front(std::move(copy));
  return KeepNeighbour(trainer->world(), &copies_.front());
}

std::vector<HeldVersion> HeldState::versions() const {
  std::vector<HeldVersion> versions;
  for (const Copy& copy : copies_) {
    std::set<int> holds;
    for (const HeldShare& share : copy.shares) holds.insert(share.number);
    versions.push_back({copy.layout, copy.step, copy.count, {holds.begin(), holds.end()}});
  }
  return versions;
}

HeldState::Copy* HeldState::Find(const Age& age) {
  const auto found = std::find_if(copies_.begin(), copies_.end(),
                                  [&age](const Copy& copy) { return copy.age() == age; });
  return found == copies_.end() ? nullptr : &*found;
}

// A neighbour that is lost meanwhile leaves a state that is not whole, which Restore tells.
void HeldState::HandOver(const Age& age, int to, const std::vector<int>& from) {
  Copy* const copy = Find(age);
  std::map<int, std::string> gives;
  if (to >= 0) {
    PackedNumbers packed;
    for (const HeldShare& share : copy == nullptr ? std::vector<HeldShare>() : copy->shares) {
      const std::string bytes = PackHeld(share);
      packed.Add<int64_t>(static_cast<int64_t>(bytes.size()));
      packed.AddAll(absl::MakeConstSpan(bytes));
    }
    gives[to] = packed.bytes();
  }
  if (gives.empty() && from.empty()) return;
  const auto moved = parcels_->Move(gives, from, /*world=*/nullptr);
  if (!moved.ok() || copy == nullptr) return;
  for (const auto& [process, bytes] : *moved) {
    for (NumberReader reader(bytes); !reader.done();) {
      std::string share(static_cast<size_t>(reader.Take<int64_t>()), '\0');
      reader.TakeAll(absl::MakeSpan(share));
      copy->shares.push_back(ReadHeld(share));
    }
  }
}

void HeldState::GoOnFrom(const Age& age) {
  const auto other = [&age](const Copy& copy) { return copy.age() != age; };
  copies_.erase(std::remove_if(copies_.begin(), copies_.end(), other), copies_.end());
  going_ = age;
  goes_on_ = true;
}

absl::StatusOr<Gifts> HeldState::AgreeOnGifts(const std::vector<StateTensor>& tensors,
                                              const HeldAndWanted& mine, World* world, Copy* copy) {
  const bool has_history = Find(copy->age()) == copy;
  std::array<uint64_t, 2> lacking = {LacksAny(mine), !has_history};
  if (world != nullptr) SL_RETURN_IF_ERROR(world->Sum(absl::MakeSpan(lacking)));
  if (lacking == std::array<uint64_t, 2>{0, 0}) return Gifts();
  PackedNumbers packed;
  packed.Add<int64_t>(has_history ? 1 : 0);
  AddSpans(mine.held, &packed);
  AddSpans(mine.wanted, &packed);
  std::vector<std::string> told = {packed.bytes()};
  if (world != nullptr) {
    SL_ASSIGN_OR_RETURN(told, world->Exchange(packed.bytes()));
  }
  std::vector<HeldAndWanted> all(told.size(), mine);
  int historian = -1;
  for (size_t p = 0; p < told.size(); ++p) {
    NumberReader reader(told[p]);
    if (reader.Take<int64_t>() == 1 && historian < 0) historian = static_cast<int>(p);
    TakeSpans(&all[p].held, &reader);
    TakeSpans(&all[p].wanted, &reader);
  }
  Gifts gifts = ChooseGifts(all);
  if (gifts.lacking >= 0 || historian < 0) {
    return AsLost(absl::UnavailableError(absl::StrCat(
        "heal: no process that is left holds the state of step ", copy->step,
        historian < 0 ? "" : " of " + tensors[static_cast<size_t>(gifts.lacking)].param.name,
        "; --restarts with checkpoints would help")));
  }
  if (lacking[1] == 0) return gifts;
  SL_ASSIGN_OR_RETURN(
      const std::vector<std::string> histories,
      world->Exchange(world->process() == historian ? PackHistory(copy->history) : ""));
  if (!has_history) copy->history = ReadHistory(histories[static_cast<size_t>(historian)]);
  return gifts;
}

absl::Status HeldState::Fetch(const std::vector<StateTensor>& tensors, World* world, Copy* copy) {
  const RangesOfTensors held = RangesOf(copy->shares, tensors.size());
  SL_ASSIGN_OR_RETURN(const Gifts gifts,
                      AgreeOnGifts(tensors, SpansOf(held, tensors), world, copy));
  if (gifts.all.empty()) return absl::OkStatus();
  const int process = world->process();
  std::map<int, PackedNumbers> gives;
  std::set<int> from;
  for (const Gift& gift : gifts.all) {
    if (gift.to == process) from.insert(gift.from);
    if (gift.from != process) continue;
    for (const StateKind kind : {kValues, kFirstMoment, kSecondMoment}) {
      ForPieces(
          held[gift.tensor], gift.span, [&](const HeldRange& range, int64_t first, int64_t count) {
            gives[gift.to].AddAll(
                absl::MakeConstSpan(range.of[kind])
                    .subspan(static_cast<size_t>(first - range.first), static_cast<size_t>(count)));
          });
    }
  }
  std::map<int, std::string> to;
  for (const auto& [receiver, numbers] : gives) to[receiver] = numbers.bytes();
  SL_ASSIGN_OR_RETURN(const auto moved, parcels_->Move(to, {from.begin(), from.end()}, world));
  std::map<int, NumberReader> readers;
  for (const auto& [giver, bytes] : moved) readers.emplace(giver, NumberReader(bytes));
  HeldShare fetched = {.number = kFetched, .tensors = HeldTensors(tensors.size())};
  for (const Gift& gift : gifts.all) {
    if (gift.to != process) continue;
    HeldRange& range = fetched.tensors[gift.tensor].emplace_back();
    range.first = gift.span.first;
    for (std::vector<float>& values : range.of) {
      values.resize(static_cast<size_t>(gift.span.end - gift.span.first));
      readers.at(gift.from).TakeAll(absl::MakeSpan(values));
    }
  }
  copy->shares.push_back(std::move(fetched));
  return absl::OkStatus();
}

absl::StatusOr<HeldState::Restored> HeldState::Restore(Trainer* trainer) {
  Copy none;
  std::tie(none.layout, none.step) = going_;
  Copy* const found = Find(going_);
  Copy* const copy = found == nullptr ? &none : found;
  const std::vector<StateTensor> tensors = StateOf(*trainer);
  SL_RETURN_IF_ERROR(Fetch(tensors, trainer->world(), copy));
  const RangesOfTensors held = RangesOf(copy->shares, tensors.size());
  for (size_t t = 0; t < tensors.size(); ++t) {
    for (const StateTensor::Part& part : tensors[t].parts) {
      absl::Status copied;
      const auto write = [&](const HeldRange& range, int64_t first, int64_t count) {
        for (const StateKind kind : {kValues, kFirstMoment, kSecondMoment}) {
          copied.Update(trainer->device()->CopyNow(part.of[kind].data() + (first - part.first),
                                                   range.of[kind].data() + (first - range.first),
                                                   count * static_cast<int64_t>(sizeof(float))));
        }
      };
      SL_CHECK(ForPieces(held[t], {part.first, part.end()}, write)) << tensors[t].param.name;
      SL_RETURN_IF_ERROR(copied);
    }
  }
  trainer->SetUpdates(copy->step);
  SL_RETURN_IF_ERROR(trainer->RefreshWorking());
  goes_on_ = false;
  Restored restored = {copy->step, copy->history};
  // Fetched values belong to no share that the processes could name to each other.
  if (!copy->shares.empty() && copy->shares.back().number == kFetched) copy->shares.pop_back();
  return restored;
}

void HeldState::NoteMeeting() { met_ns_ = NowNs(); }

}  // namespace stringline
