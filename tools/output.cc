#include "tools/output.h"

#include <algorithm>

#include "tools/json.h"
#include "tools/write_file.h"

namespace stringline {

int Fail(const Output& output, absl::string_view message) {
  if (output.json) {
    WriteJson(output.out,
              {{"ok", false}, {"error", std::string(message)}, {"findings", Json::array()}});
  } else {
    output.err << "stringline: " << message << "\n";
  }
  return kUsage;
}

int Deliver(const std::string& text, const std::string& path, const Output& output) {
  if (!path.empty()) {
    const absl::Status written = WriteFileAtomically(path, text);
    if (!written.ok()) return Fail(output, written.message());
  }
  if (output.json) {
    WriteJson(output.out, {{"ok", true}, {"text", text}});
  } else if (path.empty()) {
    output.out << text;
  }
  return kOk;
}

int ShowFindings(const Output& output, std::ostream& stream, const Diagnostics& diagnostics,
                 const Source& source) {
  if (output.json) {
    WriteJson(output.out, {{"ok", false}, {"findings", FindingsAsJson(diagnostics, source)}});
  } else {
    stream << Render(diagnostics, source);
  }
  // What the command line lacks or has too much is no fault of the text.
  const auto& all = diagnostics.findings();
  const bool of_command_line =
      !all.empty() && std::all_of(all.begin(), all.end(), [](const Diagnostic& finding) {
        return finding.code == Code::kMissingParameter || finding.code == Code::kUnknownParameter;
      });
  return of_command_line ? kUsage : kFindings;
}

}  // namespace stringline
