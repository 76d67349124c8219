#include "tools/io/output.h"

#include "schedlang/base/write_file.h"
#include "tools/io/json.h"

namespace stringline {

absl::Status WriteAsked(const Output& output, const std::string& path, absl::string_view text) {
  if (path != kStandardStream) return WriteFileAtomically(path, text);
  (output.file != nullptr ? *output.file : output.out) << text;
  return absl::OkStatus();
}

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
    const absl::Status written = WriteAsked(output, path, text);
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
  return kFindings;
}

}  // namespace stringline
