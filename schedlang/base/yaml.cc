#include "schedlang/base/yaml.h"

#include <yaml-cpp/eventhandler.h>

#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr int kDeepestYaml = 16;

// Visits every event of a text and keeps the first complaint.
class YamlLooker final : public YAML::EventHandler {
 public:
  bool complained() const { return !complaint_.empty(); }
  int line() const { return line_; }
  const std::string& complaint() const { return complaint_; }
  int documents() const { return documents_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 2) Complain(mark, "a second document begins here; only one is read");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { LookAt(mark, "", anchor); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    Complain(mark, "an alias ('*'); write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    LookAt(mark, tag, anchor);
    if (tag == "?" && value == "<<") Complain(mark, "a merge key ('<<'); write its keys out");
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    LookAt(mark, tag, anchor);
    Enter(mark);
  }
  void OnSequenceEnd() override { --depth_; }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    LookAt(mark, tag, anchor);
    Enter(mark);
  }
  void OnMapEnd() override { --depth_; }

 private:
  // "?" is the tag of an untagged plain word, "!" of a quoted word.
  void LookAt(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) Complain(mark, "an anchor ('&'); leave it out");
    if (!tag.empty() && tag != "?" && tag != "!") {
      Complain(mark, absl::StrCat("a tag ('", tag, "'); leave it out"));
    }
  }

  void Enter(const YAML::Mark& mark) {
    if (++depth_ > kDeepestYaml) Complain(mark, "nested too deep");
  }

  void Complain(const YAML::Mark& mark, const std::string& what) {
    if (complained()) return;
    line_ = mark.line + 1;
    complaint_ = what;
  }

  int documents_ = 0;
  int depth_ = 0;
  int line_ = 0;
  std::string complaint_;
};

absl::Status YamlError(const Source& source, int line, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(source.path(), ":", line, ": ", what));
}

}  // namespace

absl::StatusOr<YAML::Node> LoadYaml(const Source& source) {
  YamlLooker looker;
  try {
    std::istringstream text{std::string(source.text())};
    YAML::Parser parser(text);
    while (!looker.complained() && parser.HandleNextDocument(looker)) {
    }
    if (!looker.complained() && looker.documents() == 0) {
      return absl::InvalidArgumentError(absl::StrCat(source.path(), ": the file says nothing"));
    }
    if (!looker.complained()) return YAML::Load(std::string(source.text()));
  } catch (const YAML::Exception& error) {
    if (!looker.complained()) return YamlError(source, error.mark.line + 1, error.msg);
  }
  return YamlError(source, looker.line(), looker.complaint());
}

}  // namespace stringline
