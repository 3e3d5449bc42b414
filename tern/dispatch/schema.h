// ATen's schema language: what an operator takes, gives and mutates.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tern/base/symbol.h"
#include "tern/tensor/value.h"

namespace tern {

enum class BaseType : uint8_t {
  tensor,
  int_,
  sym_int,
  float_,
  bool_,
  sym_bool,
  complex_,
  scalar,
  string,
  dtype,
  layout,
  device,
  memory_format,
  generator,
  storage,
  stream,
  dimname,
  any,
  none,
  type_var,
  custom,
};

struct SchemaType {
  BaseType base = BaseType::any;
  bool optional = false;          // T?
  bool list = false;              // T[]
  bool element_optional = false;  // T?[]
  bool optional_list = false;     // T[]?
  int fixed_size = 0;             // int[2]: a single int stands for a list of that length
  Symbol name;                    // of a custom class, or a type variable

  std::string str() const;  // as written in a schema
  bool accepts_none() const { return list ? optional_list : optional; }
};

struct AliasInfo {
  char set = 0;           // 'a' of Tensor(a); 0 when the value aliases nothing
  bool write = false;     // Tensor(a!)
  bool wildcard = false;  // Tensor(a -> *) or (*)
};

struct SchemaArg {
  Symbol name;  // empty for an unnamed result
  SchemaType type;
  AliasInfo alias;
  std::optional<Value> default_value;
  bool keyword_only = false;
};

struct Schema {
  Symbol name;      // "aten::add"
  Symbol overload;  // "Tensor"; empty for the default overload
  std::vector<SchemaArg> args;
  std::vector<SchemaArg> returns;
  bool vararg = false, varret = false;

  std::string qualified() const;  // "aten::add.Tensor"
  std::string fx_name() const;    // "aten.add.Tensor", "aten.relu.default"
  std::string str() const;        // the whole schema
  int find(Symbol arg) const;     // index of an argument; -1 if there is none
  bool mutates() const;
};

// Parses "ns::name.overload(Tensor(a!) self, *, int dim=-1) -> (Tensor, Tensor(a!))". Without a namespace it
// is aten. Throws with the column of the mistake.
Schema parse_schema(std::string_view text);

}  // namespace tern
