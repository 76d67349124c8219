// A product's library kernel is chosen once for its sizes and cached by them: a node has no state
// of its own. The library adds the bias and the previous result before rounding, so that a linear
// with bias and residual is rounded once.
#include "executor/cpu/kernels/bf16_products.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "schedlang/base/sl_check.h"
#include "stages/ops.h"

namespace stringline::cpu {
namespace {

// The inputs of an op: transposition of the factors, the index of the bias (-1: none) and of the
// result's initial value (-1: none).
struct Roles {
  bool a_transposed = false, b_transposed = false;
  int bias = -1;
  int begin = -1;
};

std::optional<Roles> RolesOf(Op op) {
  switch (op) {
    case Op::kLinear:
      return Roles{false, true};
    case Op::kLinearBias:
      return Roles{false, true, 2};
    case Op::kLinearResidual:
      return Roles{false, true, 2, 3};
    case Op::kLinearAdd:
      return Roles{false, true, -1, 2};
    case Op::kLinearInputGrad:
      return Roles{false, false};
    case Op::kLinearWeightGrad:
      return Roles{true, false};
    default:
      return std::nullopt;
  }
}

// c (m,n) = a (m,k) b (k,n), row-major or transposed.
struct Sizes {
  int64_t m = 0, n = 0, k = 0;
  bool a_transposed = false, b_transposed = false;
  bool bias = false;
  bool adds = false;  // to what c holds
  bool wide = false;  // c is F32
  auto operator<=>(const Sizes&) const = default;
};

int64_t ColumnsOf(const Type& type) { return type.shape.back(); }
int64_t RowsOf(const Type& type) { return type.elements() / ColumnsOf(type); }

Sizes SizesOf(const Roles& roles, const Type& a, const Type& b, const Type& c, bool adds) {
  Sizes sizes;
  sizes.m = roles.a_transposed ? ColumnsOf(a) : RowsOf(a);
  sizes.k = roles.a_transposed ? RowsOf(a) : ColumnsOf(a);
  sizes.n = roles.b_transposed ? RowsOf(b) : ColumnsOf(b);
  sizes.a_transposed = roles.a_transposed;
  sizes.b_transposed = roles.b_transposed;
  sizes.bias = roles.bias >= 0;
  sizes.adds = adds || roles.begin >= 0;
  sizes.wide = c.dtype == DType::kF32;
  return sizes;
}

// A product by the library; empty without a kernel for this processor's BF16 instructions.
struct Product {
  dnnl::matmul run;
  dnnl::memory::desc a, b, c, bias, scratch;
  bool there = false;
};

dnnl::memory::desc Describe(int64_t rows, int64_t columns, bool transposed, bool wide = false) {
  using Memory = dnnl::memory;
  return {{rows, columns},
          wide ? Memory::data_type::f32 : Memory::data_type::bf16,
          transposed ? Memory::dims{1, rows} : Memory::dims{columns, 1}};
}

const dnnl::engine& Engine() {
  static const dnnl::engine& engine = *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

Product Make(const Sizes& sizes) {
  Product product;
  product.a = Describe(sizes.m, sizes.k, sizes.a_transposed);
  product.b = Describe(sizes.k, sizes.n, sizes.b_transposed);
  product.c = Describe(sizes.m, sizes.n, false, sizes.wide);
  if (sizes.bias) product.bias = Describe(1, sizes.n, false);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (sizes.adds) {
    dnnl::post_ops after;
    after.append_sum(1.0f);
    attributes.set_post_ops(after);
  }
  const dnnl::matmul::desc wanted =
      sizes.bias ? dnnl::matmul::desc(product.a, product.b, product.bias, product.c)
                 : dnnl::matmul::desc(product.a, product.b, product.c);
  const dnnl::matmul::primitive_desc found(wanted, attributes, Engine(), /*allow_empty=*/true);
  // Other kernels emulate bf16, and take longer than the product of widened operands.
  product.there = found && std::strstr(found.impl_info_str(), "bf16") != nullptr;
  if (!product.there) return product;
  product.run = dnnl::matmul(found);
  product.scratch = found.scratchpad_desc();
  return product;
}

// Errors of the library are our own bugs: sizes are checked before.
const Product& Find(const Sizes& sizes) {
  static std::mutex& mutex = *new std::mutex;
  static std::map<Sizes, Product>& products = *new std::map<Sizes, Product>;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = products.find(sizes);
  if (found != products.end()) return found->second;
  PrepareThread();  // a product is made for the present number of threads
  try {
    return products.emplace(sizes, Make(sizes)).first->second;
  } catch (const dnnl::error& error) {
    SL_CHECK(false) << error.what();
    throw;
  }
}

}  // namespace

std::optional<int64_t> Bf16ProductWorkspace(const Graph& graph, const Node& node) {
  const std::optional<Roles> roles = RolesOf(node.op);
  const Type& a = graph.values[node.inputs.empty() ? node.outputs[0] : node.inputs[0]].type;
  if (!roles.has_value() || a.dtype != DType::kBF16) return std::nullopt;
  const Type& b = graph.values[node.inputs[1]].type;
  const Type& c = graph.values[node.outputs[0]].type;
  int64_t bytes = 0;
  for (const bool adds : {false, true}) {
    if (adds && !RowOf(node.op).CanAccumulate(0)) continue;
    const Product& product = Find(SizesOf(*roles, a, b, c, adds));
    if (!product.there) return std::nullopt;
    bytes = std::max(bytes, static_cast<int64_t>(product.scratch.get_size()));
  }
  return bytes;
}

void RunBf16Product(const Node& node, In in, Out out, Accumulate accumulate, void* workspace) {
  thread_local const bool prepared = (PrepareThread(), true);
  SL_CHECK(prepared);
  const Roles roles = *RolesOf(node.op);
  const Product& product =
      Find(SizesOf(roles, *in[0].type, *in[1].type, *out[0].type, accumulate[0]));
  if (roles.begin >= 0) {
    std::memcpy(out[0].data, in[static_cast<size_t>(roles.begin)].data,
                static_cast<size_t>(out[0].type->bytes()));
  }
  try {
    thread_local dnnl::stream stream(Engine());
    const auto memory = [](const dnnl::memory::desc& desc, void* data) {
      return dnnl::memory(desc, Engine(), data);
    };
    std::unordered_map<int, dnnl::memory> operands = {
        {DNNL_ARG_SRC, memory(product.a, in[0].data)},
        {DNNL_ARG_WEIGHTS, memory(product.b, in[1].data)},
        {DNNL_ARG_DST, memory(product.c, out[0].data)},
        {DNNL_ARG_SCRATCHPAD, memory(product.scratch, workspace)}};
    if (roles.bias >= 0) {
      operands.emplace(DNNL_ARG_BIAS,
                       memory(product.bias, in[static_cast<size_t>(roles.bias)].data));
    }
    product.run.execute(stream, operands);
    stream.wait();
  } catch (const dnnl::error& error) {
    SL_CHECK(false) << error.what();
  }
}

}  // namespace stringline::cpu
