// A dump's entries are dicts of the recorder's keys. Each becomes a call; its sizes, dtypes and
// place in the code are held once for all ranks, so calls are small and compare by number. Work is
// bounded by the file's bytes, whatever its values share.
#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "schedlang/base/status.h"
#include "schedlang/diagnose/dump_value.h"
#include "schedlang/diagnose/records.h"

namespace stringline {
namespace {

using Kind = DumpValues::Kind;

// Values that share parts could make a small file long to read. The 20,000 calls of a large buffer
// take some three millions.
constexpr size_t kMostLooks = 32'000'000;

constexpr int64_t kMostRanks = 1 << 20;

absl::Status Bad(absl::string_view why) { return absl::InvalidArgumentError(why); }

// Recorders of these backends say when a call has ended; one that is given up before has timed
// out. Others, as gloo's, only give a call up when it has ended.
bool SaysWhenEnded(absl::string_view backend) {
  return absl::StrContains(backend, "ccl") || backend == "xla" || backend == "ucc";
}

// Torch's own files, where it is installed and where it is built; a user's folder may be called
// torch as well.
bool IsOfTorch(absl::string_view file) {
  for (const char* const part :
       {"-packages/torch/", "torch/distributed/", "torch/nn/", "torch/autograd/", "torch/optim/",
        "torch/utils/", "torch/_", "<frozen", "<string>"}) {
    if (absl::StrContains(file, part)) return true;
  }
  return file.empty();
}

bool CarriesObject(absl::string_view function) {
  return absl::EndsWith(function, "_object_list") || absl::EndsWith(function, "_object");
}

}  // namespace

// Reads one dump into a collector.
class DumpReader {
 public:
  DumpReader(const DumpValues& values, RecordCollector* collector)
      : values_(values), collector_(*collector) {}

  absl::Status Read(RankRecord* rank) {
    if (values_.KindOf(values_.top()) != Kind::kDict) return NoDump();
    std::optional<DumpNode> entries, config, version;
    SL_RETURN_IF_ERROR(ForEach(values_.top(), [&](absl::string_view key, DumpNode value) {
      if (key == "entries") entries = value;
      if (key == "pg_config") config = value;
      if (key == "version") version = value;
      return absl::OkStatus();
    }));
    if (!version || values_.KindOf(*version) != Kind::kText) return NoDump();
    const absl::string_view said = values_.TextOf(*version);
    if (!absl::StartsWith(said, "2.")) {
      return Bad(absl::StrCat("is a dump of version ", said.substr(0, 20), "; 2.x is read"));
    }
    if (config) SL_RETURN_IF_ERROR(ReadGroups(*config));
    if (!entries) return absl::OkStatus();  // JSON of a recorder without calls
    if (values_.KindOf(*entries) != Kind::kList) return Bad("its 'entries' are no list");
    for (const DumpNode entry : values_.EntriesOf(*entries)) {
      SL_ASSIGN_OR_RETURN(RecordedCall call, ReadCall(entry));
      rank->calls.push_back(call);
    }
    std::sort(rank->calls.begin(), rank->calls.end(),
              [](const RecordedCall& a, const RecordedCall& b) { return a.record < b.record; });
    rank->dropped = !rank->calls.empty() && rank->calls.front().record > 0;
    return absl::OkStatus();
  }

 private:
  static absl::Status NoDump() {
    return Bad("is no dump of torch's flight recorder: it has no 'version'");
  }

  absl::Status Step(size_t count = 1) {
    steps_ += count;
    return steps_ <= kMostLooks ? absl::OkStatus() : Bad("refers to its values too often");
  }

  template <typename Visit>
  absl::Status ForEach(DumpNode dict, Visit visit) {
    const std::vector<DumpNode>& entries = values_.EntriesOf(dict);
    SL_RETURN_IF_ERROR(Step(entries.size()));
    for (size_t i = 0; i + 1 < entries.size(); i += 2) {
      if (values_.KindOf(entries[i]) != Kind::kText) return Bad("a key is no text");
      SL_RETURN_IF_ERROR(visit(values_.TextOf(entries[i]), entries[i + 1]));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<absl::string_view> Text(absl::string_view key, DumpNode node) {
    if (values_.KindOf(node) != Kind::kText) return Bad(absl::StrCat("'", key, "' is no text"));
    SL_RETURN_IF_ERROR(Step(values_.TextOf(node).size() / 16));
    return values_.TextOf(node);
  }

  absl::Status SetText(absl::string_view key, DumpNode node, std::string* target) {
    SL_ASSIGN_OR_RETURN(const absl::string_view text, Text(key, node));
    *target = std::string(text);
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> Integer(absl::string_view key, DumpNode node) {
    const Kind kind = values_.KindOf(node);
    if (kind != Kind::kInteger && kind != Kind::kNumber) {
      return Bad(absl::StrCat("'", key, "' is no number"));
    }
    return values_.IntegerOf(node);
  }

  absl::StatusOr<bool> Truth(absl::string_view key, DumpNode node) {
    if (values_.KindOf(node) != Kind::kBool) {
      return Bad(absl::StrCat("'", key, "' is not true or false"));
    }
    return values_.IntegerOf(node) != 0;
  }

  absl::Status WantList(absl::string_view key, DumpNode node) {
    if (values_.KindOf(node) != Kind::kList) return Bad(absl::StrCat("'", key, "' is no list"));
    return Step(values_.EntriesOf(node).size());
  }

  absl::Status ReadGroups(DumpNode config) {
    if (values_.KindOf(config) != Kind::kDict) return Bad("'pg_config' is no dict");
    return ForEach(config, [&](absl::string_view, DumpNode group) -> absl::Status {
      if (values_.KindOf(group) != Kind::kDict) return Bad("a group of 'pg_config' is no dict");
      std::string name, description, ranks;
      SL_RETURN_IF_ERROR(ForEach(group, [&](absl::string_view key, DumpNode value) -> absl::Status {
        for (const auto& [wanted, target] :
             {std::pair<absl::string_view, std::string*>{"name", &name},
              {"desc", &description},
              {"ranks", &ranks}}) {
          if (key != wanted) continue;
          SL_RETURN_IF_ERROR(SetText(key, value, target));
        }
        return absl::OkStatus();
      }));
      // gloo lists its groups under no name, with ranks that are not those of the job.
      if (name.empty()) return absl::OkStatus();
      SL_ASSIGN_OR_RETURN(const std::vector<int> members, Members(ranks));
      known_[{name, description}] = collector_.GroupOf(name, description, &members);
      return absl::OkStatus();
    });
  }

  // "[0, 1, 2]"
  absl::StatusOr<std::vector<int>> Members(absl::string_view text) {
    std::vector<int> members;
    absl::string_view inner = absl::StripAsciiWhitespace(text);
    if (absl::ConsumePrefix(&inner, "[") && absl::ConsumeSuffix(&inner, "]")) {
      for (const absl::string_view word : absl::StrSplit(inner, ',', absl::SkipWhitespace())) {
        int rank = -1;
        if (!absl::SimpleAtoi(word, &rank) || rank < 0 || rank >= kMostRanks) {
          return Bad("a group of 'pg_config' has a rank that is none");
        }
        members.push_back(rank);
      }
    }
    if (members.empty()) return Bad("a group of 'pg_config' has no ranks");
    return members;
  }

  // An entry's fields that need each other.
  struct Fields {
    CallShape shape;
    std::string name, description;
    std::string state = "scheduled";
    int64_t collective = 0, message = 0;
    bool retired = false;
    std::optional<DumpNode> input_sizes, input_dtypes, output_sizes, output_dtypes, frames;
  };

  absl::StatusOr<RecordedCall> ReadCall(DumpNode entry) {
    if (values_.KindOf(entry) != Kind::kDict) return Bad("an entry is no dict");
    RecordedCall call;
    Fields fields;
    bool has_group = false, has_name = false;
    SL_RETURN_IF_ERROR(ForEach(entry, [&](absl::string_view key, DumpNode value) -> absl::Status {
      has_group |= key == "process_group";
      has_name |= key == "profiling_name";
      return ReadField(key, value, &call, &fields);
    }));
    if (!has_group || !has_name) return Bad("an entry without 'process_group', 'profiling_name'");
    SL_RETURN_IF_ERROR(ReadTensors(fields.input_sizes, fields.input_dtypes, &fields.shape.inputs,
                                   &fields.shape.input_dtypes, &fields.shape.input_elements));
    SL_RETURN_IF_ERROR(ReadTensors(fields.output_sizes, fields.output_dtypes, &fields.shape.outputs,
                                   &fields.shape.output_dtypes, &fields.shape.output_elements));
    if (fields.frames) SL_RETURN_IF_ERROR(ReadFrames(*fields.frames, &call));
    call.is_message |= fields.shape.IsMessage();
    call.sequence = call.is_message ? fields.message : fields.collective;
    if (fields.state == "completed") {
      call.state = CallState::kEnded;
    } else if (fields.retired && !SaysWhenEnded(fields.shape.backend)) {
      call.state = CallState::kEnded;
    } else {
      call.timed_out = fields.retired;
      if (fields.state == "started") call.state = CallState::kStarted;
    }
    const auto known = known_.find({fields.name, fields.description});
    call.group = known != known_.end()
                     ? known->second
                     : collector_.GroupOf(fields.name, fields.description, nullptr);
    call.shape = collector_.ShapeOf(std::move(fields.shape));
    return call;
  }

  absl::Status ReadField(absl::string_view key, DumpNode value, RecordedCall* call,
                         Fields* fields) {
    for (const auto& [wanted, target] :
         {std::pair<absl::string_view, int64_t*>{"record_id", &call->record},
          {"collective_seq_id", &fields->collective},
          {"p2p_seq_id", &fields->message},
          {"timeout_ms", &call->timeout_ms}}) {
      if (key != wanted) continue;
      SL_ASSIGN_OR_RETURN(*target, Integer(key, value));
    }
    for (const auto& [wanted, target] : {std::pair<absl::string_view, std::optional<DumpNode>*>{
                                             "input_sizes", &fields->input_sizes},
                                         {"input_dtypes", &fields->input_dtypes},
                                         {"output_sizes", &fields->output_sizes},
                                         {"output_dtypes", &fields->output_dtypes},
                                         {"frames", &fields->frames}}) {
      if (key == wanted) *target = value;
    }
    if (key == "is_p2p") {
      SL_ASSIGN_OR_RETURN(call->is_message, Truth(key, value));
    } else if (key == "retired") {
      SL_ASSIGN_OR_RETURN(fields->retired, Truth(key, value));
    } else if (key == "state") {
      return SetText(key, value, &fields->state);
    } else if (key == "profiling_name") {
      SL_ASSIGN_OR_RETURN(const absl::string_view name, Text(key, value));
      return ReadName(name, &fields->shape);
    } else if (key == "process_group") {
      SL_RETURN_IF_ERROR(WantList(key, value));
      const std::vector<DumpNode>& pair = values_.EntriesOf(value);
      if (pair.size() != 2) return Bad("'process_group' is no pair");
      SL_RETURN_IF_ERROR(SetText(key, pair[0], &fields->name));
      return SetText(key, pair[1], &fields->description);
    }
    return absl::OkStatus();
  }

  // "nccl:all_reduce", "nccl:send 1->2", "nccl:recv 2<-1", "gloo:recv 2<-?"
  static absl::Status ReadName(absl::string_view text, CallShape* shape) {
    const size_t colon = text.rfind(':');
    if (colon != absl::string_view::npos) shape->backend = std::string(text.substr(0, colon));
    absl::string_view name = text.substr(colon == absl::string_view::npos ? 0 : colon + 1);
    const std::vector<absl::string_view> words = absl::StrSplit(name, ' ', absl::SkipEmpty());
    if (words.empty()) return Bad("a call without a name");
    shape->name = std::string(words[0]);
    if (!shape->IsMessage()) return absl::OkStatus();
    const char* const arrow = shape->IsSend() ? "->" : "<-";
    const std::vector<absl::string_view> ends =
        absl::StrSplit(words.size() == 2 ? words[1] : "", absl::ByString(arrow));
    int own = -1, other = -1;
    const bool from_anyone = ends.size() == 2 && shape->IsReceive() && ends[1] == "?";
    if (ends.size() != 2 || !absl::SimpleAtoi(ends[0], &own) || own < 0 ||
        (!from_anyone && (!absl::SimpleAtoi(ends[1], &other) || other < 0))) {
      return Bad(absl::StrCat("'", text.substr(0, 60), "' is no message from a rank to a rank"));
    }
    shape->from = shape->IsSend() ? own : other;
    shape->to = shape->IsSend() ? other : own;
    return absl::OkStatus();
  }

  absl::Status ReadTensors(std::optional<DumpNode> sizes, std::optional<DumpNode> dtypes,
                           std::string* text, std::string* kinds, int64_t* elements) {
    std::vector<absl::string_view> names;
    if (dtypes) {
      SL_RETURN_IF_ERROR(WantList("dtypes", *dtypes));
      for (const DumpNode dtype : values_.EntriesOf(*dtypes)) {
        SL_ASSIGN_OR_RETURN(const absl::string_view name, Text("dtypes", dtype));
        names.push_back(name);
        absl::StrAppend(kinds, kinds->empty() ? "" : ", ", name);
      }
    }
    if (!sizes) return absl::OkStatus();
    SL_RETURN_IF_ERROR(WantList("sizes", *sizes));
    size_t tensor = 0;
    for (const DumpNode shape : values_.EntriesOf(*sizes)) {
      SL_RETURN_IF_ERROR(WantList("sizes", shape));
      absl::StrAppend(text, text->empty() ? "[" : ", [");
      uint64_t count = 1;
      bool first = true;
      for (const DumpNode size : values_.EntriesOf(shape)) {
        SL_ASSIGN_OR_RETURN(const int64_t length, Integer("sizes", size));
        absl::StrAppend(text, first ? "" : ", ", length);
        count *= static_cast<uint64_t>(length);
        first = false;
      }
      absl::StrAppend(text, "]", tensor < names.size() ? " " : "",
                      tensor < names.size() ? names[tensor] : "");
      *elements = static_cast<int64_t>(static_cast<uint64_t>(*elements) + count);
      ++tensor;
    }
    return absl::OkStatus();
  }

  absl::Status ReadFrames(DumpNode frames, RecordedCall* call) {
    SL_RETURN_IF_ERROR(WantList("frames", frames));
    std::optional<CodePlace> first, users;
    for (const DumpNode frame : values_.EntriesOf(frames)) {
      if (values_.KindOf(frame) != Kind::kDict) return Bad("a frame is no dict");
      CodePlace place;
      SL_RETURN_IF_ERROR(ForEach(frame, [&](absl::string_view key, DumpNode value) -> absl::Status {
        if (key == "line") {
          SL_ASSIGN_OR_RETURN(place.line, Integer(key, value));
        } else if (key == "filename") {
          return SetText(key, value, &place.file);
        } else if (key == "name") {
          return SetText(key, value, &place.function);
        }
        return absl::OkStatus();
      }));
      call->of_object |= CarriesObject(place.function);
      if (!first) first = place;
      if (IsOfTorch(place.file)) continue;
      users = std::move(place);
      break;
    }
    if (!users) users = std::move(first);
    if (users) call->place = collector_.PlaceOf(*std::move(users));
    return absl::OkStatus();
  }

  const DumpValues& values_;
  RecordCollector& collector_;
  std::map<std::pair<std::string, std::string>, int32_t> known_;  // groups of this dump
  size_t steps_ = 0;
};

bool CallShape::IsEndOfGroup() const {
  return name == "coalesced" || absl::EndsWith(name, "_coalesced");
}

absl::Status RecordCollector::Add(int rank, std::string file, absl::string_view bytes) {
  RankRecord record{.rank = rank, .file = std::move(file)};
  const absl::string_view begin = absl::StripLeadingAsciiWhitespace(bytes.substr(0, 64));
  const bool is_json = absl::StartsWith(begin, "{");
  const absl::StatusOr<DumpValues> values = is_json ? ReadJsonValues(bytes) : ReadPickle(bytes);
  if (!values.ok() && !IsCutShort(values.status())) return values.status();
  if (values.ok()) {
    SL_RETURN_IF_ERROR(DumpReader(*values, this).Read(&record));
  } else {
    record.cut_short = std::string(values.status().message());
  }
  records_.ranks.push_back(std::move(record));
  return absl::OkStatus();
}

int32_t RecordCollector::ShapeOf(CallShape shape) {
  std::string key = absl::StrCat(shape.backend, ":", shape.name, "|", shape.from, "|", shape.to,
                                 "|", shape.inputs, "|", shape.outputs, "|");
  absl::StrAppend(&key, shape.input_dtypes, "|", shape.output_dtypes);
  const auto [found, is_new] =
      shape_of_.try_emplace(std::move(key), static_cast<int32_t>(records_.shapes.size()));
  if (is_new) records_.shapes.push_back(std::move(shape));
  return found->second;
}

int32_t RecordCollector::PlaceOf(CodePlace place) {
  const auto [found, is_new] =
      place_of_.try_emplace(absl::StrCat(place.file, "|", place.line, "|", place.function),
                            static_cast<int32_t>(records_.places.size()));
  if (is_new) records_.places.push_back(std::move(place));
  return found->second;
}

int32_t RecordCollector::GroupOf(const std::string& name, const std::string& description,
                                 const std::vector<int>* members) {
  // Groups that were split off may have the same name, and then other members.
  std::string key = absl::StrCat(name, "|", description);
  if (members) {
    for (const int member : *members) absl::StrAppend(&key, "|", member);
  }
  const auto [found, is_new] =
      group_of_.try_emplace(std::move(key), static_cast<int32_t>(records_.groups.size()));
  if (is_new) {
    records_.groups.push_back(
        {name, description, members ? *members : std::vector<int>(), members != nullptr});
  }
  return found->second;
}

Records RecordCollector::Finish(int world) {
  Records& records = records_;
  std::sort(records.ranks.begin(), records.ranks.end(),
            [](const RankRecord& a, const RankRecord& b) { return a.rank < b.rank; });
  for (const RankRecord& rank : records.ranks) {
    world = std::max(world, rank.rank + 1);
    for (const RecordedCall& call : rank.calls) {
      RecordedGroup& group = records.groups[call.group];
      const bool is_in = !group.members.empty() && group.members.back() == rank.rank;
      if (!group.is_listed && !is_in) group.members.push_back(rank.rank);
    }
  }
  for (const RecordedGroup& group : records.groups) {
    for (const int member : group.members) world = std::max(world, member + 1);
  }
  for (RecordedGroup& group : records.groups) {
    if (group.is_listed || group.description != "default_pg") continue;
    group.members.clear();
    for (int rank = 0; rank < world; ++rank) group.members.push_back(rank);
    group.is_listed = true;
  }
  records.world = world;
  return std::move(records_);
}

const RankRecord* Records::Find(int rank) const {
  const auto found =
      std::lower_bound(ranks.begin(), ranks.end(), rank,
                       [](const RankRecord& record, int wanted) { return record.rank < wanted; });
  return found != ranks.end() && found->rank == rank ? &*found : nullptr;
}

int32_t Records::IndexOf(int rank) const {
  const RankRecord* const record = Find(rank);
  const bool has_calls = record != nullptr && record->cut_short.empty();
  return has_calls ? static_cast<int32_t>(record - ranks.data()) : -1;
}

int RankOfName(absl::string_view path) {
  absl::string_view name = path.substr(path.rfind('/') + 1);
  for (int ending = 0; ending < 3; ++ending) {
    size_t first = name.size();
    while (first > 0 && absl::ascii_isdigit(name[first - 1])) --first;
    int rank = -1;
    if (first < name.size() && absl::SimpleAtoi(name.substr(first), &rank) && rank < kMostRanks) {
      return rank;
    }
    const size_t dot = name.rfind('.');
    if (dot == absl::string_view::npos) return -1;
    name = name.substr(0, dot);
  }
  return -1;
}

}  // namespace stringline
