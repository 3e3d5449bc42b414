// Arguments, constants and the descriptions of values in the JSON of the .pt2 schema.
#include <complex>

#include "tern/base/format.h"
#include "tern/export/pt2_schema.h"
#include "tern/export/pt2_write.h"

namespace tern::pt2 {

void ValueWriter::value_argument(const ir::Value& v) {
  switch (v.type()->kind()) {
    case ir::TypeKind::int_:
      return one("as_sym_int", [&] { one_value("as_name", v.name()); });
    case ir::TypeKind::bool_:
      return one("as_sym_bool", [&] { one_value("as_name", v.name()); });
    case ir::TypeKind::float_:
      return one("as_sym_float", [&] { one_value("as_name", v.name()); });
    case ir::TypeKind::none:
      return one_value("as_none", true);
    default:
      return one("as_tensor", [&] { named(v.name()); });
  }
}

void ValueWriter::argument(const ir::Operand& o, const SchemaType* type) {
  if (o.is_value()) return value_argument(o.value());
  if (o.is_list()) {
    std::vector<const ir::Operand*> items;
    for (const ir::Operand& item : o.list()) items.push_back(&item);
    return operand_list(items);
  }
  constant_argument(o.constant(), type);
}

void ValueWriter::operand_list(const std::vector<const ir::Operand*>& items) {
  bool tensors = false, none = false, bools = false, floats = false;
  for (const ir::Operand* o : items) {
    tensors |= o->is_value() && o->value().type()->is_tensor();
    none |= o->is_none();
    bools |= o->is_value() && o->value().type()->is(ir::TypeKind::bool_);
    floats |= (o->is_value() && o->value().type()->is(ir::TypeKind::float_)) ||
              (o->is_constant() && o->constant().is_float());
  }
  if (items.empty()) return one("as_tensors", [&] { empty_array(); });
  if (tensors && none)
    return one("as_optional_tensors", [&] {
      w_.begin_array();
      for (const ir::Operand* o : items) {
        if (o->is_none())
          one_value("as_none", true);
        else
          one("as_tensor", [&] { named(o->value().name()); });
      }
      w_.end_array();
    });
  if (tensors)
    return one("as_tensors", [&] {
      w_.begin_array();
      for (const ir::Operand* o : items) {
        if (!o->is_value() || !o->value().type()->is_tensor())
          fail(ErrorKind::not_supported, "a .pt2 file cannot hold a list of tensors and numbers");
        named(o->value().name());
      }
      w_.end_array();
    });
  std::string_view key = bools ? "as_sym_bools" : floats ? "as_sym_floats" : "as_sym_ints";
  std::string_view literal = bools ? "as_bool" : floats ? "as_float" : "as_int";
  one(key, [&] {
    w_.begin_array();
    for (const ir::Operand* o : items) {
      if (o->is_value())
        one_value("as_name", o->value().name());
      else if (bools)
        one_value(literal, o->constant().to_bool());
      else if (floats)
        one_value(literal, o->constant().to_double());
      else
        one_value(literal, o->constant().to_int());
    }
    w_.end_array();
  });
}

void ValueWriter::constant_argument(const Value& v, const SchemaType* type) {
  BaseType base = type ? type->base : BaseType::any;
  switch (v.kind()) {
    case ValueKind::none:
      return one_value("as_none", true);
    case ValueKind::bool_:
      return one_value("as_bool", v.to_bool());
    case ValueKind::float_:
      return one_value("as_float", v.to_double());
    case ValueKind::string:
      return one_value("as_string", v.string());
    case ValueKind::int_:
      if (base == BaseType::dtype)
        return one_value("as_scalar_type", scalar_type(static_cast<DType>(v.to_int())));
      if (base == BaseType::memory_format)
        return one_value("as_memory_format", memory_format(static_cast<MemoryFormat>(v.to_int())));
      if (base == BaseType::layout) return one_value("as_layout", strided_layout);
      if (base == BaseType::float_) return one_value("as_float", v.to_double());
      return one_value("as_int", v.to_int());
    case ValueKind::complex_:
      return one("as_complex", [&] {
        std::complex<double> c = v.scalar().to_complex();
        w_.begin_object();
        w_.member("real", c.real());
        w_.member("imag", c.imag());
        w_.end_object();
      });
    case ValueKind::device:
      return one("as_device", [&] { device(v.device()); });
    case ValueKind::list:
    case ValueKind::tuple:
      return constant_list(v, base);
    case ValueKind::tensor:
      fail(ErrorKind::not_supported, "a tensor constant inside the graph: lift it to an input before saving");
    default:
      failf(ErrorKind::not_supported, "a .pt2 file cannot hold a {}", v.kind_name());
  }
}

void ValueWriter::constant_list(const Value& v, BaseType base) {
  const std::vector<Value>& items = v.items();
  auto all = [&](auto&& is) {
    for (const Value& item : items)
      if (!is(item)) return false;
    return true;
  };
  auto write_all = [&](std::string_view key, auto&& put) {
    one(key, [&] {
      w_.begin_array();
      for (const Value& item : items) put(item);
      w_.end_array();
    });
  };
  if (items.empty()) {
    std::string_view key = base == BaseType::tensor   ? "as_tensors"
                           : base == BaseType::float_ ? "as_floats"
                           : base == BaseType::bool_  ? "as_bools"
                                                      : "as_ints";
    return one(key, [&] { empty_array(); });
  }
  if (base == BaseType::float_)
    return write_all("as_floats", [&](const Value& i) { w_.value(i.to_double()); });
  if (all([](const Value& i) { return i.is_int(); }))
    return write_all("as_ints", [&](const Value& i) { w_.value(i.to_int()); });
  if (all([](const Value& i) { return i.is_bool(); }))
    return write_all("as_bools", [&](const Value& i) { w_.value(i.to_bool()); });
  if (all([](const Value& i) { return i.is_float() || i.is_int(); }))
    return write_all("as_floats", [&](const Value& i) { w_.value(i.to_double()); });
  if (all([](const Value& i) { return i.is_string(); }))
    return write_all("as_strings", [&](const Value& i) { w_.value(i.string()); });
  if (all([](const Value& i) { return i.is_none(); }))
    return write_all("as_optional_tensors", [&](const Value&) { one_value("as_none", true); });
  if (all([](const Value& i) { return i.is_list(); }))
    return write_all("as_int_lists", [&](const Value& i) {
      w_.begin_array();
      for (const Value& n : i.items()) w_.value(n.to_int());
      w_.end_array();
    });
  failf(ErrorKind::not_supported, "a .pt2 file cannot hold the list {}", v.str());
}

void ValueWriter::device(Device d) {
  w_.begin_object();
  w_.member("type", d.str().substr(0, d.str().find(':')));
  w_.key("index");
  if (d.index < 0)
    w_.null();
  else
    w_.value(static_cast<int64_t>(d.index));
  w_.end_object();
}

void ValueWriter::tensor_meta(const ir::Type& type) {
  if (!type.has_sizes())
    fail(ErrorKind::not_supported, "a tensor without known sizes cannot be written to a .pt2 file");
  w_.begin_object();
  w_.member("dtype", scalar_type(type.dtype()));
  w_.key("sizes");
  dims(type.sizes());
  w_.member("requires_grad", type.requires_grad().value_or(false));
  w_.key("device");
  device(type.device().value_or(kCPU));
  w_.key("strides");
  if (type.has_strides())
    dims(type.strides());
  else
    dims(contiguous_strides(type.sizes()));
  w_.key("storage_offset");
  one_value("as_int", 0);
  w_.member("layout", strided_layout);
  w_.end_object();
}
void ValueWriter::dims(Span<const SymInt> all) {
  w_.begin_array();
  for (SymInt s : all) sym_int(s);
  w_.end_array();
}
void ValueWriter::sym_int(SymInt s) {
  if (s.is_int())
    one_value("as_int", s.as_int());
  else
    sym_expr("as_int", s);
}
void ValueWriter::sym_expr(std::string_view hint_key, SymInt s) {
  if (s.is_int() && hint_key == "as_bool") return one_value("as_bool", s.as_int() != 0);
  one("as_expr", [&] {
    w_.begin_object();
    w_.member("expr_str", shapes_->str(s));
    w_.key("hint");
    if (hint_key == "as_float") {
      if (std::optional<double> hint = shapes_->real_hint(s))
        one_value(hint_key, *hint);
      else
        w_.null();
      return w_.end_object();
    }
    std::optional<int64_t> hint = shapes_->is_unbacked(s) ? std::nullopt : shapes_->hint(s);
    if (!hint)
      w_.null();
    else if (hint_key == "as_bool")
      one_value(hint_key, *hint != 0);
    else
      one_value(hint_key, *hint);
    w_.end_object();
  });
}

}  // namespace tern::pt2
