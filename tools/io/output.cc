#include "tools/io/output.h"

#include <utility>

#include "schedlang/base/fields.h"
#include "schedlang/base/write_file.h"
#include "tools/io/json.h"

namespace stringline {

absl::Status WriteAsked(const Output& output, const std::string& path, absl::string_view text) {
  if (path != kStandardStream) return WriteFileAtomically(path, text);
  (output.file != nullptr ? *output.file : output.out) << text;
  return absl::OkStatus();
}

std::string WithOptions(absl::string_view message) {
  return WithFields(message, [](const NamedField& field) {
    for (const auto& [name, option] : {std::pair("ranges", "for"), std::pair("begin", "from")}) {
      if (field.name == name) return AsOption({option, field.index, field.value});
    }
    return AsOption(field);
  });
}

int Fail(const Output& output, absl::string_view message) {
  const std::string said = WithOptions(message);
  if (output.json) {
    WriteJson(output.out, {{"ok", false}, {"error", said}, {"findings", Json::array()}});
  } else {
    output.err << "stringline: " << said << "\n";
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
