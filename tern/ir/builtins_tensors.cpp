// What a tensor or a device is, and tensors made of numbers in lists.
#include <algorithm>

#include "tern/base/format.h"
#include "tern/dispatch/autocast.h"
#include "tern/dispatch/ladder.h"
#include "tern/ir/builtin_families.h"
#include "tern/tensor/generator.h"
#include "tern/tensor/nesting.h"

namespace tern::ir {
namespace {

using namespace builtin;

const Tensor& tensor_in(Args in, std::string_view what) {
  if (in.empty() || !in[0].is_tensor()) failf(ErrorKind::type, "{} needs a tensor", what);
  return in[0].tensor();
}
V size_of(Args in) {
  const Tensor& t = tensor_in(in, "size");
  if (in.size() == 2) return t.size(integer(in[1]).guard_int(Loc{}), Loc{});
  if (t.is_nested()) refuse_sizes();
  Dims d;
  for (int64_t k = 0; k < t.dim(); ++k) d.push_back(t.size(k, Loc{}));
  return V::list({d.begin(), d.end()}, Type::integer());
}
V stride_of(Args in) {
  const Tensor& t = tensor_in(in, "stride");
  if (in.size() == 2 || t.is_nested()) return t.stride(in.size() == 2 ? integer(in[1]).guard_int(Loc{}) : 0);
  return V::list({t.strides().begin(), t.strides().end()}, Type::integer());
}
V dim_of(Args in) { return tensor_in(in, "dim").dim(); }
V numel_of(Args in) { return tensor_in(in, "numel").numel(); }
V offset_of(Args in) { return tensor_in(in, "storage_offset").offset(); }
V dtype_of_tensor(Args in) { return tensor_in(in, "dtype").dtype(); }
V layout_of(Args in) {
  tensor_in(in, "layout");
  return int64_t{0};
}
V requires_grad_of(Args in) { return tensor_in(in, "requires_grad").requires_grad(); }
V floating_of(Args in) { return tensor_in(in, "is_floating_point").is_floating_point(); }
V nested_of(Args in) { return tensor_in(in, "is_nested").is_nested(); }
V quantized_of(Args in) { return tensor_in(in, "is_quantized").is_quantized(); }
V complex_of(Args in) { return tensor_in(in, "is_complex").is_complex(); }
V element_size_of(Args in) { return tensor_in(in, "element_size").element_size(); }
V contiguous_of(Args in) {
  const Tensor& t = tensor_in(in, "is_contiguous");
  if (in.size() < 2) return t.is_contiguous();
  return t.is_contiguous(static_cast<MemoryFormat>(integer(in[1]).guard_int(Loc{})));
}
V coalesced_of(Args in) {
  tensor_in(in, "is_coalesced");
  fail("is_coalesced expected sparse coordinate tensor layout but got Strided");
}
// What an autocast scope that names no dtype casts to.
V autocast_dtype_of(Args in) {
  need(in, 1, 1, "get_autocast_dtype");
  if (in[0].string() != "cpu") return DType::float16;
  const AutocastSetting* now = Autocast::current();
  return now ? now->dtype : DType::bfloat16;
}
template <DeviceType D>
V on_device(Args in) {
  return tensor_in(in, "the device").device().type == D;
}
// torch.tensor of numbers in nested lists: (data, dtype, device, requires_grad).
void flatten_numbers(const V& v, size_t depth, Dims& sizes, std::vector<V>& out) {
  if (depth > 64) fail(ErrorKind::value, "tensor: lists nested too deeply");
  if (!v.is_list() && !v.is_tuple()) {
    if (depth != sizes.size())
      fail(ErrorKind::value, "tensor: expected a sequence of the same length at each level");
    out.push_back(number(v));
    return;
  }
  int64_t n = static_cast<int64_t>(v.items().size());
  if (out.empty() && depth == sizes.size())
    sizes.push_back(n);
  else if (depth >= sizes.size() || sizes[depth].as_int() != n)
    fail(ErrorKind::value, "tensor: expected sequences of the same length");
  for (const V& item : v.items()) flatten_numbers(item, depth + 1, sizes, out);
}
V make_tensor_of(Args in) {
  need(in, 1, 4, "tensor");
  Dims sizes;
  std::vector<V> items;
  flatten_numbers(in[0], 0, sizes, items);
  DType dtype = items.empty() ? default_dtype() : kBool;
  for (const V& v : items) {
    DType t = v.is_complex() ? to_complex(default_dtype())
              : v.is_float() ? default_dtype()
              : v.is_bool()  ? kBool
                             : kLong;
    dtype = promote(dtype, t);
  }
  if (in.size() > 1 && !in[1].is_none()) dtype = static_cast<DType>(in[1].to_int());
  Tensor t = make_tensor(sizes, dtype);
  for (size_t i = 0; i < items.size(); ++i) {
    Dims none;
    t.as_view(none, none, SymInt(static_cast<int64_t>(i))).fill_(items[i].scalar(), Loc{});
  }
  if (in.size() > 3 && in[3].is_bool() && in[3].to_bool()) t.requires_grad_(true);
  return t;
}
V grad_enabled(Args) { return thread_state.grad_enabled; }
V never(Args) { return false; }

// tolist(): nested lists of numbers.
V to_nested_list(Args in) {
  need(in, 1, 3, "tolist");
  if (tensor_in(in, "tolist").is_nested()) refuse_sizes();
  const Tensor t = tensor_in(in, "tolist").contiguous(MemoryFormat::contiguous, Loc{});
  if (in.size() == 3) {  // the depth and the type that were declared
    int64_t code = in[2].to_int();
    DType wanted = code == 0   ? kLong
                   : code == 1 ? default_dtype()
                   : code == 2 ? kBool
                               : to_complex(default_dtype());
    bool fits = code == 1 ? t.is_floating_point() : code == 3 ? t.is_complex() : t.dtype() == wanted;
    if (!fits)
      failf(
          ErrorKind::runtime,
          "Output annotation element type and runtime tensor element type must match for tolist(): {} vs {}",
          script_name(wanted), script_name(t.dtype()));
    if (in[1].to_int() != t.dim())
      fail(ErrorKind::runtime,
           "Output annotation list dimension and runtime tensor dimension must match for tolist()");
  }
  if (t.numel().guard_int(Loc{}) > (int64_t{1} << 26))
    fail(ErrorKind::value, "tolist: the tensor is too large for a list");
  const Type* element = t.is_floating_point() ? Type::floating()
                        : t.dtype() == kBool  ? Type::boolean()
                        : t.is_complex()      ? Type::complex()
                                              : Type::integer();
  int64_t at = 0;
  auto level = [&](auto& self, int64_t dim) -> V {
    if (dim == t.dim()) {
      Dims none;
      return t.as_view(none, none, t.offset() + SymInt(at++)).item(Loc{});
    }
    std::vector<V> items;
    for (int64_t k = 0, n = t.size(dim, Loc{}).guard_int(Loc{}); k < n; ++k)
      items.push_back(self(self, dim + 1));
    const Type* inner = element;
    for (int64_t k = dim + 1; k < t.dim(); ++k) inner = Type::list(inner);
    return V::list(std::move(items), inner);
  };
  return level(level, 0);
}
V data_of(Args in) {
  static const Op& detach = get_op("aten::detach");
  Arg a[] = {tensor_in(in, "data")};
  return call1(detach, a);
}
V bytes_of(Args in) {
  const Tensor& t = tensor_in(in, "nbytes");
  return t.numel() * SymInt(t.element_size());
}
// There is one device with data.
V on_cpu(Args in) {
  tensor_in(in, "cpu");
  return in[0];
}
V seed_generator(Args in) {
  need(in, 1, 1, "manual_seed");
  manual_seed(static_cast<uint64_t>(in[0].to_int()));
  return {};
}
V no_name(Args) { return {}; }

// ---- gradients ----

V require_grad(Args in) {
  const Tensor& t = tensor_in(in, "requires_grad_");
  t.requires_grad_(in.size() < 2 || truth(in[1]));
  return in[0];
}
V retain_grad(Args in) {
  tensor_in(in, "retain_grad").retain_grad();
  return {};
}
V version_of(Args in) { return static_cast<int64_t>(tensor_in(in, "_version").version()); }
V pin_memory(Args in) {
  tensor_in(in, "pin_memory");
  fail("Cannot access accelerator device when none is available.");
}
V leaf_of(Args in) { return tensor_in(in, "is_leaf").is_leaf(); }
V set_grad_enabled(Args in) {
  need(in, 1, 1, "set_grad_enabled");
  thread_state.grad_enabled = truth(in[0]);
  return {};
}
// torch.nn.init: changes a tensor without history.
template <class... Rest>
V filled(Args in, const Op& op, const Rest&... rest) {
  struct Without {
    bool before = std::exchange(thread_state.grad_enabled, false);
    ~Without() { thread_state.grad_enabled = before; }
  } without;
  Arg all[] = {Arg(tensor_in(in, "torch.nn.init")), rest...};
  call1(op, all);
  return in[0];
}
V fill_without_grad(Args in) {
  need(in, 2, 2, "_no_grad_fill_");
  static const Op& op = get_op("aten::fill_.Scalar");
  return filled(in, op, Arg(Scalar(real(in[1]))));
}
V zero_without_grad(Args in) {
  need(in, 1, 1, "_no_grad_zero_");
  static const Op& op = get_op("aten::zero_");
  return filled(in, op);
}
V normal_without_grad(Args in) {
  need(in, 3, 4, "_no_grad_normal_");
  static const Op& op = get_op("aten::normal_");
  return filled(in, op, Arg(real(in[1])), Arg(real(in[2])), Arg());
}
V uniform_without_grad(Args in) {
  need(in, 3, 4, "_no_grad_uniform_");
  static const Op& op = get_op("aten::uniform_");
  return filled(in, op, Arg(real(in[1])), Arg(real(in[2])), Arg());
}
// There are no sparse tensors: both are dense.
V sparse_mm(Args in) {
  need(in, 2, 2, "_sparse_mm");
  static const Op& op = get_op("aten::mm");
  Arg all[] = {tensor_in(in, "sparse.mm"), in[1].tensor()};
  return call1(op, all);
}
V no_device_index(Args) { return int64_t{-1}; }
// The size two shapes broadcast to.
V infer_size(Args in) {
  need(in, 2, 2, "_infer_size");
  const auto &a = in[0].items(), &b = in[1].items();
  size_t n = std::max(a.size(), b.size());
  std::vector<V> out(n);
  for (size_t k = 0; k < n; ++k) {
    int64_t x = k < a.size() ? a[a.size() - 1 - k].to_int() : 1,
            y = k < b.size() ? b[b.size() - 1 - k].to_int() : 1;
    if (x != y && x != 1 && y != 1)
      failf(ErrorKind::value,
            "The size of tensor a ({}) must match the size of tensor b ({}) at non-singleton dimension {}", x,
            y, n - 1 - k);
    out[n - 1 - k] = x == 1 ? y : x;
  }
  return V::list(std::move(out), Type::integer());
}
V broadcast_shapes(Args in) {
  need(in, 1, 64, "broadcast_shapes");
  V shape = V::list({}, Type::integer());
  auto add = [&](const V& s) {
    V two[] = {shape, s};
    shape = infer_size(two);
  };
  bool nested = in.size() == 1 && in[0].is_list() && !in[0].items().empty() && in[0].items()[0].is_list();
  if (nested)
    for (const V& s : in[0].items()) add(s);
  else
    for (const V& s : in) add(s);
  return shape;
}

constexpr BuiltinEntry table[] = {
    {"tolist", to_nested_list},
    {"data", data_of},
    {"nbytes", bytes_of},
    {"name", no_name},
    {"_no_grad_fill_", fill_without_grad, true},
    {"_no_grad_zero_", zero_without_grad, true},
    {"_no_grad_normal_", normal_without_grad, true},
    {"_no_grad_uniform_", uniform_without_grad, true},
    {"_sparse_mm", sparse_mm},
    {"requires_grad_", require_grad, true},
    {"retain_grad", retain_grad, true},
    {"is_leaf", leaf_of},
    {"retains_grad", retains_grad},
    {"output_nr", output_number},
    {"_version", version_of},
    {"set_data", set_data, true},
    {"pin_memory", pin_memory},
    {"to_dense", to_dense},
    {"__interpolate", old_interpolate},
    {"__upsample", old_upsample},
    {"__upsample_bilinear", old_upsample_bilinear},
    {"__upsample_nearest", old_upsample_nearest},
    {"backward", run_backward, true},
    {"get_device", no_device_index},
    {"set_grad_enabled", set_grad_enabled, true},
    {"_infer_size", infer_size},
    {"broadcast_shapes", broadcast_shapes},
    {"_get_tracing_state", never},
    {"has_torch_function", never},
    {"is_sparse_csr", never},
    {"sym_size", size_of},
    {"sym_stride", stride_of},
    {"sym_numel", numel_of},
    {"sym_storage_offset", offset_of},
    {"size", size_of},
    {"shape", size_of},
    {"stride", stride_of},
    {"dim", dim_of},
    {"ndim", dim_of},
    {"numel", numel_of},
    {"storage_offset", offset_of},
    {"dtype", dtype_of_tensor},
    {"layout", layout_of},
    {"requires_grad", requires_grad_of},
    {"is_floating_point", floating_of},
    {"is_complex", complex_of},
    {"element_size", element_size_of},
    {"itemsize", element_size_of},
    {"is_contiguous", contiguous_of},
    {"is_cpu", on_device<DeviceType::cpu>},
    {"is_cuda", on_device<DeviceType::cuda>},
    {"is_meta", on_device<DeviceType::meta>},
    {"is_xpu", on_device<DeviceType::xpu>},
    {"is_mps", on_device<DeviceType::mps>},
    {"is_sparse", never},
    {"is_quantized", quantized_of},
    {"is_mkldnn", never},
    {"is_nested", nested_of},
    {"is_scripting", never},
    {"is_tracing", never},
    {"tensor", make_tensor_of},
    {"as_tensor", make_tensor_of},
    {"cpu", on_cpu},
    {"manual_seed", seed_generator, true},
    {"is_autocast_enabled", never},
    {"is_autocast_cpu_enabled", never},
    {"get_autocast_dtype", autocast_dtype_of},
    {"is_vulkan", never},
    {"is_ipu", never},
    {"is_xla", never},
    {"is_maia", never},
    {"is_mtia", never},
    {"is_pinned", never},
    {"is_inference", never},
    {"is_distributed", never},
    {"is_coalesced", coalesced_of},
    {"is_grad_enabled", grad_enabled},
};

}  // namespace

V builtin::device_of_tensor(Args in) { return tensor_in(in, "device").device(); }

V builtin::grad_of_tensor(Args in) { return tensor_in(in, "grad").grad(); }

V builtin::device_type(Args in) {
  need(in, 1, 1, "type");
  std::string text = in[0].device().str();
  return text.substr(0, text.find(':'));
}

V builtin::device_index(Args in) {
  need(in, 1, 1, "index");
  Device d = in[0].device();
  return d.index < 0 ? V() : V(static_cast<int64_t>(d.index));
}

Span<const BuiltinEntry> tensor_builtins() { return table; }

}  // namespace tern::ir
