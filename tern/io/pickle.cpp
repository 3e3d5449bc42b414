#include "tern/base/format.h"
#include "tern/io/pickle_data.h"

namespace tern::io {

PickleDoc::PickleDoc() : data_(new_owned<Data>()) {}
PickleDoc::~PickleDoc() = default;
Pickle PickleDoc::root() const { return {this, data_->root}; }
size_t PickleDoc::node_count() const { return data_->nodes.size(); }
int PickleDoc::protocol() const { return data_->protocol; }
bool PickleDoc::cyclic() const { return data_->cyclic; }
const std::string& PickleDoc::label() const { return data_->label; }

std::string_view name_of(PickleKind kind) {
  constexpr std::string_view names[] = {"None", "bool",   "int",    "big int",      "float",
                                        "str",  "bytes",  "tuple",  "list",         "dict",
                                        "set",  "global", "object", "persistent id"};
  return names[static_cast<int>(kind)];
}

void Pickle::expected(std::string_view what) const {
  failf(ErrorKind::file, "{}: expected {}, found {}", doc_->data_->label, what, describe());
}

PickleKind Pickle::kind() const { return doc_->data_->nodes[id_].kind; }

bool Pickle::as_bool() const {
  if (!is(PickleKind::boolean)) expected("a bool");
  return doc_->data_->nodes[id_].flag;
}

int64_t Pickle::as_int() const {
  const PickleNode& node = doc_->data_->nodes[id_];
  if (node.kind == PickleKind::boolean) return node.flag;
  if (node.kind == PickleKind::big_integer) expected("an integer of 64 bits");
  if (node.kind != PickleKind::integer) expected("an int");
  return node.integer;
}

double Pickle::as_double() const {
  const PickleNode& node = doc_->data_->nodes[id_];
  if (node.kind == PickleKind::real) return node.real;
  if (node.kind == PickleKind::integer || node.kind == PickleKind::boolean)
    return static_cast<double>(as_int());
  expected("a float");
}

std::string_view Pickle::as_string() const {
  const PickleNode& node = doc_->data_->nodes[id_];
  if (node.kind != PickleKind::string) expected("a str");
  return {node.text, node.size};
}

Bytes Pickle::as_bytes() const {
  const PickleNode& node = doc_->data_->nodes[id_];
  if (node.kind != PickleKind::bytes && node.kind != PickleKind::string) expected("bytes");
  return {reinterpret_cast<const uint8_t*>(node.text), node.size};
}

std::string_view Pickle::digits() const {
  const PickleNode& node = doc_->data_->nodes[id_];
  if (node.kind != PickleKind::big_integer) expected("a big int");
  return {node.text, node.size};
}

size_t Pickle::size() const {
  const PickleDoc::Data& d = *doc_->data_;
  const PickleNode& node = d.nodes[id_];
  switch (node.kind) {
    case PickleKind::tuple:
    case PickleKind::list:
    case PickleKind::set:
      return node.size;
    case PickleKind::dict:
      return node.size / 2;
    case PickleKind::object:
      return d.elements_of(d.objects[node.a].items).size();
    default:
      expected("a tuple, list, set or dict");
  }
}

Pickle Pickle::operator[](size_t i) const {
  const PickleDoc::Data& d = *doc_->data_;
  const PickleNode& node = d.nodes[id_];
  if (node.kind == PickleKind::dict) expected("a tuple, list or set");
  if (i >= size()) failf(ErrorKind::file, "{}: {} has no element {}", d.label, describe(), i);
  return {doc_, d.elements_of(node.kind == PickleKind::object ? d.objects[node.a].items : id_)[i]};
}

Span<const uint32_t> Pickle::pairs() const {
  const PickleDoc::Data& d = *doc_->data_;
  const PickleNode& node = d.nodes[id_];
  if (node.kind == PickleKind::dict) return d.elements_of(id_);
  if (node.kind == PickleKind::object) return d.elements_of(d.objects[node.a].pairs);
  expected("a dict");
}

size_t Pickle::pair_count() const { return pairs().size() / 2; }

Pickle Pickle::key(size_t i) const {
  if (i >= pair_count()) failf(ErrorKind::file, "{}: {} has no pair {}", doc_->data_->label, describe(), i);
  return {doc_, pairs()[2 * i]};
}

Pickle Pickle::value(size_t i) const {
  if (i >= pair_count()) failf(ErrorKind::file, "{}: {} has no pair {}", doc_->data_->label, describe(), i);
  return {doc_, pairs()[2 * i + 1]};
}

std::optional<Pickle> Pickle::find(std::string_view wanted) const {
  for (size_t i = pair_count(); i-- > 0;) {
    Pickle k = key(i);
    if (k.is(PickleKind::string) && k.as_string() == wanted) return value(i);
  }
  return std::nullopt;
}

Pickle Pickle::operator[](std::string_view wanted) const {
  if (auto found = find(wanted)) return *found;
  failf(ErrorKind::file, "{}: {} has no key '{}'", doc_->data_->label, describe(), wanted);
}

std::string_view Pickle::module() const {
  const PickleNode& node = doc_->data_->nodes[id_];
  if (node.kind != PickleKind::global) expected("a global");
  return {node.text, node.a};
}

std::string_view Pickle::name() const {
  const PickleNode& node = doc_->data_->nodes[id_];
  if (node.kind != PickleKind::global) expected("a global");
  return {node.text + node.a, node.size - node.a};
}

bool Pickle::is_global(std::string_view m, std::string_view n) const {
  return is(PickleKind::global) && module() == m && name() == n;
}

bool Pickle::is_call(std::string_view m, std::string_view n) const {
  return is(PickleKind::object) && callable().is_global(m, n);
}

Pickle Pickle::callable() const {
  if (!is(PickleKind::object)) expected("an object");
  return {doc_, doc_->data_->objects[doc_->data_->nodes[id_].a].callable};
}

Pickle Pickle::args() const {
  if (!is(PickleKind::object)) expected("an object");
  return {doc_, doc_->data_->objects[doc_->data_->nodes[id_].a].args};
}

std::optional<Pickle> Pickle::kwargs() const {
  if (!is(PickleKind::object)) expected("an object");
  uint32_t id = doc_->data_->objects[doc_->data_->nodes[id_].a].kwargs;
  return id == kNoPickle ? std::nullopt : std::optional(Pickle(doc_, id));
}

std::optional<Pickle> Pickle::state() const {
  if (!is(PickleKind::object)) expected("an object");
  uint32_t id = doc_->data_->objects[doc_->data_->nodes[id_].a].state;
  return id == kNoPickle ? std::nullopt : std::optional(Pickle(doc_, id));
}

bool Pickle::made_by_new() const {
  if (!is(PickleKind::object)) expected("an object");
  return doc_->data_->nodes[id_].flag;
}

Pickle Pickle::persistent_id() const {
  const PickleNode& node = doc_->data_->nodes[id_];
  if (node.kind != PickleKind::persistent) expected("a persistent id");
  return {doc_, node.a};
}

std::string Pickle::describe() const {
  switch (kind()) {
    case PickleKind::none:
      return "None";
    case PickleKind::boolean:
      return as_bool() ? "True" : "False";
    case PickleKind::integer:
      return fmt::format("the int {}", as_int());
    case PickleKind::big_integer:
      return fmt::format("the int {}", digits());
    case PickleKind::real:
      return fmt::format("the float {}", as_double());
    case PickleKind::string:
      return as_string().size() > 60 ? fmt::format("the str '{}...'", as_string().substr(0, 57))
                                     : fmt::format("the str '{}'", as_string());
    case PickleKind::bytes:
      return fmt::format("{} bytes", as_bytes().size());
    case PickleKind::tuple:
    case PickleKind::list:
    case PickleKind::set:
      return fmt::format("a {} of {}", name_of(kind()), size());
    case PickleKind::dict:
      return fmt::format("a dict of {}", pair_count());
    case PickleKind::global:
      return fmt::format("the global {}.{}", module(), name());
    case PickleKind::object:
      return callable().is(PickleKind::global)
                 ? fmt::format("an object {}.{}(...)", callable().module(), callable().name())
                 : "an object";
    case PickleKind::persistent:
      return "a persistent id";
  }
  return "?";
}

}  // namespace tern::io
