// The parser of the native text and of what PyTorch prints for TorchScript graphs.
#include <charconv>
#include <cmath>
#include <complex>
#include <unordered_map>

#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ir/builtins.h"
#include "tern/ir/cursor.h"
#include "tern/ir/names.h"
#include "tern/ir/resolve.h"
#include "tern/ir/text.h"
#include "tern/ir/verify.h"
#include "tern/sym/shape_env.h"

namespace tern::ir {
namespace {

tern::Value read_constant(Cursor& c, ShapeEnv* shapes);

std::string_view number_text(Cursor& c) {
  c.blanks();
  size_t start = c.at;
  auto digits = [&] {
    while (Cursor::is_digit(c.peek())) ++c.at;
  };
  if (c.peek() == '-' || c.peek() == '+') ++c.at;
  if (c.starts("inf") || c.starts("nan")) {
    c.at += 3;
    return c.text.substr(start, c.at - start);
  }
  digits();
  if (c.peek() == '.') {
    ++c.at;
    digits();
  }
  if (c.peek() == 'e' || c.peek() == 'E') {
    ++c.at;
    if (c.peek() == '-' || c.peek() == '+') ++c.at;
    digits();
  }
  return c.text.substr(start, c.at - start);
}

double to_double(Cursor& c, std::string_view text) {
  std::string_view digits = text.substr(!text.empty() && text[0] == '+');
  double v = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), v);
  if (error == std::errc::result_out_of_range) return text[0] == '-' ? -INFINITY : INFINITY;
  if (error != std::errc() || end != digits.data() + digits.size()) c.fail_here("expected a number");
  return v;
}

bool is_integer_text(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i)
    if (!Cursor::is_digit(text[i]) && !(i == 0 && (text[0] == '-' || text[0] == '+'))) return false;
  return !text.empty();
}

tern::Value number_value(Cursor& c, std::string_view text) {
  if (!is_integer_text(text)) return to_double(c, text);
  int64_t v = 0;
  std::string_view digits = text.substr(text[0] == '+');
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), v);
  if (error != std::errc() || end != digits.data() + digits.size() || SymInt(v).is_symbolic())
    c.fail_here("the integer does not fit");
  return v;
}

// Numbers in row-major order into a tensor of that type.
Tensor tensor_of(Cursor& c, DType dtype, const Dims& sizes, const std::vector<double>& floats,
                 const std::vector<int64_t>& ints) {
  bool complex = is_complex(dtype), whole = is_integral(dtype, true);
  int64_t n = 1;
  for (SymInt s : sizes) {
    if (!s.is_int() || s.as_int() < 0) c.fail_here("a constant tensor needs known sizes");
    if (__builtin_mul_overflow(n, s.as_int(), &n)) c.fail_here("the constant tensor is too large");
  }
  size_t given = whole ? ints.size() : complex ? floats.size() / 2 : floats.size();
  if (static_cast<size_t>(n) != given || (complex && floats.size() % 2))
    c.fail_here(fmt::format("the constant tensor has {} elements but {} were given", n, given));
  Tensor wide = make_tensor(sizes, whole ? kLong : complex ? kComplexDouble : kDouble);
  if (n) {
    if (whole)
      std::copy(ints.begin(), ints.end(), static_cast<int64_t*>(wide.data()));
    else
      std::copy(floats.begin(), floats.end(), static_cast<double*>(wide.data()));
  }
  if (wide.dtype() == dtype) return wide;
  Tensor t = make_tensor(sizes, dtype);
  copy_elements(wide, t);
  return t;
}

tern::Value read_tensor(Cursor& c, const Type& type) {
  if (c.peek() == '<')
    c.fail_here(
        "the data of this constant tensor was left out when the graph was printed; print it with a larger "
        "max_tensor");
  c.expect("{");
  std::vector<double> floats;
  std::vector<int64_t> ints;
  bool whole = is_integral(type.dtype(), true);
  if (!c.take("}")) {
    do {
      std::string_view text = number_text(c);
      if (whole) {
        tern::Value v = number_value(c, text);
        if (!v.is_int()) c.fail_here("an integer tensor takes integers");
        ints.push_back(v.to_int());
      } else {
        floats.push_back(to_double(c, text));
      }
    } while (c.take(","));
    c.expect("}");
  }
  if (!type.has_sizes()) c.fail_here("a constant tensor needs sizes");
  return tensor_of(c, type.dtype(), Dims(type.sizes()), floats, ints);
}

// "{1}", as PyTorch prints a tensor with one element; the type comes from the node.
tern::Value read_braced(Cursor& c, ShapeEnv* shapes) {
  c.expect("{");
  std::vector<std::pair<tern::Value, tern::Value>> entries;
  if (c.take("}")) return tern::Value::dict();
  tern::Value first = read_constant(c, shapes);
  if (c.take("}")) {
    Scalar s = first.scalar();
    return tensor(s);
  }
  c.expect(":");
  entries.emplace_back(std::move(first), read_constant(c, shapes));
  while (c.take(",")) {
    tern::Value key = read_constant(c, shapes);
    c.expect(":");
    tern::Value item = read_constant(c, shapes);
    entries.emplace_back(std::move(key), std::move(item));
  }
  c.expect("}");
  return tern::Value::dict(std::move(entries));
}

// " 1  2\n 3  4\n[ CPUFloatType{2,2} ]", as PyTorch prints a small tensor.
std::optional<tern::Value> read_printed_tensor(Cursor& c) {
  size_t mark = c.text.find_first_not_of("0123456789.+-einfa \t\n", c.at);
  if (mark == std::string_view::npos || c.text.substr(mark, 5) != "[ CPU") return std::nullopt;
  size_t end = c.text.find("Type{", mark), close = c.text.find("} ]", mark);
  if (end == std::string_view::npos || close == std::string_view::npos || end > close) return std::nullopt;
  auto dtype = parse_dtype(c.text.substr(mark + 5, end - mark - 5));
  if (!dtype) return std::nullopt;
  std::vector<double> floats;
  std::vector<int64_t> ints;
  while (true) {
    while (c.peek() == ' ' || c.peek() == '\n' || c.peek() == '\t') ++c.at;
    if (c.at >= mark) break;
    std::string_view text = number_text(c);
    if (!is_integral(*dtype, true)) {
      floats.push_back(to_double(c, text));
    } else if (const tern::Value v = number_value(c, text); v.is_int()) {
      ints.push_back(v.to_int());
    } else {  // in scientific notation
      if (!(std::abs(v.to_double()) < 9.2e18)) c.fail_here("the integer does not fit");
      ints.push_back(static_cast<int64_t>(v.to_double()));
    }
  }
  c.at = end + 5;
  Dims sizes;
  if (c.peek() != '}') {
    do {
      tern::Value v = number_value(c, number_text(c));
      if (!v.is_int()) c.fail_here("expected a size");
      sizes.push_back(v.sym());
    } while (c.take(","));
  }
  if (sizes.size() > 2) c.fail_here("a printed tensor of more than two dimensions cannot be read back");
  c.at = close + 3;
  return tensor_of(c, *dtype, sizes, floats, ints);
}

tern::Value read_constant(Cursor& c, ShapeEnv* shapes) {
  Nested nested(c);
  c.blanks();
  char next = c.peek();
  auto sequence = [&](std::string_view close) {
    std::vector<tern::Value> items;
    ++c.at;
    while (!c.take(close)) {
      items.push_back(read_constant(c, shapes));
      if (!c.take(",")) {
        c.expect(close);
        break;
      }
    }
    return items;
  };
  if (next == '[') return tern::Value::list(sequence("]"));
  if (next == '(') return tern::Value::tuple(sequence(")"));
  if (next == '"' || next == '\'') return c.quoted();
  if (next == '{') return read_braced(c, shapes);
  if (next == '<') c.fail_here("the data of this constant was left out when the graph was printed");
  bool number = Cursor::is_digit(next) || next == '-' || next == '+' || next == '.';
  if (number || ((c.starts("inf") || c.starts("nan")) && !Cursor::is_name(c.peek(3)))) {
    size_t start = c.at;
    if (auto t = read_printed_tensor(c)) return *t;
    c.at = start;
    std::string_view text = number_text(c);
    if (c.peek() == 'j') {
      ++c.at;
      return std::complex<double>(0, to_double(c, text));
    }
    return number_value(c, text);
  }
  size_t start = c.at;
  std::string_view word = c.dotted();
  if (word == "None" || word == "NoneType") return {};
  if (word == "True" || word == "true") return true;
  if (word == "False" || word == "false") return false;
  if (word == "device") {
    c.expect("(");
    std::string text = c.quoted();
    auto device = Device::parse(text);
    if (!device) c.fail_here("unknown device '" + text + "'");
    c.expect(")");
    return *device;
  }
  if (word == "complex") {
    c.expect("(");
    double real = to_double(c, number_text(c));
    c.expect(",");
    double imag = to_double(c, number_text(c));
    c.expect(")");
    return std::complex<double>(real, imag);
  }
  if (word == "sym") {
    c.expect("(");
    std::string text = c.quoted();
    c.expect(")");
    if (!shapes) c.fail_here("a symbolic constant needs a ShapeEnv");
    try {
      return shapes->parse(text);
    } catch (const Error& e) {
      c.fail_here(e.message());
    }
  }
  if (word == "empty") {
    c.expect("(");
    const Type* element = read_type(c, shapes);
    c.expect(")");
    return tern::Value::list({}, element);
  }
  c.at = start;
  if (word.empty()) c.fail_here("expected a value");
  const Type* type = read_type(c, shapes);
  if (type->is_tensor() && type->dtype() != DType::undefined) return read_tensor(c, *type);
  c.at = start;
  c.fail_here("expected a value");
}

}  // namespace

class GraphParser {
 public:
  GraphParser(std::string_view text, Graph& graph)
      : c_{text, 0, "graph"}, graph_(graph), shapes_(graph.shapes.get()) {}

  void run() {
    lines();
    if (!c_.take("graph")) c_.fail_here("expected 'graph('");
    params(graph_.top(), true);
    c_.expect(":");
    block(graph_.top(), "return");
    lines();
    while (c_.starts("with prim::fork_")) task();
    if (!c_.done()) c_.fail_here("unexpected text after the graph");
    for (Node* n : unlabelled_) graph_.add_label(*n, default_hint(*n), false);
  }

 private:
  // "with prim::fork_0 = graph(...)": what a task runs stands behind the graph, as PyTorch prints it, with
  // names of its own. It becomes the block of the task.
  void task() {
    Nested nested(c_);
    c_.at += 5;
    size_t start = c_.at;
    while (Cursor::is_name(c_.peek()) || c_.peek() == ':') ++c_.at;
    Symbol kind(c_.text.substr(start, c_.at - start));
    c_.expect("=");
    c_.blanks();
    size_t end = std::min(c_.text.find("\nwith prim::fork_", c_.at), c_.text.size());
    Graph body;
    body.shapes = graph_.shapes;
    GraphParser(c_.text.substr(c_.at, end - c_.at), body).run();
    bool found = false;
    become(graph_.top(), kind, body, found);
    if (!found) c_.fail_here(fmt::format("no node of the graph runs {}", kind.view()));
    c_.at = end;
    lines();
  }
  void become(Block& block, Symbol kind, Graph& body, bool& found) {
    for (Node& n : block) {
      for (Block* b : n.blocks()) become(*b, kind, body, found);
      if (!n.is(kind)) continue;
      if (n.inputs().size() != body.inputs().size())
        c_.fail_here(fmt::format("{} takes {} values but is given {}", kind.view(), body.inputs().size(),
                                 n.inputs().size()));
      found = true;
      ValueMap map;
      for (size_t i = 0; i < n.inputs().size(); ++i) map.emplace(body.inputs()[i], In(n.input(i)));
      Block& inside = n.add_block();
      graph_.insert_at_end(inside);
      for (const In& result : graph_.inline_block(body.top(), map)) inside.add_return(result);
      graph_.insert_at_end(graph_.top());
      while (!n.inputs().empty()) n.remove_input(n.inputs().size() - 1);
      n.kind_ = "prim::fork";
    }
  }

  // Blank lines, and lines that hold only a comment.
  void lines() {
    while (true) {
      c_.blanks();
      if (c_.peek() == '#') skip_line();
      if (c_.peek() != '\n') return;
      ++c_.at;
    }
  }
  void skip_line() {
    while (!c_.done() && c_.peek() != '\n') ++c_.at;
  }

  std::string_view value_name() {
    c_.expect("%");
    size_t start = c_.at;
    while (Cursor::is_name(c_.peek()) || c_.peek() == '.') ++c_.at;
    if (c_.at == start) c_.fail_here("expected a name after '%'");
    return c_.text.substr(start, c_.at - start);
  }
  const Type* optional_type() {
    if (!c_.take(":")) return Type::tensor();
    // Repeated types are read once.
    c_.blanks();
    return read_type(c_, shapes_);
  }

  Value& new_value(std::string_view name, const Type* type) {
    try {
      return graph_.new_value(type, Name::parse(name));
    } catch (const Error& e) {
      c_.fail_here(e.message());
    }
  }

  void params(Block& b, bool over_lines) {
    c_.expect("(");
    if (over_lines) lines();
    if (c_.take(")")) return;
    do {
      if (over_lines) lines();
      std::string_view name = value_name();
      const Type* type = optional_type();
      Value& v = new_value(name, type);
      v.param_ = 1;
      v.block_ = &b;
      v.index_ = static_cast<uint32_t>(b.params_.size());
      b.params_.push_back(&v);
    } while (c_.take(","));
    if (over_lines) lines();
    c_.expect(")");
  }

  // Nodes up to and with the line that starts with `end`: "return" or "->".
  void block(Block& b, std::string_view end) {
    Nested nested(c_);
    Node* last = nullptr;
    while (true) {
      lines();
      if (c_.done()) c_.fail_here(fmt::format("expected '{} (...)' at the end of the block", end));
      if (c_.starts(end)) {
        c_.at += end.size();
        c_.expect("(");
        if (!c_.take(")")) {
          do b.add_return(operand());
          while (c_.take(","));
          c_.expect(")");
        }
        skip_comment();
        return;
      }
      if (c_.starts("block") && Cursor::is_digit(c_.peek(5))) {
        if (!last) c_.fail_here("a block needs a node before it");
        c_.word();
        Block& inner = last->add_block();
        params(inner, false);
        c_.expect(":");
        graph_.insert_at_end(inner);
        block(inner, "->");
        graph_.insert_at_end(b);
        continue;
      }
      last = &node();
    }
  }
  void skip_comment() {
    c_.blanks();
    if (c_.peek() == '#') skip_line();
    if (!c_.done() && c_.peek() != '\n') c_.fail_here("expected the end of the line");
  }

  In operand() {
    c_.blanks();
    if (c_.peek() == '%') {
      std::string_view name = value_name();
      Value* v = graph_.find(name);
      if (!v) c_.fail_here(fmt::format("%{} is not defined before it is used", name));
      return In(*v);
    }
    if (c_.peek() == '[') {
      Nested nested(c_);
      ++c_.at;
      std::vector<In> items;
      if (!c_.take("]")) {
        do items.push_back(operand());
        while (c_.take(","));
        c_.expect("]");
      }
      return In::list(std::move(items));
    }
    return In(read_constant(c_, shapes_));
  }

  Node& node() {
    names_.clear();
    types_.clear();
    inputs_.clear();
    keywords_.clear();
    attributes_.clear();
    size_t start = c_.at;
    if (c_.peek() == '%') {
      do {
        names_.push_back(value_name());
        types_.push_back(optional_type());
      } while (c_.take(","));
    }
    c_.expect("=");
    c_.blanks();
    bool python_op = c_.take("^");
    size_t at = c_.at;
    while (Cursor::is_name(c_.peek()) || c_.peek() == ':' || c_.peek() == '.') ++c_.at;
    std::string_view kind = c_.text.substr(at, c_.at - at);
    if (kind.empty()) c_.fail_here("expected the name of an operator");
    size_t colons = kind.find("::");
    if (kind.find(':', colons == std::string_view::npos ? 0 : colons + 2) != std::string_view::npos)
      c_.fail_here(fmt::format("{} is no name of an operator: it has more than one namespace", kind));
    if (python_op) {
      attributes_.emplace_back("name", tern::Value(kind));
      kind = "prim::PythonOp";
      read_python_arguments();
    }
    if (c_.peek() == '[') attributes();
    c_.expect("(");
    if (!c_.take(")")) {
      do argument();
      while (c_.take(","));
      c_.expect(")");
    }
    Node& n = make(kind, start);
    if (kind == "prim::Constant") adapt_constant();
    for (auto& [name, v] : attributes_) n.set_attribute(name, std::move(v));
    suffix(n);
    return n;
  }

  // "^Name(1, 2)(%x)": the first brackets are the Python function's own arguments, kept as text.
  void read_python_arguments() {
    size_t open = c_.at, depth = 0;
    size_t i = open;
    for (; i < c_.text.size() && c_.text[i] != '\n'; ++i) {
      if (c_.text[i] == '(') ++depth;
      if (c_.text[i] == ')' && --depth == 0) break;
    }
    if (c_.peek() != '(' || i + 1 >= c_.text.size() || c_.text[i + 1] != '(') return;
    attributes_.emplace_back("arguments", tern::Value(c_.text.substr(open + 1, i - open - 1)));
    c_.at = i + 1;
  }

  void attributes() {
    c_.expect("[");
    if (c_.take("]")) return;
    do {
      c_.blanks();
      std::string_view name = c_.word();
      if (name.empty()) c_.fail_here("expected the name of an attribute");
      c_.expect("=");
      while (c_.peek() == '\n') ++c_.at;
      attributes_.emplace_back(Symbol(name), read_constant(c_, shapes_));
    } while (c_.take(","));
    c_.expect("]");
  }

  // PyTorch prints True as 1, a device as a string and a tensor of one element as {1}: the type tells.
  void adapt_constant() {
    if (types_.size() != 1) return;
    const Type& t = *types_[0];
    for (auto& [name, v] : attributes_) {
      if (name != Symbol("value")) continue;
      if (t.is(TypeKind::bool_) && v.is_int()) {
        v = v.to_int() != 0;
      } else if (t.is(TypeKind::float_) && v.is_int()) {
        v = v.to_double();
      } else if (t.is(TypeKind::device) && v.is_string()) {
        if (auto device = Device::parse(v.string())) v = *device;
      } else if (t.is_tensor() && t.dtype() != DType::undefined && v.is_tensor() &&
                 v.tensor().dtype() != t.dtype()) {
        Dims sizes = t.has_sizes() ? Dims(t.sizes()) : Dims(v.tensor().sizes());
        for (SymInt s : sizes)
          if (!s.is_int() || s.as_int() != 1) return;
        Tensor cast = make_tensor(sizes, t.dtype());
        copy_elements(v.tensor(), cast);
        v = cast;
      }
    }
  }

  void argument() {
    c_.blanks();
    if (c_.peek() != '%' && c_.peek() != '[') {
      size_t start = c_.at;
      std::string_view word = c_.word();
      if (!word.empty() && !Cursor::is_digit(word[0]) && c_.peek() == '=') {
        ++c_.at;
        keywords_.emplace_back(Symbol(word), operand());
        return;
      }
      c_.at = start;
    }
    if (!keywords_.empty()) c_.fail_here("a positional argument follows a keyword argument");
    inputs_.push_back(operand());
  }

  Node& make(std::string_view kind, size_t start) {
    const Op* op = nullptr;
    if (auto it = exact_.find(kind); it != exact_.end()) {
      op = it->second;
    } else if (kind.substr(0, 6) != "prim::") {
      op = kind.find("::") == std::string_view::npos ? nullptr : find_op(kind);
      bool overloaded = overloads(Symbol(kind.substr(0, kind.find('.', kind.find("::") + 2)))).size() > 1;
      bool named = kind.find('.', kind.find("::") + 2) != std::string_view::npos;
      // aten::neg takes a tensor, but TorchScript's builtin of that name takes a number: the types tell.
      bool by_types = !named && (overloaded || (op && find_builtin(op->schema().name)));
      if (!by_types)
        exact_.emplace(std::string(kind), op);
      else
        op = resolve_overload(Symbol(kind), inputs_, keywords_, types_.size());
      if (by_types && !op && !find_builtin(Symbol(kind))) op = refused_by_all(Symbol(kind));
    }
    if (op && !arrange(*op)) {
      c_.at = start;
      c_.fail_here(why_);
    }
    if (!op && !keywords_.empty()) {
      c_.at = start;
      c_.fail_here(fmt::format("{} takes no argument by name", kind));
    }
    Node& n = graph_.new_node(op ? op->schema().name : Symbol(kind), op, inputs_.size());
    graph_.insert(n);
    ++graph_.num_nodes_;
    for (size_t i = 0; i < inputs_.size(); ++i) graph_.bind(n.inputs_[i], n, inputs_[i]);
    if (op && !op->schema().varret && types_.size() != op->schema().returns.size()) {
      c_.at = start;
      c_.fail_here(fmt::format("{} gives {} results but {} are named", op->qualified(),
                               op->schema().returns.size(), types_.size()));
    }
    n.num_outputs_ = static_cast<uint32_t>(types_.size());
    if (types_.size() > 1) n.many_ = graph_.arena_.make_array<Value*>(types_.size());
    for (uint32_t i = 0; i < types_.size(); ++i) {
      Value& v = new_value(names_[i], types_[i]);
      v.node_ = &n;
      v.index_ = i;
      if (types_.size() == 1)
        n.one_ = &v;
      else
        n.many_[i] = &v;
    }
    return n;
  }

  // Types may say too little to choose an overload; but where no overload takes so many arguments and gives
  // so many results, one of them is taken, so that the message says what is wrong.
  const Op* refused_by_all(Symbol name) const {
    for (const Op* op : overloads(name)) {
      const Schema& s = op->schema();
      if (inputs_.size() + keywords_.size() <= s.args.size() &&
          (s.varret || s.returns.size() == types_.size()))
        return nullptr;
    }
    return overloads(name)[0];
  }

  // Puts keywords and defaults into schema order.
  bool arrange(const Op& op) {
    const Schema& schema = op.schema();
    if (inputs_.size() > schema.args.size()) {
      why_ = fmt::format("{} takes {} arguments but {} were given: {}", schema.qualified(),
                         schema.args.size(), inputs_.size(), schema.str());
      return false;
    }
    if (inputs_.size() == schema.args.size() && keywords_.empty()) return true;
    size_t positional = inputs_.size();
    std::vector<bool> given(schema.args.size());
    for (size_t i = 0; i < positional; ++i) given[i] = true;
    for (auto& [name, in] : keywords_) {
      int at = schema.find(name);
      if (at < 0 || given[at]) {
        why_ = fmt::format("{} {} argument '{}': {}", schema.qualified(),
                           at < 0 ? "has no" : "was given twice the", name.view(), schema.str());
        return false;
      }
      given[at] = true;
    }
    for (size_t i = positional; i < schema.args.size(); ++i)
      if (!given[i] && !schema.args[i].default_value && !schema.args[i].type.accepts_none()) {
        why_ = fmt::format("{} needs a value for argument '{}': {}", schema.qualified(),
                           schema.args[i].name.view(), schema.str());
        return false;
      }
    inputs_.resize(schema.args.size());
    for (size_t i = positional; i < schema.args.size(); ++i)
      if (!given[i] && schema.args[i].default_value) inputs_[i] = In(*schema.args[i].default_value);
    for (auto& [name, in] : keywords_) inputs_[static_cast<size_t>(schema.find(name))] = std::move(in);
    keywords_.clear();
    return true;
  }

  // ", name: max_1", ", meta: {...}", ", scope: a<B>/c<D>", " # file:line:column".
  void suffix(Node& n) {
    Origin origin;
    bool labelled = false;
    while (c_.take(",")) {
      if (c_.take("name:")) {
        c_.blanks();
        size_t start = c_.at;
        while (Cursor::is_name(c_.peek()) || c_.peek() == '.') ++c_.at;
        try {
          graph_.add_label(n, c_.text.substr(start, c_.at - start), true);
        } catch (const Error& e) {
          c_.fail_here(e.message());
        }
        labelled = true;
      } else if (c_.take("meta:")) {
        tern::Value all = read_constant(c_, shapes_);
        if (!all.is_dict()) c_.fail_here("meta takes a dict");
        for (auto& [key, v] : all.entries()) {
          if (!key.is_string()) c_.fail_here("keys of meta are strings");
          n.set_meta(Symbol(key.string()), v);
        }
      } else if (c_.take("scope:")) {
        c_.blanks();
        origin.scope = scope();
      } else {
        c_.fail_here("expected name:, meta: or scope:");
      }
    }
    c_.blanks();
    if (c_.peek() == '#') place(origin);
    if (origin.scope || origin.has_place()) n.set_origin(Origin::make(origin));
    if (!labelled && wants_label(n)) unlabelled_.push_back(&n);
    if (!c_.done() && c_.peek() != '\n') c_.fail_here("expected the end of the line");
  }

  const ModuleScope* scope() {
    size_t start = c_.at;
    while (!c_.done() && c_.peek() != '\n' && !c_.starts(" #") && !c_.starts(", meta:") &&
           !c_.starts(", name:"))
      ++c_.at;
    std::string_view text = c_.text.substr(start, c_.at - start);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
    const ModuleScope* chain = nullptr;
    while (true) {
      size_t slash = text.find('/');
      std::string_view part = text.substr(0, slash);
      size_t open = part.find('<');
      Symbol type;
      if (open != std::string_view::npos && part.back() == '>') {
        type = Symbol(part.substr(open + 1, part.size() - open - 2));
        part = part.substr(0, open);
      }
      chain = ModuleScope::make(Symbol(part), type, chain);
      if (slash == std::string_view::npos) return chain;
      text = text.substr(slash + 1);
    }
  }

  void place(Origin& origin) {
    ++c_.at;
    c_.blanks();
    size_t start = c_.at;
    skip_line();
    std::string_view text = c_.text.substr(start, c_.at - start);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
    size_t second = text.rfind(':');
    size_t first = second == std::string_view::npos || second == 0 ? second : text.rfind(':', second - 1);
    auto number = [](std::string_view digits, uint32_t& out) {
      auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
      return error == std::errc() && end == digits.data() + digits.size();
    };
    if (first == std::string_view::npos || second == std::string_view::npos ||
        !number(text.substr(first + 1, second - first - 1), origin.line) ||
        !number(text.substr(second + 1), origin.column))
      return;  // a comment of somebody else
    origin.file = Symbol(text.substr(0, first));
  }

  Cursor c_;
  Graph& graph_;
  ShapeEnv* shapes_;
  std::vector<std::string_view> names_;
  std::vector<const Type*> types_;
  std::vector<In> inputs_;
  std::vector<std::pair<Symbol, In>> keywords_;
  std::vector<std::pair<Symbol, tern::Value>> attributes_;
  std::vector<Node*> unlabelled_;
  struct TextHash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
  };
  std::unordered_map<std::string, const Op*, TextHash, std::equal_to<>> exact_;
  std::string why_;
};

Owned<Graph> parse(std::string_view text, Shared<ShapeEnv> shapes) {
  auto graph = new_owned<Graph>();
  graph->shapes = shapes ? std::move(shapes) : new_shared<ShapeEnv>();
  GraphParser(text, *graph).run();
  verify(*graph);
  return graph;
}

tern::Value parse_constant(std::string_view text, ShapeEnv* shapes) {
  Cursor c{text, 0, "constant"};
  tern::Value v = read_constant(c, shapes);
  c.blanks();
  if (!c.done()) c.fail_here("unexpected text after the constant");
  return v;
}

}  // namespace tern::ir
