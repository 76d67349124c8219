#include "tools/output.h"

#include "tools/json.h"

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
