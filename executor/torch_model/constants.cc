// A table of ops, each a function from tensors to a tensor. The sizes of a result come from the
// program; the rest of an op's work on sizes is broadcasting and indexing.
#include "executor/torch_model/constants.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedlang/base/status.h"

namespace stringline {
namespace {

using Places = std::vector<int64_t>;
using Tensors = std::vector<std::shared_ptr<const HostTensor>>;

constexpr int64_t kMostConstants = int64_t{1} << 27;

// The number of elements; kMostConstants + 1 for any number above kMostConstants.
int64_t CountOf(const Places& sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) {
    if (size == 0) return 0;
    if (count > kMostConstants / size) return kMostConstants + 1;
    count *= size;
  }
  return count;
}

// Thrown for a malformed program; caught where a node is evaluated.
struct NoPlace {};

// A dimension, counted from the end if negative.
size_t Dimension(double given, size_t dimensions) {
  const double d = given < 0 ? given + static_cast<double>(dimensions) : given;
  if (!(d >= 0 && d < static_cast<double>(dimensions))) throw NoPlace();
  return static_cast<size_t>(d);
}

int64_t& PlaceAt(Places& places, size_t d) {
  if (d >= places.size()) throw NoPlace();
  return places[d];
}

// The inputs to the evaluation of a node.
struct ConstantCall {
  const TorchNode& node;
  const TorchValue& result;
  const Tensors& tensors;  // its tensor inputs, in order; null: left out

  const HostTensor& in(size_t i) const {
    if (i >= tensors.size()) throw NoPlace();
    return *tensors[i];
  }
  double number(const char* name, double otherwise) const { return node.Number(name, otherwise); }

  // The result, value by value, from its places.
  HostTensor Fill(const std::function<double(const Places&)>& value) const {
    HostTensor made{result.sizes, std::vector<double>(CountOf(result.sizes))};
    Places place(result.sizes.size());
    for (double& one : made.values) {
      one = value(place);
      for (size_t d = place.size(); d-- > 0;) {
        if (++place[d] < result.sizes[d]) break;
        place[d] = 0;
      }
    }
    return made;
  }
};

using Function = HostTensor (*)(const ConstantCall& call);

template <double (*function)(double)>
HostTensor Map(const ConstantCall& call) {
  HostTensor made = call.in(0);
  for (double& value : made.values) value = function(value);
  return made;
}

// A function of `self` and `other` (or `exponent`), each a tensor or a number.
template <double (*function)(double, double)>
HostTensor Zip(const ConstantCall& call) {
  size_t next = 0;
  const auto operand = [&](const char* name) {
    return call.node.Tensor(name).empty() ? nullptr : &call.in(next++);
  };
  const char* const second = call.node.Find("exponent") == nullptr ? "other" : "exponent";
  const HostTensor *a = operand("self"), *b = operand(second);
  const double alpha = call.number("alpha", 1);
  const double a_number = call.number("self", 0), b_number = call.number(second, 0);
  return call.Fill([&](const Places& at) {
    return function(a != nullptr ? a->At(at) : a_number,
                    alpha * (b != nullptr ? b->At(at) : b_number));
  });
}

double NumberAdd(double a, double b) { return a + b; }
double NumberSubtract(double a, double b) { return a - b; }
double NumberSubtractFrom(double a, double b) { return b - a; }
double NumberMultiply(double a, double b) { return a * b; }
double NumberDivide(double a, double b) { return a / b; }
double NumberPower(double a, double b) { return std::pow(a, b); }
double NumberEqual(double a, double b) { return a == b ? 1 : 0; }
double NumberUnequal(double a, double b) { return a != b ? 1 : 0; }
double NumberLess(double a, double b) { return a < b ? 1 : 0; }
double NumberLessOrEqual(double a, double b) { return a <= b ? 1 : 0; }
double NumberGreater(double a, double b) { return a > b ? 1 : 0; }
double NumberGreaterOrEqual(double a, double b) { return a >= b ? 1 : 0; }
double NumberAnd(double a, double b) { return a != 0 && b != 0 ? 1 : 0; }
double NumberOr(double a, double b) { return a != 0 || b != 0 ? 1 : 0; }
double NumberNot(double a) { return a == 0 ? 1 : 0; }
// For whole numbers, and for truths as 0 and 1.
double BitsAnd(double a, double b) {
  return static_cast<double>(static_cast<int64_t>(a) & static_cast<int64_t>(b));
}
double BitsOr(double a, double b) {
  return static_cast<double>(static_cast<int64_t>(a) | static_cast<int64_t>(b));
}
double NumberNegate(double a) { return -a; }
double NumberCosine(double a) { return std::cos(a); }
double NumberSine(double a) { return std::sin(a); }
double NumberExponential(double a) { return std::exp(a); }
double NumberInverse(double a) { return 1 / a; }
double NumberSize(double a) { return std::abs(a); }
double NumberFloor(double a) { return std::floor(a); }
double NumberLargest(double a, double b) { return a < b || b != b ? b : a; }
double NumberSmallest(double a, double b) { return a > b || b != b ? b : a; }
double NumberFloorQuotient(double a, double b) { return std::floor(a / b); }
double NumberRemainder(double a, double b) { return a - std::floor(a / b) * b; }

HostTensor Quotient(const ConstantCall& call) {
  const TorchArgument* const rounding = call.node.Find("rounding_mode");
  HostTensor made = Zip<NumberDivide>(call);
  if (rounding == nullptr) return made;
  for (double& value : made.values) {
    if (rounding->text == "floor") value = std::floor(value);
    if (rounding->text == "trunc") value = std::trunc(value);
  }
  return made;
}

// The same values under other sizes.
HostTensor Reshape(const ConstantCall& call) { return {call.result.sizes, call.in(0).values}; }

// The values, in the result's type (Evaluate).
HostTensor Convert(const ConstantCall& call) { return call.in(0); }

HostTensor BitsNot(const ConstantCall& call) {
  const bool truth = call.result.type == TorchType::kBool;
  HostTensor made = call.in(0);
  for (double& value : made.values) value = truth ? NumberNot(value) : -value - 1;
  return made;
}

// Values as their type has them: truths are 0 and 1, whole numbers have no fraction.
void RoundTo(TorchType type, HostTensor* made) {
  if (IsFloat(type)) return;
  for (double& value : made->values)
    value = type == TorchType::kBool ? (value != 0 ? 1 : 0) : std::trunc(value);
}

HostTensor Expand(const ConstantCall& call) {
  const HostTensor& x = call.in(0);
  return call.Fill([&](const Places& at) { return x.At(at); });
}

HostTensor Transpose(const ConstantCall& call) {
  const HostTensor& x = call.in(0);
  const size_t a = Dimension(call.number("dim0", 0), x.sizes.size());
  const size_t b = Dimension(call.number("dim1", 1), x.sizes.size());
  return call.Fill([&](Places at) {
    std::swap(PlaceAt(at, a), PlaceAt(at, b));
    return x.At(at);
  });
}

HostTensor Permute(const ConstantCall& call) {
  const HostTensor& x = call.in(0);
  const Places dims = call.node.Ints("dims");
  if (dims.size() != call.result.sizes.size()) throw NoPlace();
  return call.Fill([&](const Places& at) {
    Places from(at.size());
    for (size_t d = 0; d < at.size(); ++d)
      from[Dimension(static_cast<double>(dims[d]), at.size())] = at[d];
    return x.At(from);
  });
}

HostTensor Slice(const ConstantCall& call) {
  const HostTensor& x = call.in(0);
  const size_t d = Dimension(call.number("dim", 0), x.sizes.size());
  int64_t start = static_cast<int64_t>(call.number("start", 0));
  if (start < 0) start = std::max<int64_t>(0, start + x.sizes[d]);
  const int64_t step = static_cast<int64_t>(call.number("step", 1));
  return call.Fill([&](Places at) {
    PlaceAt(at, d) = start + step * at[d];
    return x.At(at);
  });
}

HostTensor Select(const ConstantCall& call) {
  const HostTensor& x = call.in(0);
  const size_t d = Dimension(call.number("dim", 0), x.sizes.size());
  int64_t index = static_cast<int64_t>(call.number("index", 0));
  if (index < 0) index += x.sizes[d];
  return call.Fill([&](Places at) {
    if (d > at.size()) throw NoPlace();
    at.insert(at.begin() + d, index);
    return x.At(at);
  });
}

// The first tensor, but for the places along a dimension that are the second one's.
HostTensor SliceScatter(const ConstantCall& call) {
  const HostTensor &x = call.in(0), &source = call.in(1);
  const size_t d = Dimension(call.number("dim", 0), x.sizes.size());
  int64_t start = static_cast<int64_t>(call.number("start", 0));
  if (start < 0) start = std::max<int64_t>(0, start + x.sizes[d]);
  const int64_t step = static_cast<int64_t>(call.number("step", 1));
  return call.Fill([&](Places at) {
    const int64_t from = PlaceAt(at, d) - start;
    const bool outside = from < 0 || from % step != 0 || from / step >= source.sizes[d];
    if (outside) return x.At(at);
    at[d] = from / step;
    return source.At(at);
  });
}

HostTensor SelectScatter(const ConstantCall& call) {
  const HostTensor &x = call.in(0), &source = call.in(1);
  const size_t d = Dimension(call.number("dim", 0), x.sizes.size());
  int64_t index = static_cast<int64_t>(call.number("index", 0));
  if (index < 0) index += x.sizes[d];
  return call.Fill([&](Places at) {
    if (PlaceAt(at, d) != index) return x.At(at);
    at.erase(at.begin() + static_cast<std::ptrdiff_t>(d));
    return source.At(at);
  });
}

HostTensor Concatenate(const ConstantCall& call) {
  const size_t d = Dimension(call.number("dim", 0), call.result.sizes.size());
  return call.Fill([&](Places at) {
    size_t part = 0;
    while (d < call.in(part).sizes.size() && at[d] >= call.in(part).sizes[d]) {
      at[d] -= call.in(part++).sizes[d];
    }
    return call.in(part).At(at);
  });
}

HostTensor Range(const ConstantCall& call) {
  const double start = call.number("start", 0), step = call.number("step", 1);
  return call.Fill(
      [&](const Places& at) { return start + step * static_cast<double>(at.empty() ? 0 : at[0]); });
}

HostTensor Constant(const ConstantCall& call) {
  const bool ones =
      call.node.op == "ones" || call.node.op == "ones_like" || call.node.op == "new_ones";
  const double value =
      call.number("fill_value", call.number("s", call.number("value", ones ? 1.0 : 0.0)));
  return call.Fill([value](const Places&) { return value; });
}

HostTensor Where(const ConstantCall& call) {
  const HostTensor& condition = call.in(0);
  size_t next = 1;
  const auto branch = [&](const char* name) {
    return call.node.Tensor(name).empty() ? nullptr : &call.in(next++);
  };
  const HostTensor *yes = branch("self"), *no = branch("other");
  const double yes_number = call.number("self", 0), no_number = call.number("other", 0);
  return call.Fill([&](const Places& at) {
    if (condition.At(at) != 0) return yes != nullptr ? yes->At(at) : yes_number;
    return no != nullptr ? no->At(at) : no_number;
  });
}

HostTensor MaskedFill(const ConstantCall& call) {
  const HostTensor &x = call.in(0), &mask = call.in(1);
  const double number = call.tensors.size() > 2 ? call.in(2).values[0] : call.number("value", 0);
  return call.Fill([&](const Places& at) { return mask.At(at) != 0 ? number : x.At(at); });
}

HostTensor Triangle(const ConstantCall& call) {
  const HostTensor& x = call.in(0);
  const bool lower = call.node.op == "tril";
  if (call.result.sizes.size() < 2) throw NoPlace();
  const auto diagonal = static_cast<int64_t>(call.number("diagonal", 0));
  return call.Fill([&](const Places& at) {
    const int64_t right = at[at.size() - 1] - at[at.size() - 2] - diagonal;
    return (lower ? right <= 0 : right >= 0) ? x.At(at) : 0.0;
  });
}

HostTensor RunningSum(const ConstantCall& call) {
  HostTensor made = call.in(0);
  const size_t d = Dimension(call.number("dim", 0), made.sizes.size());
  int64_t stride = 1;
  for (size_t k = d + 1; k < made.sizes.size(); ++k) stride *= made.sizes[k];
  for (int64_t i = 0; i < static_cast<int64_t>(made.values.size()); ++i) {
    if (i / stride % made.sizes[d] != 0) made.values[i] += made.values[i - stride];
  }
  return made;
}

// x[i + 1] - x[i] along a dimension, with `prepend` before its first.
HostTensor Difference(const ConstantCall& call) {
  const HostTensor& x = call.in(0);
  const size_t d = Dimension(call.number("dim", -1), x.sizes.size());
  const HostTensor* const before = call.node.Tensor("prepend").empty() ? nullptr : &call.in(1);
  const int64_t shift = before == nullptr ? 0 : before->sizes[d];
  const auto value = [&](Places at) {
    if (before != nullptr && PlaceAt(at, d) < shift) return before->At(at);
    at[d] -= shift;
    return x.At(at);
  };
  return call.Fill([&](const Places& at) {
    Places next = at;
    ++PlaceAt(next, d);
    return value(next) - value(at);
  });
}

// x[index 0, index 1, ...], an index tensor for every dimension; all broadcast to the result's
// sizes.
HostTensor Index(const ConstantCall& call) {
  const HostTensor& x = call.in(0);
  const size_t indexed = call.tensors.size() - 1;
  if (indexed > x.sizes.size()) throw NoPlace();
  const size_t rest = x.sizes.size() - indexed;  // dimensions behind the indexed ones
  return call.Fill([&](const Places& place_of) {
    if (rest > place_of.size()) throw NoPlace();
    const Places at(place_of.begin(), place_of.end() - static_cast<std::ptrdiff_t>(rest));
    Places from;
    for (size_t i = 1; i < call.tensors.size(); ++i) {
      auto place = static_cast<int64_t>(call.in(i).At(at));
      if (place < 0) place += x.sizes[i - 1];
      from.push_back(place);
    }
    from.insert(from.end(), place_of.end() - static_cast<std::ptrdiff_t>(rest), place_of.end());
    return x.At(from);
  });
}

// As the index, but for one dimension, whose places are the index's values.
HostTensor Gather(const ConstantCall& call) {
  const HostTensor &x = call.in(0), &index = call.in(1);
  const size_t d = Dimension(call.number("dim", 0), x.sizes.size());
  return call.Fill([&](Places at) {
    PlaceAt(at, d) = static_cast<int64_t>(index.At(at));
    return x.At(at);
  });
}

// Places along a dimension by the index's values.
HostTensor IndexSelect(const ConstantCall& call) {
  const HostTensor &x = call.in(0), &index = call.in(1);
  const size_t d = Dimension(call.number("dim", 0), x.sizes.size());
  return call.Fill([&](Places at) {
    PlaceAt(at, d) = static_cast<int64_t>(index.At({PlaceAt(at, d)}));
    return x.At(at);
  });
}

// Each part along the dimension so many times in a row.
HostTensor RepeatInterleave(const ConstantCall& call) {
  const HostTensor& x = call.in(0);
  const auto repeats = static_cast<int64_t>(call.number("repeats", 0));
  if (repeats < 1 || call.node.Find("dim") == nullptr) throw NoPlace();
  const size_t d = Dimension(call.number("dim", 0), x.sizes.size());
  return call.Fill([&](Places at) {
    PlaceAt(at, d) /= repeats;
    return x.At(at);
  });
}

// The whole so many times along each dimension.
HostTensor RepeatWhole(const ConstantCall& call) {
  const HostTensor& x = call.in(0);
  const size_t dims = call.result.sizes.size();
  if (dims < x.sizes.size()) throw NoPlace();
  return call.Fill([&](Places at) {
    for (size_t d = 0; d < x.sizes.size(); ++d) {
      at[dims - x.sizes.size() + d] %= std::max<int64_t>(1, x.sizes[d]);
    }
    return x.At(at);
  });
}

// Side by side along a new dimension.
HostTensor Stack(const ConstantCall& call) {
  const size_t d = Dimension(call.number("dim", 0), call.result.sizes.size());
  return call.Fill([&](Places at) {
    const auto part = static_cast<size_t>(at[d]);
    at.erase(at.begin() + static_cast<std::ptrdiff_t>(d));
    return call.in(part).At(at);
  });
}

HostTensor Product(const ConstantCall& call) {
  const HostTensor &a = call.in(0), &b = call.in(1);
  if (a.sizes.size() < 2 || b.sizes.size() < 2 || call.result.sizes.size() < 2) throw NoPlace();
  const int64_t inner = a.sizes.back();
  return call.Fill([&](const Places& at) {
    Places left = at, right = at;
    double sum = 0;
    for (int64_t k = 0; k < inner; ++k) {
      left[left.size() - 1] = k;
      right[right.size() - 2] = k;
      sum += a.At(left) * b.At(right);
    }
    return sum;
  });
}

// NOLINTNEXTLINE(readability-function-size): a table.
const std::map<std::string, Function>& Functions() {
  static const auto& functions = *new std::map<std::string, Function>{
      {"add", Zip<NumberAdd>},
      {"sub", Zip<NumberSubtract>},
      {"rsub", Zip<NumberSubtractFrom>},
      {"mul", Zip<NumberMultiply>},
      {"div", Quotient},
      {"pow", Zip<NumberPower>},
      {"eq", Zip<NumberEqual>},
      {"ne", Zip<NumberUnequal>},
      {"lt", Zip<NumberLess>},
      {"le", Zip<NumberLessOrEqual>},
      {"gt", Zip<NumberGreater>},
      {"ge", Zip<NumberGreaterOrEqual>},
      {"__and__", Zip<BitsAnd>},
      {"bitwise_and", Zip<BitsAnd>},
      {"logical_and", Zip<NumberAnd>},
      {"__or__", Zip<BitsOr>},
      {"bitwise_or", Zip<BitsOr>},
      {"logical_or", Zip<NumberOr>},
      {"bitwise_not", BitsNot},
      {"logical_not", Map<NumberNot>},
      {"neg", Map<NumberNegate>},
      {"cos", Map<NumberCosine>},
      {"sin", Map<NumberSine>},
      {"exp", Map<NumberExponential>},
      {"reciprocal", Map<NumberInverse>},
      {"abs", Map<NumberSize>},
      {"floor", Map<NumberFloor>},
      {"minimum", Zip<NumberSmallest>},
      {"maximum", Zip<NumberLargest>},
      {"floor_divide", Zip<NumberFloorQuotient>},
      {"remainder", Zip<NumberRemainder>},
      {"unsqueeze", Reshape},
      {"squeeze", Reshape},
      {"view", Reshape},
      {"reshape", Reshape},
      {"_unsafe_view", Reshape},
      {"flatten", Reshape},
      {"to", Convert},
      {"_to_copy", Convert},
      {"type_as", Convert},
      {"copy", Expand},
      {"alias", Convert},
      {"clone", Convert},
      {"contiguous", Convert},
      {"detach", Convert},
      {"detach_", Convert},
      {"lift_fresh_copy", Convert},
      {"expand", Expand},
      {"transpose", Transpose},
      {"t", Transpose},
      {"permute", Permute},
      {"slice", Slice},
      {"select", Select},
      {"cat", Concatenate},
      {"arange", Range},
      {"full", Constant},
      {"ones", Constant},
      {"zeros", Constant},
      {"empty", Constant},
      {"full_like", Constant},
      {"ones_like", Constant},
      {"zeros_like", Constant},
      {"empty_like", Constant},
      {"new_full", Constant},
      {"new_ones", Constant},
      {"new_zeros", Constant},
      {"new_empty", Constant},
      {"slice_scatter", SliceScatter},
      {"select_scatter", SelectScatter},
      {"scalar_tensor", Constant},
      {"where", Where},
      {"masked_fill", MaskedFill},
      {"tril", Triangle},
      {"triu", Triangle},
      {"cumsum", RunningSum},
      {"diff", Difference},
      {"index", Index},
      {"gather", Gather},
      {"index_select", IndexSelect},
      {"repeat_interleave", RepeatInterleave},
      {"repeat", RepeatWhole},
      {"stack", Stack},
      {"matmul", Product},
      {"bmm", Product},
  };
  return functions;
}

}  // namespace

bool TorchConstants::ReadsNoValue(const std::string& op) {
  static const std::set<std::string>& ops =
      *new std::set<std::string>{"full_like", "ones_like", "zeros_like", "empty_like",
                                 "new_full",  "new_ones",  "new_zeros",  "new_empty"};
  return ops.count(op) > 0;
}

double HostTensor::At(const Places& place) const {
  constexpr double kNowhere = std::numeric_limits<double>::quiet_NaN();
  if (place.size() < sizes.size()) return kNowhere;
  int64_t index = 0;
  const size_t skipped = place.size() - sizes.size();
  for (size_t d = 0; d < sizes.size(); ++d) {
    index = index * sizes[d] + (sizes[d] == 1 ? 0 : place[skipped + d]);
  }
  return index >= 0 && index < static_cast<int64_t>(values.size()) ? values[index] : kNowhere;
}

TorchConstants::TorchConstants(const TorchProgram& program, const Pt2Archive& archive)
    : program_(program), archive_(archive) {
  for (const auto& [value, name] : program.constants) constant_[value] = nullptr;
  for (const TorchNode& node : program.nodes) {
    if (Functions().count(node.op) == 0 || node.outputs.size() != 1) continue;
    bool all = true;
    for (const auto& [name, argument] : node.inputs) {
      for (const std::string& tensor : argument.tensors) all = all && Is(tensor);
    }
    if (all || ReadsNoValue(node.op)) constant_[node.outputs.front()] = &node;
  }
}

std::map<std::string, int> TorchConstants::ReadersBehind(const std::string& name) const {
  std::map<std::string, int> readers = {{name, 1}};
  std::vector<std::string> open = {name};
  while (!open.empty()) {
    const TorchNode* const node = constant_.at(open.back());
    open.pop_back();
    if (node == nullptr || ReadsNoValue(node->op)) continue;
    for (const auto& [input, argument] : node->inputs) {
      for (const std::string& tensor : argument.tensors) {
        if (++readers[tensor] == 1) open.push_back(tensor);
      }
    }
  }
  return readers;
}

// Evaluated in the order of the program; a value is dropped behind its last consumer.
absl::StatusOr<TorchConstants::Shared> TorchConstants::Value(const std::string& name) const {
  std::map<std::string, int> readers = ReadersBehind(name);
  std::map<std::string, Shared> there;
  for (const auto& [value, stored] : program_.constants) {
    if (readers.count(value) == 0) continue;
    SL_ASSIGN_OR_RETURN(there[value], Stored(value));
  }
  for (const TorchNode& node : program_.nodes) {
    const std::string value = node.outputs.empty() ? "" : node.outputs.front();
    if (readers.count(value) == 0) continue;
    Tensors tensors;
    for (const auto& [input, argument] : node.inputs) {
      if (ReadsNoValue(node.op)) break;
      for (const std::string& tensor : argument.tensors) {
        tensors.push_back(there.at(tensor));
        if (--readers[tensor] == 0) there.erase(tensor);
      }
    }
    SL_ASSIGN_OR_RETURN(there[value], Evaluate(node, tensors));
  }
  return there.at(name);
}

absl::StatusOr<TorchConstants::Shared> TorchConstants::Stored(const std::string& name) const {
  const TorchValue& value = program_.values.at(name);
  SL_ASSIGN_OR_RETURN(std::vector<double> values, archive_.Values(program_.constants.at(name)));
  if (CountOf(value.sizes) != static_cast<int64_t>(values.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("constant '", name, "' has other sizes than stored"));
  }
  return std::make_shared<HostTensor>(HostTensor{value.sizes, std::move(values)});
}

absl::StatusOr<TorchConstants::Shared> TorchConstants::Evaluate(
    const TorchNode& node, const std::vector<Shared>& tensors) const {
  const TorchValue& value = program_.values.at(node.outputs.front());
  if (CountOf(value.sizes) > kMostConstants) {
    return absl::InvalidArgumentError(
        absl::StrCat("constant '", node.outputs.front(), "' has more than ", kMostConstants,
                     " values: export the model with one sequence, or shorter ones"));
  }
  try {
    auto made = std::make_shared<HostTensor>(Functions().at(node.op)({node, value, tensors}));
    RoundTo(value.type, made.get());
    if (static_cast<int64_t>(made->values.size()) != CountOf(value.sizes)) throw NoPlace();
    return Shared(std::move(made));
  } catch (const NoPlace&) {
    return absl::InvalidArgumentError(
        absl::StrCat(node.target, ": its sizes do not fit: node '", node.name, "', ", node.source));
  }
}

}  // namespace stringline
