// Torch's CSV, written.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedlang/base/sl_check.h"
#include "schedlang/torch/torch_csv.h"

namespace stringline {
namespace {

// Why torch's runtime cannot perform the action; "" if it can.
absl::string_view LackOf(ActionKind kind) {
  if (IsOwn(kind)) return "has no actions of a schedule's own";
  if (IsCopy(kind)) return "has no copies to the host";
  if (kind == ActionKind::kUpdate) return "leaves the optimizer's step to its caller";
  if (kind != ActionKind::kRecompute) return "";
  return "has no action that computes an F again; stringline.torch performs it in a loop of its "
         "own";
}

class TorchWriter {
 public:
  TorchWriter(const Plan& plan, const std::vector<MessageWait>& waits, TorchForm form,
              Diagnostics* diagnostics)
      : plan_(plan), waits_(waits), form_(form), diagnostics_(diagnostics) {}

  std::optional<std::string> Write() {
    const size_t before = diagnostics_->findings().size();
    if (!plan_.pipes.empty()) {
      Complain(plan_.header, "torch has one pipe; a schedule of several cannot be exported");
    }
    if (plan_.steps > 1) {
      Complain(plan_.header, absl::StrCat("torch's schedules are of one step, and this plan has ",
                                          plan_.steps, "; export one step of it"));
    }
    if (plan_.forward_only) {
      Complain(plan_.header,
               "torch's runtime computes gradients, and this is forward only; it "
               "cannot be exported");
    }
    if (plan_.window > 0) {
      Complain(plan_.header,
               "torch's runtime performs lists in their order, and with a window these are "
               "preferences; leave 'window' out");
    }
    if (plan_.slices > 1) {
      Complain(plan_.header,
               absl::StrCat("torch's runtime passes whole microbatches, and these have ",
                            plan_.slices, " slices; it cannot be exported"));
    }
    if (!plan_.graph.is_chain()) {
      Complain(plan_.header,
               "torch's stages are a chain, and these have edges of their own; it cannot be "
               "exported");
    }
    for (const Action& action : plan_.actions) {
      const absl::string_view lack = LackOf(action.kind);
      if (lack.empty()) continue;
      Complain(SpanOf(plan_, action),
               absl::StrCat(Print(plan_, action), ": torch's runtime ", lack))
          .where = WhereOf(plan_, action);
      break;
    }
    for (int r = 0; r < plan_.ranks(); ++r) WriteRank(plan_.of(RankId(r)), r);
    if (diagnostics_->findings().size() != before) return std::nullopt;
    return std::move(out_);
  }

 private:
  Diagnostic& Complain(Span span, std::string text) {
    Diagnostic& finding = diagnostics_->Add(Code::kTorchExport, span, std::move(text));
    finding.where = PrintParameters(plan_);
    return finding;
  }

  void WriteRank(absl::Span<const Action> actions, int rank) {
    separator_ = "";
    for (size_t i = 0; i < actions.size();) {
      const absl::Span<const Action> group = GroupAt(actions, i);
      WriteWaits(rank, plan_.first[rank] + i);
      if (form_ != TorchForm::kCompute || IsCompute(group[0].kind)) WriteGroup(group);
      i += group.size();
    }
    WriteWaits(rank, plan_.first[rank + 1]);
    if (separator_.empty()) {
      Complain(plan_.header, absl::StrCat("rank ", rank, " does nothing; torch has no such rank"));
    }
    absl::StrAppend(&out_, "\r\n");
  }

  void WriteGroup(absl::Span<const Action> group) {
    if (group.size() == 1) {
      WriteCell(Print(plan_, group[0]));
      return;
    }
    const bool first = group[0].kind == ActionKind::kForward;
    const Action& forward = group[first ? 0 : 1];
    const Action& backward = group[first ? 1 : 0];
    if (group.size() != 2 || forward.kind != ActionKind::kForward ||
        backward.kind != ActionKind::kBackward) {
      std::string text;
      for (const Action& part : group) {
        absl::StrAppend(&text, text.empty() ? "" : "&", Print(plan_, part));
      }
      Diagnostic& finding =
          Complain(SpanOf(plan_, group[0]), absl::StrCat(text,
                                                         ": torch can only pair one F with "
                                                         "one B"));
      finding.where = WhereOf(plan_, group[0]);
      return;
    }
    WriteCell(
        absl::StrCat("(", Print(plan_, forward), ";", Print(plan_, backward), ")OVERLAP_F_B"));
  }

  void WriteCell(absl::string_view text) {
    absl::StrAppend(&out_, separator_, text);
    separator_ = ",";
  }

  // Writes the waits before actions[before].
  void WriteWaits(int rank, size_t before) {
    for (; next_ < waits_.size() && waits_[next_].rank.value == rank &&
           waits_[next_].before <= before;
         ++next_) {
      if (form_ != TorchForm::kComms) continue;
      const MessageWait& wait = waits_[next_];
      WriteCell(absl::StrCat(wait.stage.value, "WAIT_", PrintedKind(wait.of)));
      if (wait.microbatch.valid()) absl::StrAppend(&out_, wait.microbatch.value);
    }
  }

  const Plan& plan_;
  const std::vector<MessageWait>& waits_;
  const TorchForm form_;
  Diagnostics* diagnostics_;
  std::string out_;
  absl::string_view separator_;
  size_t next_ = 0;  // index into waits_
};

}  // namespace

std::optional<std::string> PrintTorchCsv(const Plan& plan, const std::vector<MessageWait>& waits,
                                         TorchForm form, Diagnostics* diagnostics) {
  SL_CHECK(form == TorchForm::kCompute || plan.lowered) << "the comms form needs a lowered plan";
  return TorchWriter(plan, waits, form, diagnostics).Write();
}

}  // namespace stringline
