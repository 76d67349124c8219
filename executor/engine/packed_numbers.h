// Numbers as bytes, for World::Exchange: the receiver takes them in the order and with the types in
// which the sender added them. Both run the same program.
#pragma once

#include <cstring>
#include <string>
#include <type_traits>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schedlang/base/sl_check.h"

namespace stringline {

class PackedNumbers {
 public:
  template <typename Number>
  void Add(Number value) {
    AddAll(absl::Span<const Number>(&value, 1));
  }
  template <typename Number>
  void AddAll(absl::Span<const Number> values) {
    static_assert(std::is_trivially_copyable_v<Number>);
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Number));
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class NumberReader {
 public:
  explicit NumberReader(absl::string_view bytes) : left_(bytes) {}

  bool done() const { return left_.empty(); }
  template <typename Number>
  Number Take() {
    Number value;
    TakeAll(absl::Span<Number>(&value, 1));
    return value;
  }
  template <typename Number>
  void TakeAll(absl::Span<Number> values) {
    static_assert(std::is_trivially_copyable_v<Number>);
    const size_t bytes = values.size() * sizeof(Number);
    SL_CHECK(bytes <= left_.size()) << bytes << " bytes wanted, " << left_.size() << " are there";
    if (bytes > 0) std::memcpy(static_cast<void*>(values.data()), left_.data(), bytes);
    left_.remove_prefix(bytes);
  }

 private:
  absl::string_view left_;
};

}  // namespace stringline
