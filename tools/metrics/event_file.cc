#include "tools/metrics/event_file.h"

#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0);
    table[i] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = MakeTable();

uint32_t Masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u; }

template <typename Number>
std::string BytesOf(Number number) {  // little-endian, as all machines that this runs on
  std::string bytes(sizeof(number), '\0');
  std::memcpy(bytes.data(), &number, sizeof(number));
  return bytes;
}

// Protocol buffers: a key is the field's number and the kind of its contents.
enum Kind : uint8_t { kVarint = 0, kEightBytes = 1, kCounted = 2, kFourBytes = 5 };
std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}
std::string Key(int field, Kind kind) { return Varint(static_cast<uint64_t>(field) << 3 | kind); }
std::string Counted(int field, absl::string_view bytes) {
  return absl::StrCat(Key(field, kCounted), Varint(bytes.size()), bytes);
}

std::string EventAt(double time_s) { return absl::StrCat(Key(1, kEightBytes), BytesOf(time_s)); }

}  // namespace

uint32_t Crc32c(absl::string_view bytes) {
  uint32_t crc = 0xFFFFFFFFu;
  for (const char c : bytes) crc = kTable[(crc ^ static_cast<uint8_t>(c)) & 0xFF] ^ (crc >> 8);
  return crc ^ 0xFFFFFFFFu;
}

absl::StatusOr<EventFile> EventFile::Create(const std::string& folder, double time_s) {
  const std::string path =
      absl::StrCat(folder, "/events.out.tfevents.", static_cast<int64_t>(time_s), ".stringline");
  SL_ASSIGN_OR_RETURN(NewFile file, NewFile::CreateAs(path, path));
  EventFile events(std::move(file));
  SL_RETURN_IF_ERROR(events.AddRecord(absl::StrCat(EventAt(time_s), Counted(3, "brain.Event:2"))));
  return events;
}

absl::Status EventFile::Add(int64_t step, double time_s, const Scalars& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    absl::StrAppend(&summary, Counted(1, absl::StrCat(Counted(1, tag), Key(2, kFourBytes),
                                                      BytesOf(static_cast<float>(value)))));
  }
  return AddRecord(absl::StrCat(EventAt(time_s), Key(2, kVarint),
                                Varint(static_cast<uint64_t>(step)), Counted(5, summary)));
}

absl::Status EventFile::AddRecord(const std::string& event) {
  const std::string length = BytesOf(static_cast<uint64_t>(event.size()));
  return file_.Append(
      absl::StrCat(length, BytesOf(Masked(Crc32c(length))), event, BytesOf(Masked(Crc32c(event)))));
}

}  // namespace stringline
