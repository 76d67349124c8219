// A file of events for TensorBoard: scalars by step.
//
// A record is its length, the masked CRC-32C of the length, the bytes, and the masked CRC-32C of
// the bytes (TensorFlow, lib/io/record_writer); its bytes are an Event in protocol buffers
// (event.proto): field 1 the time in seconds, 2 the step, 3 the file's version in the first record,
// 5 a Summary of values with field 1 a tag and field 2 a float.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedlang/base/new_file.h"

namespace stringline {

using Scalars = std::vector<std::pair<std::string, double>>;

// CRC-32 with the polynomial of Castagnoli, 0x1EDC6F41, reflected (RFC 3720, B.4).
uint32_t Crc32c(absl::string_view bytes);

class EventFile {
 public:
  // FOLDER/events.out.tfevents.SECONDS.stringline; makes missing folders.
  static absl::StatusOr<EventFile> Create(const std::string& folder, double time_s);
  absl::Status Add(int64_t step, double time_s, const Scalars& scalars);

 private:
  explicit EventFile(NewFile file) : file_(std::move(file)) {}
  absl::Status AddRecord(const std::string& event);
  NewFile file_;
};

}  // namespace stringline
