// From Values to Args by the schema: what the interpreter, Python and scripts call operators through.
#include <algorithm>
#include <complex>
#include <deque>
#include <memory>

#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"

namespace tern {

// Owns what the Args borrow and the Values do not: unpacked lists, numbers made into tensors.
struct Bound::Room {
  std::vector<Arg> args;
  std::deque<Tensor> tensors;
  std::deque<std::vector<Tensor>> tensor_lists;
  std::deque<Dims> int_lists;
  std::deque<std::vector<double>> float_lists;
  std::deque<std::unique_ptr<bool[]>> bool_lists;
  std::deque<std::vector<Scalar>> scalar_lists;
  std::deque<std::vector<std::string_view>> string_lists;
  std::deque<std::complex<double>> complexes;
};

namespace {

bool is_int_like(BaseType b) {
  return b == BaseType::int_ || b == BaseType::sym_int || b == BaseType::dtype || b == BaseType::layout ||
         b == BaseType::memory_format;
}

bool element_fits(BaseType base, const Value& v) {
  switch (base) {
    case BaseType::tensor:
    case BaseType::storage:  // a tensor over all of it
      return v.is_tensor() || v.is_number();
    case BaseType::int_:
    case BaseType::sym_int:
      return v.is_int() || v.is_bool() ||
             (v.is_tensor() && v.tensor().dim() == 0 && is_integral(v.tensor().dtype()));
    case BaseType::dtype:
    case BaseType::layout:
    case BaseType::memory_format:
      return v.is_int();
    case BaseType::float_:
      return v.is_float() || v.is_int() || v.is_bool();
    case BaseType::bool_:
    case BaseType::sym_bool:
      return v.is_bool() || v.is_int();
    case BaseType::complex_:
      return v.is_number();
    case BaseType::scalar:
      return v.is_number() || (v.is_tensor() && v.tensor().dim() == 0);
    case BaseType::string:
      return v.is_string();
    case BaseType::device:
      return v.kind() == ValueKind::device || v.is_string();
    case BaseType::generator:
      return v.is_object();
    default:
      return true;
  }
}

bool fits(const SchemaType& type, const Value& v) {
  if (v.is_none()) return type.accepts_none() || type.base == BaseType::any || type.base == BaseType::none;
  if (!type.list) return element_fits(type.base, v);
  if (v.is_list() || v.is_tuple()) {
    for (const Value& item : v.items())
      if (item.is_none() ? !type.element_optional : !element_fits(type.base, item)) return false;
    return true;
  }
  return type.fixed_size && element_fits(type.base, v);
}

SymInt as_int(const Value& v) {
  if (v.is_tensor()) return read_scalar(v.tensor()).to_int();
  return v.sym();
}

// The value for each schema argument, or nullptr; throws or reports when the call does not fit.
bool assign(const Schema& schema, Span<const Value> positional, Span<const std::pair<Symbol, Value>> keywords,
            std::vector<const Value*>& slots, std::string* why, bool in_order = false) {
  slots.assign(schema.args.size(), nullptr);
  auto refuse = [&](std::string text) {
    if (why) *why = std::move(text);
    return false;
  };
  size_t positions = 0;
  for (const SchemaArg& a : schema.args) positions += in_order || !a.keyword_only;
  if (positional.size() > positions)
    return refuse(
        fmt::format("takes {} positional arguments but {} were given", positions, positional.size()));
  for (size_t i = 0; i < positional.size(); ++i) slots[i] = &positional[i];
  for (const auto& [name, value] : keywords) {
    int at = schema.find(name);
    if (at < 0 && name == Symbol("input")) at = schema.find("self");  // torch.add(input=x)
    if (at < 0) return refuse(fmt::format("got an unexpected keyword argument '{}'", name.view()));
    if (slots[at]) return refuse(fmt::format("got multiple values for argument '{}'", name.view()));
    slots[at] = &value;
  }
  for (size_t i = 0; i < slots.size(); ++i) {
    const SchemaArg& a = schema.args[i];
    if (!slots[i]) {
      if (!a.default_value && !a.type.accepts_none())
        return refuse(fmt::format("missing value for argument '{}'", a.name.view()));
      continue;
    }
    if (!fits(a.type, *slots[i]))
      return refuse(fmt::format("argument '{}' must be {}, not {}", a.name.view(), a.type.str(),
                                slots[i]->kind_name()));
  }
  return true;
}

}  // namespace

bool matches(const Schema& schema, Span<const Value> positional,
             Span<const std::pair<Symbol, Value>> keywords) {
  std::vector<const Value*> slots;
  return assign(schema, positional, keywords, slots, nullptr);
}

const Op& resolve(Span<const Op* const> candidates, Span<const Value> positional,
                  Span<const std::pair<Symbol, Value>> keywords) {
  if (candidates.empty()) fail(ErrorKind::not_supported, "no such operator");
  std::string reasons;
  for (const Op* op : candidates) {
    std::vector<const Value*> slots;
    std::string why;
    if (assign(op->schema(), positional, keywords, slots, &why)) return *op;
    reasons += fmt::format("\n  {}: {}", op->schema().str(), why);
  }
  failf(ErrorKind::type, "{}(): no overload takes these arguments:{}", candidates[0]->schema().name.view(),
        reasons);
}

Bound::Bound(const Op& op, Span<const Value> positional, Span<const std::pair<Symbol, Value>> keywords)
    : room_(nullptr) {
  const Schema& schema = op.schema();
  std::vector<const Value*> slots;
  std::string why;
  if (!assign(schema, positional, keywords, slots, &why, keywords.empty()))
    failf(ErrorKind::type, "{}(): {}\n  {}", schema.qualified(), why, schema.str());
  auto room = new_owned<Room>();
  room->args.resize(schema.args.size());
  for (size_t i = 0; i < slots.size(); ++i) {
    const SchemaArg& a = schema.args[i];
    const Value* v = slots[i] ? slots[i] : a.default_value ? &*a.default_value : nullptr;
    Arg& arg = room->args[i];
    if (!v || v->is_none()) continue;
    BaseType base = a.type.base;
    if (a.type.list) {
      std::vector<Value> repeated;
      if (!v->is_list() && !v->is_tuple()) repeated.assign(std::max(a.type.fixed_size, 1), *v);
      const std::vector<Value>& items = repeated.empty() ? v->items() : repeated;
      if (base == BaseType::tensor) {
        std::vector<Tensor>& list = room->tensor_lists.emplace_back();
        for (const Value& item : items)
          list.push_back(item.is_number() ? wrap_number(item.scalar()) : item.tensor());
        arg = Span<const Tensor>(list);
      } else if (is_int_like(base)) {
        Dims& list = room->int_lists.emplace_back();
        for (const Value& item : items)
          list.push_back(base == BaseType::int_ ? SymInt(as_int(item).guard_int()) : as_int(item));
        arg = Span<const SymInt>(list);
      } else if (base == BaseType::float_) {
        std::vector<double>& list = room->float_lists.emplace_back();
        for (const Value& item : items) list.push_back(item.to_double());
        arg = Span<const double>(list);
      } else if (base == BaseType::bool_) {
        auto& list = room->bool_lists.emplace_back(new bool[items.size() + 1]);
        for (size_t k = 0; k < items.size(); ++k) list[k] = items[k].sym().guard_int() != 0;
        arg = Span<const bool>(list.get(), items.size());
      } else if (base == BaseType::scalar) {
        std::vector<Scalar>& list = room->scalar_lists.emplace_back();
        for (const Value& item : items) list.push_back(item.scalar());
        arg = Span<const Scalar>(list);
      } else if (base == BaseType::string) {
        std::vector<std::string_view>& list = room->string_lists.emplace_back();
        for (const Value& item : items) list.push_back(item.string());
        arg = Span<const std::string_view>(list);
      } else {
        arg = Arg(v);
      }
      continue;
    }
    switch (base) {
      case BaseType::tensor:
      case BaseType::storage:
        arg = v->is_number() ? Arg(room->tensors.emplace_back(wrap_number(v->scalar()))) : Arg(v->tensor());
        break;
      case BaseType::int_:
        arg = Arg(as_int(*v).guard_int());
        break;
      case BaseType::sym_int:
        arg = Arg(as_int(*v));
        break;
      case BaseType::dtype:
      case BaseType::layout:
      case BaseType::memory_format:
        arg = Arg(v->sym());
        break;
      case BaseType::float_:
        arg = Arg(v->to_double());
        break;
      case BaseType::bool_:
      case BaseType::sym_bool:
        arg = Arg(v->sym().guard_int() != 0);
        break;
      case BaseType::complex_:
      case BaseType::scalar: {
        Scalar s = v->is_tensor() ? read_scalar(v->tensor()) : v->scalar();
        arg = s.is_complex() ? Arg(room->complexes.emplace_back(s.to_complex())) : Arg(s);
        break;
      }
      case BaseType::string:
        arg = Arg(std::string_view(v->string()));
        break;
      case BaseType::device: {
        if (v->is_string()) {
          auto d = Device::parse(v->string());
          if (!d)
            failf("Expected one of cpu, cuda, mps, xpu, meta device type at start of device string: {}",
                  v->string());
          arg = Arg(*d);
        } else {
          arg = Arg(v->device());
        }
        break;
      }
      case BaseType::generator: {
        auto* box = dynamic_cast<GeneratorBox*>(v->box());
        if (!box)
          failf(ErrorKind::type, "{}(): argument '{}' must be a Generator", schema.qualified(),
                a.name.view());
        arg = Arg(&box->generator);
        break;
      }
      default:
        arg = Arg(v);
    }
  }
  room_ = room.release();
}

Bound::~Bound() { delete room_; }
const Arg* Bound::args() const { return room_->args.data(); }

}  // namespace tern
