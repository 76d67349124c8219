// The answer of `diagnose`, in words and as JSON: the faults in the dumps of a hang.
#pragma once

#include <optional>
#include <ostream>

#include "schedlang/diagnose/diagnosis.h"
#include "schedlang/diagnose/planned_messages.h"
#include "tools/io/json.h"

namespace stringline {

// The plan of `--schedule`, and its messages.
struct DiagnosedPlan {
  const Plan& lowered;
  PlannedMessages messages;
};

void PrintDiagnosis(const Records& records, const Diagnosis& diagnosis,
                    const std::optional<DiagnosedPlan>& planned, std::ostream& out);
Json DiagnosisAsJson(const Records& records, const Diagnosis& diagnosis,
                     const std::optional<DiagnosedPlan>& planned);

}  // namespace stringline
