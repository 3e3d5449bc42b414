// The syntax tree of TorchScript source. Plain data: nothing here knows types or graphs.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tern/base/pointer.h"
#include "tern/tensor/value.h"

namespace tern::script {

// The text a tree was read from; its nodes hold offsets into it.
struct Source {
  std::string text;
  std::string name;  // of the file, for messages: "code/__torch__.py", "<script>"
  uint32_t first_line = 1;

  // "name:3:7", then the line and a caret under the column.
  std::string point(uint32_t at) const;
  std::pair<uint32_t, uint32_t> line_column(uint32_t at) const;  // both from 1
};
using SourcePtr = Shared<const Source>;

[[noreturn]] void fail_at(const Source& source, uint32_t at, std::string_view message);

enum class ExprKind : uint8_t {
  constant,   // value
  name,       // text
  attribute,  // items[0].text
  subscript,  // items[0][items[1..]]
  slice,      // items: start, stop, step; each may be null; inside a subscript only
  call,       // items[0](items[1..], keywords...)
  keyword,    // text=items[0]; inside a call only
  starred,    // *items[0]
  unary,      // text: "-", "+", "~", "not"
  binary,     // text: "+", "and", "==", "in", "not in", "is", "is not", ...
  ternary,    // items: value, condition, otherwise
  list,
  tuple,
  dict,       // items alternate: key, value
  list_comp,  // items: element, target, iterable, then conditions
  dict_comp,  // items: key, value, target, iterable, then conditions
  fstring,    // items: constants and formatted expressions
  dots,       // ...
};

// A tree is many small nodes that come and go together: they live in recycled blocks.
struct Pooled {
  static void* operator new(size_t bytes) { return pool_allocate(bytes); }
  static void operator delete(void* p, size_t bytes) { pool_free(p, bytes); }
};

struct Expr;
using ExprPtr = Owned<Expr>;
struct Expr : Pooled {
  ExprKind kind;
  uint32_t at = 0;   // offset of what a caret points at
  uint32_t end = 0;  // one past the last character
  std::string text;
  tern::Value value;
  std::vector<ExprPtr> items;
};

enum class StmtKind : uint8_t {
  expr,       // value
  assign,     // targets = value; more than one target: a = b = value
  annotated,  // targets[0] : annotation [= value]
  augmented,  // targets[0] op= value
  if_,
  while_,
  for_,
  return_,
  break_,
  continue_,
  pass,
  del_,
  global,
  assert_,  // value, message
  raise,    // value
  with,     // targets: context, name or null, context, ...
  def_,     // op: the name; body. Of archives only: what fork() runs
};

struct Stmt;
using StmtPtr = Owned<Stmt>;
using Body = std::vector<StmtPtr>;
struct Stmt : Pooled {
  StmtKind kind;
  uint32_t at = 0;
  std::string op;                // augmented: "+"
  std::vector<ExprPtr> targets;  // assignment targets; a for's targets; del's operands
  ExprPtr value, annotation, message;
  Body body, otherwise;
};

struct Param {
  std::string name;
  ExprPtr annotation, default_value;
  bool keyword_only = false;
  uint32_t at = 0;
};

struct Def {
  std::string name;
  uint32_t at = 0;
  std::vector<std::string> decorators;
  // Read when first needed, by read_def: until then they are the part of the source between these offsets.
  mutable std::vector<Param> params;
  mutable ExprPtr returns;
  mutable Body body;
  mutable uint32_t unread_from = 0, unread_to = 0;
};

struct Class {
  std::string name;
  uint32_t at = 0;
  std::vector<std::string> decorators;
  std::vector<std::string> bases;  // dotted
  mutable Body body;               // assignments and annotations, until the class is declared
  mutable uint32_t unread_from = 0, unread_to = 0;  // their part of the source, until read_class
  std::vector<Def> methods;
};

struct File {
  SourcePtr source;
  std::vector<Def> defs;
  std::vector<Class> classes;
  Body statements;  // top-level assignments, imports left out
  std::vector<uint32_t> line_starts;
};

// Throws Error(value) with line, column and a caret. Nesting is bounded. With Bodies::leave nothing but
// names is looked at until read_def and read_class.
enum class Bodies : uint8_t { read, leave };
File parse_file(SourcePtr source, Bodies bodies = Bodies::read);
void read_def(const SourcePtr& source, const Def& def);
void read_class(const SourcePtr& source, const Class& c);
ExprPtr parse_expression(SourcePtr source);

}  // namespace tern::script
