#include "tern/jit/python_value.h"

#include <algorithm>
#include <cmath>

#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"
#include "tern/dispatch/op.h"
#include "tern/ir/builtins.h"
#include "tern/jit/nn_classes.h"
#include "tern/nn/init.h"

namespace tern::jit {

// ---- the file ----

bool declares_overload(const script::Def& d) {
  return std::any_of(d.decorators.begin(), d.decorators.end(),
                     [](const std::string& decorator) { return decorator.ends_with("_overload_method"); });
}

const script::Class* PythonFile::find_class(std::string_view name) const {
  for (const script::Class& c : file.classes)
    if (c.name == name) return &c;
  return nullptr;
}
const script::Def* PythonFile::find_def(std::string_view name) const {
  for (const script::Def& d : file.defs)
    if (d.name == name) return &d;
  return nullptr;
}
bool PythonFile::is_module_class(const script::Class& c) const {
  for (const script::Class* k : line_of(c))
    for (const std::string& b : k->bases)
      if (b == "nn.Module" || b == "torch.nn.Module" || b == "Module") return true;
  return false;
}
std::vector<const script::Class*> PythonFile::line_of(const script::Class& c) const {
  std::vector<const script::Class*> line{&c};
  for (size_t i = 0; i < line.size(); ++i)
    for (const std::string& b : line[i]->bases)
      if (const script::Class* base = find_class(b);
          base && std::find(line.begin(), line.end(), base) == line.end())
        line.push_back(base);
  return line;
}

namespace {

struct Lines {
  std::vector<std::string_view> lines;
  std::vector<size_t> starts;
  explicit Lines(std::string_view text) {
    for (size_t at = 0; at <= text.size();) {
      size_t end = std::min(text.find('\n', at), text.size());
      lines.push_back(text.substr(at, end - at));
      starts.push_back(at);
      at = end + 1;
    }
  }
  size_t line_of(size_t offset) const {
    return static_cast<size_t>(std::upper_bound(starts.begin(), starts.end(), offset) - starts.begin()) - 1;
  }
  static size_t indent(std::string_view line) {
    size_t n = line.find_first_not_of(" \t");
    return n == std::string_view::npos ? SIZE_MAX : n;
  }
  // Where what stands at this line begins: its decorators belong to it.
  size_t first_of(size_t line) const {
    while (line > 0 && indent(lines[line - 1]) != SIZE_MAX && lines[line - 1][indent(lines[line - 1])] == '@')
      --line;
    return line;
  }
};

// What __jit_unused_properties__ names is no part of the script.
std::vector<std::string> unused_properties(const std::vector<const script::Class*>& line) {
  for (const script::Class* k : line)
    for (const script::StmtPtr& s : k->body) {
      if (s->kind != script::StmtKind::assign || s->targets[0]->text != "__jit_unused_properties__") continue;
      std::vector<std::string> names;
      for (const script::ExprPtr& e : s->value->items)
        if (e->value.is_string()) names.push_back(e->value.string());
      return names;
    }
  return {};
}

}  // namespace

std::string PythonFile::methods_text(const script::Class& c) const {
  Lines text(file.source->text);
  // Where the things of the file begin: each ends where the next one does.
  std::vector<size_t> starts;
  for (const script::Def& d : file.defs) starts.push_back(text.first_of(text.line_of(d.at)));
  for (const script::StmtPtr& s : file.statements) starts.push_back(text.line_of(s->at));
  for (const script::Class& k : file.classes) {
    starts.push_back(text.first_of(text.line_of(k.at)));
    for (const script::Def& d : k.methods) starts.push_back(text.first_of(text.line_of(d.at)));
    for (const script::StmtPtr& s : k.body) starts.push_back(text.line_of(s->at));
  }
  std::sort(starts.begin(), starts.end());
  std::vector<std::string> out(text.lines.size());
  std::vector<std::string> seen{"__init__"};
  for (const std::string& name : unused_properties(line_of(c))) {
    seen.push_back(name);
    seen.push_back(name + ".setter");
  }
  for (const script::Class* k : line_of(c)) {
    const size_t of_others = seen.size();
    for (const script::Def& d : k->methods) {
      bool setter =
          std::find(d.decorators.begin(), d.decorators.end(), d.name + ".setter") != d.decorators.end();
      std::string name = setter ? d.name + ".setter" : d.name;
      // Declarations of overloads have the name of what they declare.
      auto known = seen.begin() + static_cast<long>(declares_overload(d) ? of_others : seen.size());
      if (std::find(seen.begin(), known, name) != known) continue;
      if (!declares_overload(d)) seen.push_back(name);
      size_t from = text.first_of(text.line_of(d.at));
      auto next = std::upper_bound(starts.begin(), starts.end(), text.line_of(d.at));
      size_t to = next == starts.end() ? text.lines.size() : *next;
      size_t margin = Lines::indent(text.lines[text.line_of(d.at)]);
      for (size_t i = from; i < to; ++i)
        if (size_t n = Lines::indent(text.lines[i]); n != SIZE_MAX)
          out[i] = text.lines[i].substr(std::min(margin, n));
    }
  }
  std::string all;
  for (const std::string& l : out) all += l + "\n";
  return all;
}

void PythonFile::add_function(std::string& methods, const script::Def& d) const {
  Lines text(file.source->text), there(methods);
  size_t from = text.first_of(text.line_of(d.at)), to = text.line_of(d.at) + 1;
  auto blank = [](std::string_view line) { return line.find_first_not_of(" \t") == std::string_view::npos; };
  // Until something else stands at its margin; lines of its head may go on inside brackets.
  int open = 0;
  auto brackets = [&](std::string_view line) {
    for (char c : line) open += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
  };
  brackets(text.lines[to - 1]);
  for (; to < text.lines.size(); ++to) {
    if (open <= 0 && !blank(text.lines[to]) && Lines::indent(text.lines[to]) == 0) break;
    if (open > 0) brackets(text.lines[to]);
  }
  std::vector<std::string> out(there.lines.begin(), there.lines.end());
  out.resize(std::max(out.size(), to));
  bool free = std::all_of(out.begin() + static_cast<long>(from), out.begin() + static_cast<long>(to),
                          [&](const std::string& line) { return blank(line); });
  for (size_t i = from; i < to; ++i)
    if (free)
      out[i] = text.lines[i];
    else
      out.emplace_back(text.lines[i]);
  methods.clear();
  for (const std::string& line : out) methods += line + "\n";
}

std::string PythonFile::definitions_text() const {
  Lines text(file.source->text);
  std::vector<std::pair<size_t, bool>> starts;  // and whether it stays
  for (const script::Def& d : file.defs) starts.emplace_back(text.first_of(text.line_of(d.at)), true);
  for (const script::StmtPtr& s : file.statements) starts.emplace_back(text.line_of(s->at), false);
  for (const script::Class& k : file.classes)
    starts.emplace_back(text.first_of(text.line_of(k.at)), !is_module_class(k));
  std::sort(starts.begin(), starts.end());
  std::string all;
  bool any = false;
  for (size_t i = 0, at = 0; i < text.lines.size(); ++i) {
    while (at < starts.size() && starts[at].first <= i) ++at;
    bool keep = at > 0 && starts[at - 1].second;
    any = any || keep;
    all += (keep ? std::string(text.lines[i]) : "") + "\n";
  }
  return any ? all : "";
}

// ---- values ----

tern::Value to_value(const PythonValue& v, std::string_view what) {
  switch (v.kind) {
    case PythonValue::plain:
      return v.value;
    case PythonValue::list:
    case PythonValue::tuple: {
      std::vector<tern::Value> items;
      for (const PythonValue& i : v.items->items) items.push_back(to_value(i, what));
      return v.kind == PythonValue::list ? tern::Value::list(std::move(items))
                                         : tern::Value::tuple(std::move(items));
    }
    case PythonValue::dict: {
      std::vector<std::pair<tern::Value, tern::Value>> entries;
      for (auto& [key, i] : v.entries->entries) entries.emplace_back(key, to_value(i, what));
      return tern::Value::dict(std::move(entries));
    }
    case PythonValue::module:
      failf(ErrorKind::type, "{} holds a module: use nn.ModuleList or nn.ModuleDict", what);
    default:
      failf(ErrorKind::type, "{} is {}, which TorchScript has no value for", what,
            v.text.empty() ? "a Python object" : v.text);
  }
}

namespace {

double number(const PythonArgs& a, size_t i, std::string_view name, double otherwise) {
  for (auto& [key, v] : a.keywords)
    if (key == name) return to_value(v, name).to_double();
  return i < a.positional.size() ? to_value(a.positional[i], name).to_double() : otherwise;
}
std::string word(const PythonArgs& a, size_t i, std::string_view name, const char* otherwise) {
  for (auto& [key, v] : a.keywords)
    if (key == name) return to_value(v, name).string();
  return i < a.positional.size() ? to_value(a.positional[i], name).string() : otherwise;
}

PythonValue initialise(const std::string& name, const PythonArgs& a) {
  if (a.positional.empty()) failf(ErrorKind::type, "nn.init.{} needs a tensor", name);
  tern::Value v = to_value(a.positional[0], "the tensor");
  if (!v.is_tensor()) failf(ErrorKind::type, "nn.init.{} needs a tensor but got {}", name, v.kind_name());
  const Tensor& t = v.tensor();
  if (name == "uniform_")
    nn::init::uniform_(t, number(a, 1, "a", 0), number(a, 2, "b", 1));
  else if (name == "normal_")
    nn::init::normal_(t, number(a, 1, "mean", 0), number(a, 2, "std", 1));
  else if (name == "constant_")
    nn::init::constant_(t, number(a, 1, "val", 0));
  else if (name == "ones_")
    nn::init::ones_(t);
  else if (name == "zeros_")
    nn::init::zeros_(t);
  else if (name == "xavier_uniform_")
    nn::init::xavier_uniform_(t, number(a, 1, "gain", 1));
  else if (name == "xavier_normal_")
    nn::init::xavier_normal_(t, number(a, 1, "gain", 1));
  else if (name == "kaiming_uniform_" || name == "kaiming_normal_") {
    std::string mode = word(a, 2, "mode", "fan_in"), kind = word(a, 3, "nonlinearity", "leaky_relu");
    nn::init::KaimingOptions o{number(a, 1, "a", 0), mode, kind};
    name == "kaiming_uniform_" ? nn::init::kaiming_uniform_(t, o) : nn::init::kaiming_normal_(t, o);
  } else {
    failf(ErrorKind::not_supported,
          "nn.init.{} is not there; there are uniform_, normal_, constant_, ones_, zeros_, xavier_uniform_, "
          "xavier_normal_, kaiming_uniform_, kaiming_normal_",
          name);
  }
  return a.positional[0];
}

// An operator by its name: the first overload that takes the arguments.
PythonValue call_operator(const std::string& name, std::vector<tern::Value> positional,
                          std::vector<std::pair<Symbol, tern::Value>> keywords) {
  bool wants_grad = false;
  std::erase_if(keywords, [&](auto& k) {
    if (k.first != Symbol("requires_grad")) return false;
    wants_grad = k.second.is_bool() && k.second.to_bool();
    return true;
  });
  auto finish = [&](std::vector<tern::Value> results) -> PythonValue {
    if (wants_grad && results[0].is_tensor()) results[0].tensor().requires_grad_(true);
    if (results.size() == 1) return results[0];
    std::vector<PythonValue> items(results.begin(), results.end());
    return PythonValue::sequence(std::move(items), PythonValue::tuple);
  };
  std::vector<std::vector<tern::Value>> forms{positional};
  // torch.rand(2, 3), x.view(2, 3): the numbers are one list.
  size_t first = !positional.empty() && positional[0].is_tensor() ? 1 : 0;
  bool numbers = positional.size() > first;
  for (size_t i = first; i < positional.size(); ++i) numbers = numbers && positional[i].is_int();
  if (numbers) {
    std::vector<tern::Value> gathered(positional.begin(), positional.begin() + static_cast<long>(first));
    gathered.push_back(tern::Value::list({positional.begin() + static_cast<long>(first), positional.end()}));
    forms.push_back(std::move(gathered));
  }
  for (const std::vector<tern::Value>& form : forms)
    for (const Op* op : overloads(Symbol("aten::" + name))) {
      if (op->is(op_out) || !matches(op->schema(), form, keywords)) continue;
      Bound bound(*op, form, keywords);
      std::vector<tern::Value> results(std::max<size_t>(op->results, 1));
      tern::call(*op, bound.args(), results.data());
      return finish(std::move(results));
    }
  if (ir::Builtin builtin = ir::find_builtin(Symbol("aten::" + name))) {
    for (auto& [key, v] : keywords) positional.push_back(v);
    return finish({builtin(positional)});
  }
  failf(ErrorKind::not_supported, "torch.{} does not take these arguments, or Tern does not have it", name);
}

std::vector<std::pair<Symbol, tern::Value>> keyword_values(const PythonArgs& a) {
  std::vector<std::pair<Symbol, tern::Value>> out;
  for (auto& [key, v] : a.keywords) out.emplace_back(Symbol(key), to_value(v, key));
  return out;
}

PythonValue mathematics(const std::string& name, const PythonArgs& a) {
  double x = number(a, 0, "x", 0), y = number(a, 1, "y", 0);
  if (name == "sqrt") return tern::Value(std::sqrt(x));
  if (name == "log") return tern::Value(a.positional.size() > 1 ? std::log(x) / std::log(y) : std::log(x));
  if (name == "log2") return tern::Value(std::log2(x));
  if (name == "exp") return tern::Value(std::exp(x));
  if (name == "pow") return tern::Value(std::pow(x, y));
  if (name == "ceil") return tern::Value(static_cast<int64_t>(std::ceil(x)));
  if (name == "floor") return tern::Value(static_cast<int64_t>(std::floor(x)));
  if (name == "sin") return tern::Value(std::sin(x));
  if (name == "cos") return tern::Value(std::cos(x));
  failf(ErrorKind::not_supported, "math.{} is not supported in __init__", name);
}

}  // namespace

Device device_named(std::string_view name) {
  if (name == "cpu" || name.starts_with("cpu:")) return kCPU;
  if (name == "meta") return kMeta;
  failf(ErrorKind::not_supported, "there is no device '{}' here: cpu and meta", name);
}

PythonValue call_function(const std::string& name, PythonArgs& args) {
  std::string last = name.substr(name.rfind('.') + 1);
  if (name.starts_with("torch.nn.init.")) return initialise(last, args);
  if (name.starts_with("math.")) return mathematics(last, args);
  if (name.starts_with("torch.") && name.find('.', 6) == std::string::npos) {
    std::vector<tern::Value> positional;
    for (const PythonValue& v : args.positional) positional.push_back(to_value(v, "an argument"));
    if (last == "Size") return PythonValue(positional.at(0));
    if (last == "device") return tern::Value(device_named(positional.at(0).string()));
    return call_operator(last, std::move(positional), keyword_values(args));
  }
  failf(ErrorKind::not_supported, "{} cannot be called in __init__", name);
}

PythonValue call_tensor_method(const Tensor& self, const std::string& name, PythonArgs& args) {
  std::vector<tern::Value> positional{tern::Value(self)};
  for (const PythonValue& v : args.positional) positional.push_back(to_value(v, "an argument"));
  if (name == "size" && positional.size() == 2) {
    int64_t d = positional[1].to_int();
    return tern::Value(self.size(d));
  }
  if (name == "float") return tern::Value(self.to(kFloat));
  if (name == "double") return tern::Value(self.to(DType::float64));
  if (name == "long") return tern::Value(self.to(kLong));
  return call_operator(name, std::move(positional), keyword_values(args));
}

}  // namespace tern::jit
