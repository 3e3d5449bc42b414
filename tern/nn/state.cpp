// Tensors in and out of modules: state dicts, changes of dtype and device.
#include "tern/nn/state.h"

#include <unordered_map>
#include <unordered_set>

#include "tern/autograd/history.h"
#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"

namespace tern::nn {
namespace {

void collect(const Module::State& state, const std::string& prefix, StateDict& out) {
  for (const Entry& e : state.parameters)
    if (e.slot->tensor.defined()) out.emplace_back(prefix + e.name, e.slot->tensor.detach());
  for (const Entry& e : state.buffers)
    if (e.persistent && e.slot->tensor.defined()) out.emplace_back(prefix + e.name, e.slot->tensor.detach());
  for (const Child& child : state.children) collect(*child.state, prefix + child.name + ".", out);
}

struct Loading {
  const std::unordered_map<std::string_view, const Tensor*>& given;
  std::unordered_set<std::string_view> used;
  LoadResult result;
  std::vector<std::string> errors;
};

void load(const Module::State& state, const std::string& prefix, Loading& loading) {
  auto load_entries = [&](const std::vector<Entry>& entries) {
    for (const Entry& e : entries) {
      const Tensor& into = e.slot->tensor;
      if (!e.persistent || !into.defined()) continue;
      std::string key = prefix + e.name;
      auto found = loading.given.find(key);
      if (found == loading.given.end()) {
        loading.result.missing.push_back(key);
        continue;
      }
      loading.used.insert(found->first);
      Tensor from = *found->second;
      // Files of PyTorch 0.3 and before hold one-element tensors for what is a scalar today.
      if (from.dim() == 1 && into.dim() == 0 && from.size(0) == 1) from = from.select(0, 0);
      bool same = from.dim() == into.dim();
      for (int64_t d = 0; same && d < into.dim(); ++d) same = from.size(d) == into.size(d);
      if (!same) {
        loading.errors.push_back(size_mismatch(key, from, into));
        continue;
      }
      if (into.is_meta())
        failf(
            "load_state_dict: {} is on the meta device, which holds no values: move the module with to(kCPU) "
            "first",
            key);
      into.copy_(from);
    }
  };
  load_entries(state.parameters);
  load_entries(state.buffers);
  for (const Child& child : state.children) load(*child.state, prefix + child.name + ".", loading);
}

std::string quoted_list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "\"" : ", \"") + name + "\"";
  return text;
}

template <class F>
void for_each_tensor(const Module& m, F f) {
  std::unordered_set<const void*> seen;
  for (const auto& list : {m.parameters(), m.buffers()})
    for (const Tensor& t : list)
      if (seen.insert(t.body()).second) f(t);
}

void convert(const Tensor& t, Device device, DType dtype) {
  if (t.device() == device && t.dtype() == dtype) return;
  NoGrad no_grad;
  Tensor grad = t.grad();
  auto moved = [&](const Tensor& from) {
    Tensor plain = from.detach();
    if (plain.dtype() != dtype) plain = plain.to(dtype);
    if (plain.device() == device) return plain;
    if (plain.is_meta()) {  // nothing to copy: uninitialised memory, as torch's to_empty
      return make_tensor(plain.sizes(), dtype, device);
    }
    return plain.to(device);
  };
  replace_contents(t, moved(t));
  if (grad.defined()) t.set_grad(moved(grad));
}

}  // namespace

StateDict Module::state_dict(std::string_view prefix) const {
  StateDict out;
  collect(*state_, std::string(prefix), out);
  return out;
}

std::string size_mismatch(std::string_view name, const Tensor& given, const Tensor& wanted) {
  return fmt::format(
      "size mismatch for {}: copying a param with shape torch.Size({}) from checkpoint, the shape in current "
      "model is torch.Size({}).",
      name, tern::str(given.sizes()), tern::str(wanted.sizes()));
}

void check_loaded(std::string_view type, const LoadResult& result, std::vector<std::string> errors,
                  bool strict) {
  auto first = [&](const char* what, const std::vector<std::string>& names) {
    if (strict && !names.empty())
      errors.insert(errors.begin(), fmt::format("{} key(s) in state_dict: {}. ", what, quoted_list(names)));
  };
  first("Unexpected", result.unexpected);
  first("Missing", result.missing);
  if (errors.empty()) return;
  std::string text = fmt::format("Error(s) in loading state_dict for {}:", last_part(type));
  for (const std::string& e : errors) text += "\n\t" + e;
  fail(text);
}

LoadResult Module::load_state_dict(const StateDict& dict, bool strict) const {
  NoGrad no_grad;
  std::unordered_map<std::string_view, const Tensor*> given;
  for (const auto& [name, tensor] : dict) {
    if (!tensor.defined())
      failf(ErrorKind::value, "load_state_dict: the tensor for \"{}\" is undefined", name);
    given.emplace(name, &tensor);
  }
  Loading loading{given, {}, {}, {}};
  load(*state_, "", loading);
  for (const auto& [name, tensor] : dict)
    if (!loading.used.count(name)) loading.result.unexpected.push_back(name);
  check_loaded(state_->type, loading.result, std::move(loading.errors), strict);
  return loading.result;
}

const Module& Module::to(DType dtype) const {
  if (!is_floating(dtype) && !tern::is_complex(dtype))
    failf(ErrorKind::type,
          "nn.Module.to only accepts floating point or complex dtypes, but got desired dtype=torch.{}",
          tern::name(dtype));
  for_each_tensor(*this, [&](const Tensor& t) {
    if (t.is_floating_point() || t.is_complex()) convert(t, t.device(), dtype);
  });
  return *this;
}
const Module& Module::to(Device device) const {
  for_each_tensor(*this, [&](const Tensor& t) { convert(t, device, t.dtype()); });
  return *this;
}

void replace_contents(const Tensor& t, const Tensor& from) {
  TensorBody *to = t.body(), *source = from.body();
  to->dtype = source->dtype;
  to->device = source->device;
  to->rungs = (to->rungs & rung_autograd) | (source->rungs & ~rung_autograd);
  to->symbolic = source->symbolic;
  to->contiguous = source->contiguous;
  to->storage = source->storage;
  to->offset = source->offset;
  to->numel = source->numel;
  to->sizes = source->sizes;
  to->strides = source->strides;
  if (to->autograd) to->autograd->accumulator.reset();  // it knows the old dtype
}

}  // namespace tern::nn
