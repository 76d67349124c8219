// The keys of Megatron's arguments that concern the order of a step, and why some are refused.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace stringline {

// The values of the keys that are honoured, by the first name of the table in argument_keys.cc.
class ArgumentValues {
 public:
  struct Value {
    std::string text;    // of a negated option ("no_…") the opposite
    std::string place;   // "args.yaml:12: 'num-layers'", as it is written there
    bool given = false;  // beside the file
  };

  explicit ArgumentValues(std::string file) : file_(std::move(file)) {}

  // Takes a key as it is written, first those given beside the file: they go before its own.
  // InvalidArgument for a refused key and one that is there twice.
  absl::Status Take(const std::string& written, const std::string& text, const std::string& place,
                    bool given);

  // True if the key is there and is not null.
  bool Has(const std::string& key) const { return values_.count(key) > 0; }
  const Value& Of(const std::string& key) const { return values_.at(key); }
  // "args.yaml:12: 'num-layers'", or the file and the key where it is not there.
  std::string PlaceOf(const std::string& key) const;
  // A whole number from `least` on, or `usual`.
  absl::StatusOr<int> Number(const std::string& key, int usual, int least = 1) const;
  absl::StatusOr<bool> Truth(const std::string& key, bool usual) const;
  std::string Word(const std::string& key) const { return Has(key) ? Of(key).text : ""; }

  int unconcerned() const { return unconcerned_; }

 private:
  const std::string file_;
  std::map<std::string, Value> values_;
  int unconcerned_ = 0;
};

}  // namespace stringline
