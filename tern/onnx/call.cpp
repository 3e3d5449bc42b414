// Call: reading arguments and emitting nodes, for the functions that lower one operator.
#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/onnx/driver.h"

namespace tern::onnx {

int Call::opset() const { return driver_.opset(); }

namespace {

std::string argument_name(const ir::Node& node, size_t i) {
  if (node.op() && i < node.op()->schema().args.size())
    return "argument '" + node.op()->schema().args[i].name.str() + "'";
  return fmt::format("argument {}", i);
}

}  // namespace

bool Call::is_none(size_t i) const { return i >= size() || driver_.slot(node_.input(i)).is_none(); }

bool Call::is_constant(size_t i) const {
  if (i >= size()) return true;
  Slot s = driver_.slot(node_.input(i));
  if (s.is_constant()) return !(s.constant.is_int() && s.constant.sym().is_symbolic());
  return false;
}

Ref Call::tensor(size_t i) {
  if (i >= size()) return {};
  Slot s = driver_.slot(node_.input(i));
  Ref r = driver_.ref(s, argument_name(node_, i));
  const ir::Type* t = node_.input(i).type();
  if (t && t->is_tensor() && r.rank < 0 && t->has_sizes()) r.rank = static_cast<int>(t->sizes().size());
  // A size that the graph computes has one dimension; as a number it must add none.
  if (t && (t->is(ir::TypeKind::int_) || t->is(ir::TypeKind::float_)) && r.rank == 1)
    r = driver_.as_scalar({0, r});
  return r;
}

std::vector<Ref> Call::tensors(size_t i) {
  Slot s = driver_.slot(node_.input(i));
  std::vector<Ref> refs;
  if (s.kind == Slot::Kind::list) {
    for (const Slot& item : s.items) refs.push_back(driver_.ref(item, argument_name(node_, i)));
  } else if (s.is_constant() && (s.constant.is_list() || s.constant.is_tuple())) {
    for (const tern::Value& item : s.constant.items())
      refs.push_back(driver_.ref(Slot::of(item), argument_name(node_, i)));
  } else {
    refuse(argument_name(node_, i) + " is a list whose length is not known");
  }
  return refs;
}

namespace {

[[noreturn]] void not_constant(const Call& call, size_t i) {
  call.refuse(argument_name(call.node(), i) + " must be a constant, but is computed by the model");
}

}  // namespace

int64_t Call::integer(size_t i) const {
  if (i >= size()) refuse(argument_name(node_, i) + " is missing");
  Slot s = driver_.slot(node_.input(i));
  if (!is_constant(i)) not_constant(*this, i);
  if (s.constant.is_bool()) return s.constant.to_bool();
  return s.constant.is_int() ? s.constant.to_int() : s.constant.scalar().to_int();
}

double Call::number(size_t i) const { return scalar(i).to_double(); }

bool Call::flag(size_t i) const {
  if (i >= size()) return false;
  Slot s = driver_.slot(node_.input(i));
  if (!s.is_constant()) not_constant(*this, i);
  return s.constant.is_int() ? s.constant.to_int() != 0 : s.constant.to_bool();
}

std::string Call::text(size_t i) const {
  if (i >= size()) return {};
  Slot s = driver_.slot(node_.input(i));
  if (!s.is_constant()) not_constant(*this, i);
  return s.constant.is_none() ? std::string() : s.constant.string();
}

std::vector<int64_t> Call::ints(size_t i) const {
  std::vector<int64_t> out;
  if (i >= size()) return out;
  Slot s = driver_.slot(node_.input(i));
  if (s.kind == Slot::Kind::list) {
    for (const Slot& item : s.items) {
      if (!item.is_constant() || !item.constant.is_int() || item.constant.sym().is_symbolic())
        not_constant(*this, i);
      out.push_back(item.constant.to_int());
    }
    return out;
  }
  if (!s.is_constant()) not_constant(*this, i);
  if (s.constant.is_none()) return out;
  if (s.constant.is_int()) return {s.constant.to_int()};
  for (const tern::Value& v : s.constant.items()) {
    if (v.is_int() && v.sym().is_symbolic()) not_constant(*this, i);
    out.push_back(v.is_bool() ? v.to_bool() : v.to_int());
  }
  return out;
}

Scalar Call::scalar(size_t i) const {
  Slot s = driver_.slot(node_.input(i));
  if (!is_constant(i)) not_constant(*this, i);
  if (s.constant.is_tensor()) return s.constant.tensor().item(Loc{});
  return s.constant.scalar();
}

Size Call::extent(size_t i) { return driver_.size(driver_.slot(node_.input(i))); }

std::vector<Size> Call::extents(size_t i) {
  std::vector<Size> out;
  if (i >= size()) return out;
  Slot s = driver_.slot(node_.input(i));
  if (s.kind == Slot::Kind::list) {
    for (const Slot& item : s.items) out.push_back(driver_.size(item));
  } else if (s.is_constant() && s.constant.is_int()) {
    out.push_back(driver_.size(s));
  } else if (s.is_constant() && !s.constant.is_none()) {
    for (const tern::Value& v : s.constant.items()) out.push_back(driver_.size(Slot::of(v)));
  } else if (!s.is_constant()) {
    refuse(argument_name(node_, i) + " is a list whose length is not known");
  }
  return out;
}

DType Call::dtype_argument(size_t i) const {
  if (is_none(i)) return DType::undefined;
  return static_cast<DType>(integer(i));
}

const ir::Type* Call::type(size_t i) const {
  const ir::Type* t = i < size() ? node_.input(i).type() : nullptr;
  return t && t->is_tensor() ? t : ir::Type::tensor();
}

int64_t Call::rank(size_t i) {
  if (type(i)->has_sizes()) return static_cast<int64_t>(type(i)->sizes().size());
  Ref r = tensor(i);
  if (r.rank >= 0) return r.rank;
  refuse(argument_name(node_, i) + " has an unknown number of dimensions; give the graph's inputs sizes");
}

std::optional<int64_t> Call::dim(size_t i, int64_t d) {
  const ir::Type* t = type(i);
  if (!t->has_sizes()) return std::nullopt;
  int64_t n = static_cast<int64_t>(t->sizes().size());
  if (d < 0) d += n;
  if (d < 0 || d >= n) return std::nullopt;
  SymInt s = t->sizes()[static_cast<size_t>(d)];
  if (auto known = s.maybe_int(); known && *known >= 0) return known;
  return std::nullopt;
}

int64_t Call::axis(size_t i, size_t tensor) {
  int64_t d = integer(i);
  if (d >= 0) return d;
  return std::max<int64_t>(0, d + std::max<int64_t>(1, rank(tensor)));
}

const ir::Type* Call::result_type(size_t k) const {
  const ir::Type* t = k < node_.num_outputs() ? node_.output(k).type() : nullptr;
  return t && t->is_tensor() ? t : ir::Type::tensor();
}

DType Call::dtype() const { return result_type()->dtype(); }

std::vector<Size> Call::result_extents(size_t k) {
  const ir::Type* t = result_type(k);
  if (!t->has_sizes()) refuse("the sizes of the result are not known; give the graph's inputs sizes");
  std::vector<Size> out;
  for (SymInt s : t->sizes()) {
    if (s.is_int() && s.as_int() < 0)
      refuse("a size of the result is not known; give the graph's inputs sizes");
    out.push_back(driver_.size(s));
  }
  return out;
}

Ref Call::emit(std::string_view op, Inputs inputs, Attributes attributes, DType dtype) {
  return driver_.emit(op, inputs, std::move(attributes), 1, dtype)[0];
}

std::vector<Ref> Call::emit_many(std::string_view op, Inputs inputs, Attributes attributes, size_t outputs) {
  return driver_.emit(op, inputs, std::move(attributes), outputs, DType::undefined);
}

Ref Call::cast(const Ref& value, DType dtype) {
  if (value.dtype == dtype || dtype == DType::undefined) return value;
  Ref r = emit("Cast", {value}, {Attribute::of("to", static_cast<int64_t>(data_type_of(dtype)))}, dtype);
  r.rank = value.rank;
  return r;
}

Ref Call::constant(const Tensor& value) { return driver_.initializer(value); }

Ref Call::constant(Span<const int64_t> values) {
  return driver_.initializer(from_vector(values.vec(), {static_cast<int64_t>(values.size())}));
}

Ref Call::constant(const Scalar& value, DType dtype, bool vector) {
  Tensor t = tern::tensor(value, {.dtype = dtype});
  if (vector) t = t.as_view({1}, {1});
  return driver_.initializer(t);
}

Ref Call::shape(const Ref& value) {
  Ref r = emit("Shape", {value}, {}, DType::int64);
  r.rank = 1;
  return r;
}

Ref Call::size_of(const Ref& value, int64_t d) {
  Attributes at = {Attribute::of("start", d)};
  if (d != -1) at.push_back(Attribute::of("end", d + 1));
  Ref r = emit("Shape", {value}, std::move(at), DType::int64);
  r.rank = 1;
  return r;
}

Ref Call::as_vector(const Size& s) { return driver_.as_vector(s); }
Ref Call::as_scalar(const Size& s) { return driver_.as_scalar(s); }

Ref Call::join(Span<const Size> sizes) {
  bool all_static = true;
  for (const Size& s : sizes) all_static = all_static && s.is_static();
  if (all_static) {
    std::vector<int64_t> values;
    for (const Size& s : sizes) values.push_back(s.value);
    return constant(values);
  }
  if (sizes.size() == 1) return as_vector(sizes[0]);
  Inputs parts;
  std::vector<int64_t> run;
  auto flush = [&] {
    if (!run.empty()) parts.push_back(constant(run));
    run.clear();
  };
  for (const Size& s : sizes) {
    if (s.is_static()) {
      run.push_back(s.value);
    } else {
      flush();
      parts.push_back(as_vector(s));
    }
  }
  flush();
  Ref r = emit("Concat", std::move(parts), {Attribute::of("axis", int64_t{0})}, DType::int64);
  r.rank = 1;
  return r;
}

Ref Call::reshape(const Ref& value, std::vector<Size> sizes) {
  size_t dynamic = 0;
  bool zero = false, inferred = false;
  for (const Size& s : sizes) {
    dynamic += !s.is_static();
    zero = zero || (s.is_static() && s.value == 0);
    inferred = inferred || (s.is_static() && s.value == -1);
  }
  if (dynamic == 1 && !inferred && !zero)
    for (Size& s : sizes)
      if (!s.is_static()) s = {-1};
  Attributes at;
  // In Reshape 0 copies the input's size; with allowzero it means what it says, but then -1 is not allowed
  // beside it.
  if ((zero || dynamic > 1) && !inferred) at.push_back(Attribute::of("allowzero", int64_t{1}));
  Ref r = emit("Reshape", {value, join(sizes)}, std::move(at));
  r.rank = static_cast<int>(sizes.size());
  return r;
}

Ref Call::squeeze(const Ref& value, std::vector<int64_t> axes) {
  return emit("Squeeze", {value, constant(axes)});
}
Ref Call::unsqueeze(const Ref& value, std::vector<int64_t> axes) {
  return emit("Unsqueeze", {value, constant(axes)});
}
Ref Call::transpose(const Ref& value, std::vector<int64_t> perm) {
  return emit("Transpose", {value}, {Attribute::of("perm", std::move(perm))});
}

void Call::set(const Ref& value, size_t k) {
  if (k < node_.num_outputs()) driver_.bind(node_.output(k), Slot::of(value));
}

void Call::set_list(std::vector<Ref> values, size_t k) {
  std::vector<Slot> items;
  for (Ref& r : values) items.push_back(Slot::of(std::move(r)));
  driver_.bind(node_.output(k), Slot::list(std::move(items)));
}

void Call::set_size(const Size& s, size_t k) {
  driver_.bind(node_.output(k), s.is_static() ? Slot::of(tern::Value(s.value)) : Slot::of(s.ref));
}

void Call::refuse(std::string_view why) const { driver_.refuse(node_, why); }

}  // namespace tern::onnx
