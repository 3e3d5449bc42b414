// Builtins of the interpreter that need what stands on operators: torch.autograd.grad and backward() in
// scripts, what a tensor's history says, and a few more.
#include "tern/autograd/autograd.h"
#include "tern/autograd/history.h"
#include "tern/ir/builtin_families.h"
#include "tern/ops.h"

namespace tern::ir {
namespace {

using namespace builtin;

std::vector<Tensor> tensors_of(const V& v) {
  std::vector<Tensor> all;
  if (v.is_none()) return all;
  if (v.is_tensor()) return {v.tensor()};
  for (const V& item : v.items()) all.push_back(item.is_none() ? Tensor() : item.tensor());
  return all;
}
bool flag(Args in, size_t i) { return in.size() > i && !in[i].is_none() && truth(in[i]); }
// What is kept for another run is kept by default where the gradients have history themselves.
bool retains(Args in, size_t i, bool create) {
  return in.size() > i && !in[i].is_none() ? truth(in[i]) : create;
}

}  // namespace

V builtin::run_backward(Args in) {
  need(in, 1, 4, "backward");
  bool create = flag(in, 3);
  std::vector<Tensor> outputs = tensors_of(in[0]), given = tensors_of(in.size() > 1 ? in[1] : V());
  autograd::backward(outputs, given, retains(in, 2, create), create);
  return {};
}

V builtin::retains_grad(Args in) {
  need(in, 1, 1, "retains_grad");
  const Tensor& t = in[0].tensor();
  return t.requires_grad() && !t.is_leaf() && autograd_meta(t).retains_grad;
}

V builtin::output_number(Args in) {
  need(in, 1, 1, "output_nr");
  return static_cast<int64_t>(autograd::output_number(in[0].tensor()));
}

V builtin::set_data(Args in) {
  need(in, 2, 2, "set_data");
  autograd::set_data(in[0].tensor(), in[1].tensor());
  return {};
}

V builtin::to_dense(Args in) {
  need(in, 1, 3, "to_dense");
  const Tensor& t = in[0].tensor();
  return in.size() > 1 && !in[1].is_none() ? to(t, static_cast<DType>(in[1].to_int())) : t;
}

// Its handle says nothing: nobody records here how long the block takes.
V builtin::enter_record_of_tensor(Args in) {
  need(in, 1, 2, "_record_function_enter");
  return zeros({});
}

V builtin::gradients(Args in) {
  need(in, 2, 6, "grad");
  autograd::GradOptions options;
  options.create_graph = flag(in, 4);
  options.retain_graph = retains(in, 3, options.create_graph);
  options.allow_unused = flag(in, 5);
  std::vector<Tensor> outputs = tensors_of(in[0]), inputs = tensors_of(in[1]),
                      given = tensors_of(in.size() > 2 ? in[2] : V());
  std::vector<V> all;
  for (const Tensor& g : autograd::grad(outputs, inputs, given, options)) all.emplace_back(g);
  return V::list(std::move(all), Type::optional(Type::tensor()));
}

}  // namespace tern::ir
