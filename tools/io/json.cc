#include "tools/io/json.h"

namespace stringline {

void WriteJson(std::ostream& out, const Json& json) {
  out << json.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
}

Json FindingsAsJson(const Diagnostics& diagnostics, const Source& source) {
  Json findings = Json::array();
  for (const Diagnostic& finding : diagnostics.findings()) {
    const LineColumn at = source.Locate(finding.span.begin);
    Json notes = Json::array();
    for (const Note& note : finding.notes) {
      Json item = {{"message", note.text}};
      if (note.has_place) {
        const LineColumn there = source.Locate(note.span.begin);
        const std::string& file = source.PathAt(note.span.begin);
        if (file != source.PathAt(finding.span.begin)) item["file"] = file;
        item["line"] = there.line;
        item["column"] = there.column;
      }
      if (!note.where.empty()) item["where"] = note.where;
      notes.push_back(std::move(item));
    }
    findings.push_back({{"code", SlugOf(finding.code)},
                        {"file", source.PathAt(finding.span.begin)},
                        {"line", at.line},
                        {"column", at.column},
                        {"message", finding.text},
                        {"where", finding.where},
                        {"notes", std::move(notes)},
                        {"count", finding.count}});
  }
  return findings;
}

Json ParametersAsJson(const std::vector<Parameter>& parameters) {
  Json json = Json::object();
  for (const Parameter& parameter : parameters) json[parameter.name] = parameter.value;
  return json;
}

namespace {

Json RanksAsJson(const Plan& plan) {
  Json ranks = Json::array();
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const absl::Span<const Action> actions = plan.of(RankId(rank));
    Json groups = Json::array();
    for (size_t i = 0; i < actions.size(); ++i) {
      if (!actions[i].joined) groups.push_back(PrintGroup(plan, actions, i));
    }
    ranks.push_back(std::move(groups));
  }
  return ranks;
}

}  // namespace

Json PlanAsJson(const Plan& plan) {
  Json stages = Json::array();
  for (const Stage& stage : plan.stages) stages.push_back(stage.rank.value);
  Json json = {{"ok", true},
               {"schedule", plan.schedule},
               {"parameters", ParametersAsJson(plan.parameters)},
               {"microbatches", plan.microbatches / plan.slices},
               {"slices", plan.slices},
               {"forward_only", plan.forward_only},
               {"window", plan.window},
               {"slack", plan.slack},
               {"steps", plan.steps},
               {"versions", plan.versions},
               {"lowered", plan.lowered},
               {"stages", std::move(stages)},
               {"ranks", RanksAsJson(plan)}};
  if (!plan.WholeGraph().is_chain()) {
    for (const Edge& edge : plan.WholeGraph().edges()) {
      json["edges"].push_back({edge.from.value, edge.to.value});
    }
  }
  for (const Skip& skip : plan.skips) {
    json["skips"].push_back({skip.stage.value, skip.microbatch});
  }
  Json recompute = Json::array();
  for (size_t s = 0; s < plan.recompute.size(); ++s) {
    if (plan.recompute[s] == 1) recompute.push_back(s);
  }
  if (!recompute.empty()) json["recompute"] = std::move(recompute);
  for (const OwnAction& own : plan.rows.actions) {
    json["own_actions"].push_back({{"name", own.name},
                                   {"kind", PrintedKind(own.kind)},
                                   {"lane", NameOf(RowLaneOf(own.kind))}});
  }
  return json;
}

Json ReconstructionAsJson(const Timeline& timeline) {
  const std::optional<Reconstruction> all = ReconstructionOf(timeline);
  if (!all) return nullptr;
  return {{"starts", all->seen},
          {"moved", all->moved},
          {"most_us", Microseconds(all->most_ns)},
          {"unseen", all->unseen}};
}

Json ActivationsAsJson(int slices, int count) {
  if (count % slices == 0) return count / slices;
  return static_cast<double>(count) / slices;
}

Json Microseconds(int64_t ns) {
  if (ns % 1000 == 0) return ns / 1000;
  return static_cast<double>(ns) / 1000;
}

}  // namespace stringline
