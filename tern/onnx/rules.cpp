// The rules of the operator table: parsing and applying `Op(args) if condition` (the language is described in
// lower.h).
#include <charconv>

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/onnx/driver.h"

namespace tern::onnx {

namespace {

struct Expr {
  enum class Kind : uint8_t { call, name, number, text, list, none } kind = Kind::none;
  std::string text = {};  // of a call, a name, a string
  tern::Value number = {};
  std::vector<Expr> args = {};
  std::vector<std::pair<std::string, Expr>> attributes = {};
};

// A condition's value; nothing where an argument is not known now.
using Known = std::optional<tern::Value>;

class RuleParser {
 public:
  RuleParser(std::string_view text, std::string_view where) : text_(text), where_(where) {}

  Expr expression() {
    char c = peek();
    if (c == '[') {
      Expr list{.kind = Expr::Kind::list};
      take('[');
      while (peek() != ']') {
        list.args.push_back(expression());
        if (peek() != ']') take(',');
      }
      take(']');
      return list;
    }
    if (c == '"' || c == '\'') return {.kind = Expr::Kind::text, .text = quoted()};
    if (c == '-' || c == '.' || (c >= '0' && c <= '9'))
      return {.kind = Expr::Kind::number, .number = number()};
    std::string name = identifier();
    if (name == "None") return {};
    if (name == "true" || name == "True") return {.kind = Expr::Kind::number, .number = tern::Value(true)};
    if (name == "false" || name == "False") return {.kind = Expr::Kind::number, .number = tern::Value(false)};
    if (peek() != '(') return {.kind = Expr::Kind::name, .text = std::move(name)};
    Expr call{.kind = Expr::Kind::call, .text = std::move(name)};
    take('(');
    while (peek() != ')') {
      size_t start = at_;
      if (is_word(peek())) {
        std::string key = identifier();
        if (peek() == '=' && at_ + 1 < text_.size() && text_[at_ + 1] != '=') {
          take('=');
          call.attributes.emplace_back(std::move(key), expression());
          if (peek() != ')') take(',');
          continue;
        }
        at_ = start;
      }
      call.args.push_back(expression());
      if (peek() != ')') take(',');
    }
    take(')');
    return call;
  }

  bool word(std::string_view w) {
    peek();
    if (text_.substr(at_, w.size()) != w) return false;
    if (at_ + w.size() < text_.size() && is_word(text_[at_ + w.size()])) return false;
    at_ += w.size();
    return true;
  }
  std::string_view comparison() {
    peek();
    for (std::string_view op : {"==", "!=", "<=", ">=", "<", ">"})
      if (text_.substr(at_, op.size()) == op) {
        at_ += op.size();
        return op;
      }
    return {};
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void take(char c) {
    if (!accept(c)) bad(fmt::format("expected '{}'", c));
  }
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  [[noreturn]] void bad(std::string_view what) const {
    failf(ErrorKind::value, "{}: the ONNX rule \"{}\" is wrong at column {}: {}", where_, text_, at_ + 1,
          what);
  }

 private:
  static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }
  std::string identifier() {
    peek();
    size_t start = at_;
    while (at_ < text_.size() &&
           (is_word(text_[at_]) || (at_ > start && (text_[at_] == '.' || text_[at_] == ':'))))
      ++at_;
    if (at_ == start) bad("expected a name");
    return std::string(text_.substr(start, at_ - start));
  }
  std::string quoted() {
    char end = peek();
    size_t close = text_.find(end, at_ + 1);
    if (close == std::string_view::npos) bad("the string does not end");
    std::string s(text_.substr(at_ + 1, close - at_ - 1));
    at_ = close + 1;
    return s;
  }
  tern::Value number() {
    size_t end = at_ + (text_[at_] == '-');
    bool real = false;
    while (end < text_.size() && (is_word(text_[end]) || text_[end] == '.' ||
                                  (text_[end] == '-' && (text_[end - 1] == 'e' || text_[end - 1] == 'E')))) {
      real = real || text_[end] == '.' || text_[end] == 'e';
      ++end;
    }
    std::string_view t = text_.substr(at_, end - at_);
    at_ = end;
    if (real) {
      double d = 0;
      if (std::from_chars(t.data(), t.data() + t.size(), d).ec != std::errc()) bad("this is no number");
      return d;
    }
    int64_t i = 0;
    auto [stop, error] = std::from_chars(t.data(), t.data() + t.size(), i);
    if (error != std::errc() || stop != t.data() + t.size()) bad("this is no number");
    return i;
  }

  std::string_view text_, where_;
  size_t at_ = 0;
};

class Rule {
 public:
  Rule(Driver& driver, Call& call, const Op& op)
      : driver_(driver), call_(call), op_(op), schema_(op.schema()) {}

  bool condition(RuleParser& p) { return any(p); }
  Ref value(const Expr& call);
  void prepare(const Expr& root);

 private:
  bool any(RuleParser& p) {
    bool v = all(p);
    while (p.word("or")) v = all(p) || v;
    return v;
  }
  bool all(RuleParser& p) {
    bool v = one(p);
    while (p.word("and")) v = one(p) && v;
    return v;
  }
  bool one(RuleParser& p) {
    if (p.word("not")) return !one(p);
    if (p.accept('(')) {
      bool v = any(p);
      p.take(')');
      return v;
    }
    Known left = known(p.expression(), p);
    std::string_view op = p.comparison();
    if (op.empty()) return left && left->kind() != ValueKind::none && left->is_bool() && left->to_bool();
    Known right = known(p.expression(), p);
    if (!left || !right) return false;
    if (op == "==") return left->equals(*right);
    if (op == "!=") return !left->equals(*right);
    if (!left->is_number() || !right->is_number()) return false;
    double a = left->to_double(), b = right->to_double();
    return op == "<" ? a < b : op == "<=" ? a <= b : op == ">" ? a > b : a >= b;
  }
  Known known(const Expr& e, RuleParser& p);
  int argument(const std::string& name) const { return schema_.find(Symbol(name)); }
  bool is_tensor(int i) const { return schema_.args[static_cast<size_t>(i)].type.base == BaseType::tensor; }
  DType dtype_of_argument(int i) {
    if (op_.is(op_pointwise) && common_ != DType::undefined && !(op_.is(op_condition) && i == 0))
      return common_;
    return call_.tensor(static_cast<size_t>(i)).dtype;
  }
  Ref tensor(int i);
  Attribute attribute(const std::string& name, const Expr& e);
  DType promoted();

  Driver& driver_;
  Call& call_;
  const Op& op_;
  const Schema& schema_;
  DType common_ = DType::undefined;  // what tensors of a pointwise operator are cast to
  DType first_ = DType::undefined;   // what the first tensor of another operator is cast to
};

bool keeps_dtype(std::string_view op) {
  return op.starts_with("Reduce") || op == "Softmax" || op == "LogSoftmax" || op == "CumSum" ||
         op == "Concat" || op == "MatMul" || op == "Gemm";
}

DType Rule::promoted() {
  // PyTorch's categories: tensors with dims, tensors without, numbers; a later one counts only if its kind is
  // higher.
  DType by[3] = {DType::undefined, DType::undefined, DType::undefined};
  auto note = [&](int category, DType d) {
    if (d == DType::undefined) return;
    by[category] = by[category] == DType::undefined ? d : promote(by[category], d);
  };
  for (size_t i = op_.is(op_condition) ? 1 : 0; i < call_.size() && i < schema_.args.size(); ++i) {
    BaseType base = schema_.args[i].type.base;
    bool list = schema_.args[i].type.list;
    if (list || call_.is_none(i)) continue;
    Slot s = driver_.slot(call_.node().input(i));
    if (base == BaseType::tensor) {
      if (s.is_constant() && !s.constant.is_tensor())
        note(2, s.constant.scalar().dtype());
      else {
        Ref r = driver_.ref(s, "argument");
        bool number = s.is_constant() && s.constant.tensor().body()->wrapped_number;
        note(number ? 2 : r.rank == 0 ? 1 : 0, r.dtype);
      }
    } else if (base == BaseType::scalar && (op_.is(op_scalars) || op_.is(op_bool))) {
      if (s.is_constant()) note(2, s.constant.scalar().dtype());
    }
  }
  auto kind = [](DType d) { return is_complex(d) ? 3 : is_floating(d) ? 2 : d == DType::bool_ ? 0 : 1; };
  DType result = by[0];
  for (int c = 1; c < 3; ++c) {
    if (by[c] == DType::undefined) continue;
    if (result == DType::undefined)
      result = by[c];
    else if (kind(by[c]) > kind(result))
      result = c == 2 && kind(by[c]) == 2 ? default_dtype() : promote(result, by[c]);
  }
  return result;
}

void Rule::prepare(const Expr& root) {
  if (op_.is(op_pointwise)) {
    common_ = call_.dtype();
    if (common_ == DType::undefined || op_.is(op_bool)) common_ = promoted();
    if (op_.is(op_float) && common_ != DType::undefined && is_integral(common_, true))
      common_ = default_dtype();
  } else if (keeps_dtype(root.text)) {
    first_ = call_.dtype();
  }
}

Known Rule::known(const Expr& e, RuleParser& p) {
  switch (e.kind) {
    case Expr::Kind::none:
      return tern::Value();
    case Expr::Kind::number:
      return e.number;
    case Expr::Kind::text:
      return tern::Value(e.text);
    case Expr::Kind::list: {
      std::vector<tern::Value> items;
      for (const Expr& item : e.args) {
        Known k = known(item, p);
        if (!k) return std::nullopt;
        items.push_back(*k);
      }
      return tern::Value::list(std::move(items));
    }
    case Expr::Kind::name: {
      if (e.text == "opset") return tern::Value(driver_.opset());
      int i = argument(e.text);
      if (i < 0) p.bad("the operator has no argument '" + e.text + "'");
      Slot s = driver_.slot(call_.node().input(static_cast<size_t>(i)));
      if (s.is_constant()) return s.constant;
      return std::nullopt;
    }
    case Expr::Kind::call:
      break;
  }
  if (e.args.size() != 1 || e.args[0].kind != Expr::Kind::name)
    p.bad(e.text + " takes the name of one argument");
  int i = argument(e.args[0].text);
  if (i < 0) p.bad("the operator has no argument '" + e.args[0].text + "'");
  size_t at = static_cast<size_t>(i);
  if (e.text == "is_none") return tern::Value(call_.is_none(at));
  if (e.text == "rank") {
    Ref r = call_.tensor(at);
    if (r.rank < 0) return std::nullopt;
    return tern::Value(r.rank);
  }
  DType d = dtype_of_argument(i);
  if (e.text == "is_bool") return tern::Value(d == DType::bool_);
  if (e.text == "is_integer") return tern::Value(d != DType::undefined && is_integral(d, false));
  if (e.text == "is_float") return tern::Value(d != DType::undefined && is_floating(d));
  if (e.text == "is_complex") return tern::Value(d != DType::undefined && is_complex(d));
  p.bad("there is no condition '" + e.text + "'");
}

Ref Rule::tensor(int i) {
  size_t at = static_cast<size_t>(i);
  bool is_condition = op_.is(op_condition) && i == 0;
  DType wanted = is_condition ? DType::undefined : op_.is(op_pointwise) ? common_ : first_;
  Slot s = driver_.slot(call_.node().input(at));
  if (s.is_constant() && s.constant.is_number() && wanted != DType::undefined)
    return call_.constant(s.constant.scalar(), wanted);
  Ref r = call_.tensor(at);
  if (wanted == DType::undefined || r.dtype == DType::undefined) return r;
  return call_.cast(r, wanted);
}

Ref Rule::value(const Expr& e) {
  struct Pending {
    size_t at;
    Scalar value;
  };
  Inputs inputs;
  std::vector<Pending> numbers;
  std::vector<size_t> dynamic_numbers;
  for (const Expr& a : e.args) switch (a.kind) {
      case Expr::Kind::none:
        inputs.emplace_back();
        break;
      case Expr::Kind::call:
        inputs.push_back(value(a));
        break;
      case Expr::Kind::number:
        numbers.push_back({inputs.size(), a.number.scalar()});
        inputs.emplace_back();
        break;
      case Expr::Kind::text:
        failf(ErrorKind::value, "{}: text cannot be an input of {}", op_.where, e.text);
      case Expr::Kind::list: {
        std::vector<Size> sizes;
        for (const Expr& item : a.args) {
          if (item.kind == Expr::Kind::number)
            sizes.push_back({item.number.to_int()});
          else
            sizes.push_back(call_.extent(static_cast<size_t>(argument(item.text))));
        }
        inputs.push_back(call_.join(sizes));
        break;
      }
      case Expr::Kind::name: {
        int i = argument(a.text);
        if (i < 0) failf(ErrorKind::value, "{}: the operator has no argument '{}'", op_.where, a.text);
        size_t at = static_cast<size_t>(i);
        const SchemaType& t = schema_.args[at].type;
        if (call_.is_none(at)) {
          inputs.emplace_back();
        } else if (t.base == BaseType::tensor && t.list) {
          for (Ref& r : call_.tensors(at))
            inputs.push_back(first_ != DType::undefined && r.dtype != DType::undefined ? call_.cast(r, first_)
                                                                                       : r);
        } else if (t.base == BaseType::tensor) {
          inputs.push_back(tensor(i));
        } else if (t.list) {
          std::vector<Size> sizes = call_.extents(at);
          inputs.push_back(sizes.empty() && e.text.starts_with("Reduce") ? Ref() : call_.join(sizes));
        } else if (t.base == BaseType::int_ || t.base == BaseType::sym_int) {
          bool vector = e.text.starts_with("Reduce");
          inputs.push_back(vector ? call_.as_vector(call_.extent(at)) : call_.as_scalar(call_.extent(at)));
        } else if (call_.is_constant(at)) {
          numbers.push_back({inputs.size(), call_.scalar(at)});
          inputs.emplace_back();
        } else {
          dynamic_numbers.push_back(inputs.size());
          inputs.push_back(call_.tensor(at));
        }
        break;
      }
    }
  // Numbers take the dtype of their neighbours; Where's condition is none.
  DType neighbour = DType::undefined;
  for (size_t i = e.text == "Where" ? 1 : 0; i < inputs.size(); ++i) {
    bool is_number = false;
    for (size_t n : dynamic_numbers) is_number = is_number || n == i;
    if (inputs[i] && !is_number && neighbour == DType::undefined) neighbour = inputs[i].dtype;
  }
  if (neighbour == DType::undefined) neighbour = common_ != DType::undefined ? common_ : call_.dtype();
  for (const Pending& n : numbers)
    inputs[n.at] = call_.constant(n.value, neighbour == DType::undefined ? n.value.dtype() : neighbour);
  if (neighbour != DType::undefined)
    for (size_t n : dynamic_numbers) inputs[n] = call_.cast(inputs[n], neighbour);
  while (!inputs.empty() && !inputs.back()) inputs.pop_back();

  Attributes attributes;
  for (const auto& [name, v] : e.attributes) {
    if (v.kind == Expr::Kind::none) continue;
    if (v.kind == Expr::Kind::name && argument(v.text) >= 0 &&
        call_.is_none(static_cast<size_t>(argument(v.text))))
      continue;
    attributes.push_back(attribute(name, v));
  }
  return call_.emit(e.text, std::move(inputs), std::move(attributes));
}

// Attributes that are floats in ONNX whatever number a rule or an argument gives.
bool is_float_attribute(std::string_view name) {
  for (std::string_view f :
       {"alpha", "beta", "gamma", "epsilon", "lambd", "bias", "momentum", "spatial_scale"})
    if (name == f) return true;
  return false;
}

Attribute Rule::attribute(const std::string& name, const Expr& e) {
  tern::Value v;
  switch (e.kind) {
    case Expr::Kind::number:
      v = e.number;
      break;
    case Expr::Kind::text:
      return Attribute::of(name, e.text);
    case Expr::Kind::list: {
      std::vector<int64_t> ints;
      for (const Expr& item : e.args)
        ints.push_back(item.kind == Expr::Kind::number
                           ? item.number.to_int()
                           : call_.integer(static_cast<size_t>(argument(item.text))));
      return Attribute::of(name, std::move(ints));
    }
    case Expr::Kind::name: {
      int i = argument(e.text);
      if (i < 0) {
        for (int32_t t = 1; t <= 28; ++t)
          if (onnx::name(static_cast<DataType>(t)) == e.text) return Attribute::of(name, int64_t{t});
        failf(ErrorKind::value, "{}: '{}' is neither an argument nor an ONNX type", op_.where, e.text);
      }
      size_t at = static_cast<size_t>(i);
      const SchemaType& t = schema_.args[at].type;
      if (t.base == BaseType::dtype)
        return Attribute::of(name, static_cast<int64_t>(data_type_of(call_.dtype_argument(at))));
      if (t.list) return Attribute::of(name, call_.ints(at));
      if (t.base == BaseType::string) return Attribute::of(name, call_.text(at));
      if (t.base == BaseType::int_ || t.base == BaseType::sym_int)
        v = call_.integer(at);
      else if (t.base == BaseType::bool_)
        v = static_cast<int64_t>(call_.flag(at));
      else
        v = call_.number(at);
      break;
    }
    default:
      failf(ErrorKind::value, "{}: the attribute '{}' needs a constant", op_.where, name);
  }
  if (v.is_bool()) v = static_cast<int64_t>(v.to_bool());
  if (v.is_float() || is_float_attribute(name)) return Attribute::of(name, static_cast<float>(v.to_double()));
  return Attribute::of(name, v.to_int());
}

template <class F>
void each_line(std::string_view rules, F&& f) {
  while (!rules.empty()) {
    size_t end = rules.find('\n');
    std::string_view line = rules.substr(0, end);
    rules = end == std::string_view::npos ? std::string_view() : rules.substr(end + 1);
    if (line.find_first_not_of(" \t") != std::string_view::npos && f(line)) return;
  }
}

}  // namespace

bool apply_rules(Driver& driver, Call& call, const Op& op, std::string_view rules) {
  bool done = false;
  each_line(rules, [&](std::string_view line) {
    RuleParser p(line, op.where);
    Expr root = p.expression();
    if (root.kind != Expr::Kind::call) p.bad("a rule is a call of an ONNX operator");
    Rule rule(driver, call, op);
    rule.prepare(root);
    if (p.word("if") && !rule.condition(p)) return false;
    if (p.peek()) p.bad("unexpected text");
    call.set(rule.value(root));
    return done = true;
  });
  return done;
}

void check_rules(const Op& op) {
  if (!op.onnx) return;
  const Schema& schema = op.schema();
  auto check_names = [&](auto& self, const Expr& e) -> void {
    if (e.kind == Expr::Kind::name && schema.find(Symbol(e.text)) < 0)
      failf(ErrorKind::value, "{}: the ONNX rule of {} names '{}', which is no argument", op.where,
            op.qualified(), e.text);
    for (const Expr& a : e.args) self(self, a);
  };
  each_line(op.onnx, [&](std::string_view line) {
    RuleParser p(line, op.where);
    Expr root = p.expression();
    check_names(check_names, root);
    if (p.peek() && !p.word("if")) p.bad("unexpected text");
    return false;
  });
}

DType result_dtype(std::string_view op, const Inputs& inputs, const Attributes& attributes) {
  for (std::string_view b : {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor",
                             "Not", "IsNaN", "IsInf"})
    if (op == b) return DType::bool_;
  for (std::string_view i : {"Shape", "Size", "NonZero", "ArgMax", "ArgMin"})
    if (op == i) return DType::int64;
  if (op == "Cast" || op == "RandomNormalLike" || op == "RandomUniformLike")
    for (const Attribute& a : attributes)
      if (a.name == "to" || a.name == "dtype") return dtype_of(static_cast<DataType>(a.i));
  if (op == "ConstantOfShape") {
    for (const Attribute& a : attributes)
      if (a.name == "value" && !a.tensors.empty()) return dtype_of(a.tensors[0].type);
    return DType::float32;
  }
  size_t from = op == "Where" ? 1 : op == "OneHot" ? 2 : 0;
  return from < inputs.size() ? inputs[from].dtype : DType::undefined;
}

}  // namespace tern::onnx
