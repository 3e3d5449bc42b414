// An ExportedProgram as the JSON of the .pt2 schema: the document, the signature, the modules' calls.
#include <unordered_set>

#include "tern/base/format.h"
#include "tern/export/effects.h"
#include "tern/export/numbers.h"
#include "tern/export/pt2_control.h"
#include "tern/export/pt2_names.h"
#include "tern/export/pt2_schema.h"
#include "tern/export/pt2_write.h"

namespace tern::pt2 {
namespace {

class ProgramWriter : GraphWriter {
 public:
  explicit ProgramWriter(const ExportedProgram& program) : GraphWriter(program) {}

  std::string write() {
    w_.begin_object();
    w_.key("graph_module");
    w_.begin_object();
    w_.key("graph");
    write_graph(graph_.top(), false);
    w_.key("signature");
    write_signature();
    w_.key("module_call_graph");
    write_module_calls();
    w_.key("metadata");
    empty_object();
    w_.key("treespec_namedtuple_fields");
    write_named_tuples();
    w_.end_object();
    w_.key("opset_version");
    w_.begin_object();
    w_.member("aten", 10);
    w_.end_object();
    w_.key("range_constraints");
    w_.begin_object();
    for (const auto& [symbol, range] : data_.range_constraints) {
      w_.key(symbol);
      w_.begin_object();
      w_.key("min_val");
      bound(range.min, -Range::infinity);
      w_.key("max_val");
      bound(range.max, Range::infinity);
      w_.end_object();
    }
    w_.end_object();
    w_.key("schema_version");
    w_.begin_object();
    w_.member("major", 8);
    w_.member("minor", 20);
    w_.end_object();
    w_.key("verifiers");
    w_.begin_array();
    w_.value(name_of(data_.dialect));
    w_.end_array();
    w_.member("torch_version", "2.13.0");
    w_.key("guards_code");
    w_.begin_array();
    w_.end_array();
    w_.end_object();
    return w_.take();
  }

 private:
  void bound(int64_t value, int64_t none) {
    if (value == none)
      w_.null();
    else
      w_.value(value);
  }

  void write_signature() {
    w_.begin_object();
    w_.key("input_specs");
    w_.begin_array();
    for (size_t i = 0; i < data_.signature.inputs.size(); ++i)
      input_spec(data_.signature.inputs[i], *graph_.inputs()[i]);
    w_.end_array();
    w_.key("output_specs");
    w_.begin_array();
    for (size_t i = 0; i < data_.signature.outputs.size(); ++i)
      output_spec(data_.signature.outputs[i], graph_.outputs()[i]);
    w_.end_array();
    w_.end_object();
  }

  void input_spec(const InputSpec& s, const ir::Value& v) {
    auto targeted = [&](std::string_view kind, std::string_view key) {
      one(kind, [&] {
        w_.begin_object();
        w_.key("arg");
        named(s.name);
        w_.member(key, s.target);
        if (s.kind == InputKind::buffer) w_.member("persistent", s.persistent);
        w_.end_object();
      });
    };
    switch (s.kind) {
      case InputKind::parameter:
        return targeted("parameter", "parameter_name");
      case InputKind::buffer:
        return targeted("buffer", "buffer_name");
      case InputKind::constant_tensor:
        return targeted("tensor_constant", "tensor_constant_name");
      case InputKind::custom_obj:
        return one("custom_obj", [&] {
          w_.begin_object();
          w_.key("arg");
          custom_object(s);
          w_.member("custom_obj_name", s.target);
          w_.end_object();
        });
      case InputKind::token:
        return one("token", [&] { one("arg", [&] { named(s.name); }); });
      case InputKind::user_input:
        break;
    }
    if (s.constant)
      return one("constant_input", [&] {
        w_.begin_object();
        w_.member("name", s.name);
        w_.key("value");
        constant_value(*s.constant);
        w_.end_object();
      });
    one("user_input", [&] { one("arg", [&] { value_argument(v); }); });
  }

  void constant_value(const Value& v) {
    switch (v.kind()) {
      case ValueKind::none:
        return one_value("as_none", true);
      case ValueKind::int_:
        return one_value("as_int", v.to_int());
      case ValueKind::float_:
        return one_value("as_float", v.to_double());
      case ValueKind::bool_:
        return one_value("as_bool", v.to_bool());
      case ValueKind::string:
        return one_value("as_string", v.string());
      default:
        failf(ErrorKind::not_supported, "a .pt2 file cannot hold an input that is a {}", v.kind_name());
    }
  }

  void output_spec(const OutputSpec& s, const ir::Operand& o) {
    auto targeted = [&](std::string_view kind, std::string_view key) {
      one(kind, [&] {
        w_.begin_object();
        w_.key("arg");
        named(s.name);
        w_.member(key, s.target);
        w_.end_object();
      });
    };
    switch (s.kind) {
      case OutputKind::buffer_mutation:
        return targeted("buffer_mutation", "buffer_name");
      case OutputKind::parameter_mutation:
        return targeted("parameter_mutation", "parameter_name");
      case OutputKind::gradient_to_parameter:
        return targeted("gradient_to_parameter", "parameter_name");
      case OutputKind::gradient_to_user_input:
        return targeted("gradient_to_user_input", "user_input_name");
      case OutputKind::user_input_mutation:
        return targeted("user_input_mutation", "user_input_name");
      case OutputKind::token:
        return one("token", [&] { one("arg", [&] { named(s.name); }); });
      case OutputKind::loss_output:
        return one("loss_output", [&] { one("arg", [&] { named(s.name); }); });
      case OutputKind::user_output:
        return one("user_output", [&] { one("arg", [&] { argument(o); }); });
    }
  }

  void write_module_calls() {
    w_.begin_array();
    for (const ModuleCall& call : data_.module_calls) {
      w_.begin_object();
      w_.member("fqn", call.path);
      w_.key("signature");
      if (!call.signature) {
        w_.null();
      } else {
        w_.begin_object();
        auto names = [&](std::string_view key, const std::vector<std::string>& all) {
          w_.key(key);
          w_.begin_array();
          for (const std::string& name : all) {
            const ir::Value* v = graph_.find(name);
            if (v)
              value_argument(*v);
            else
              one_value("as_none", true);
          }
          w_.end_array();
        };
        names("inputs", call.signature->inputs);
        names("outputs", call.signature->outputs);
        w_.member("in_spec", tree::to_json(call.signature->in_spec));
        w_.member("out_spec", tree::to_json(call.signature->out_spec));
        w_.key("forward_arg_names");
        w_.begin_array();
        for (const std::string& name : call.signature->arg_names) w_.value(name);
        w_.end_array();
        w_.end_object();
      }
      w_.end_object();
    }
    w_.end_array();
  }

  void write_named_tuples() {
    w_.begin_object();
    std::unordered_set<std::string> seen;
    auto walk = [&](auto& self, const tree::Spec& spec) -> void {
      if (spec.is_leaf()) return;
      if (spec.type() == "collections.namedtuple" && spec.context().is_string() && !spec.fields().empty() &&
          seen.insert(spec.context().string()).second) {
        w_.key(spec.context().string());
        one("field_names", [&] {
          w_.begin_array();
          for (const std::string& f : spec.fields()) w_.value(f);
          w_.end_array();
        });
      }
      for (const tree::Spec& child : spec.children()) self(self, child);
    };
    walk(walk, data_.in_spec);
    walk(walk, data_.out_spec);
    w_.end_object();
  }
};

}  // namespace

std::string program_json(const ExportedProgram& program) {
  ExportedProgram lowered =
      with_tensors_for_numbers(with_identifiers(with_tokens(with_control_operators(program))));
  return ProgramWriter(lowered).write();
}

void write_tensor_meta(io::JsonWriter& w, const Tensor& t, int64_t offset) {
  w.begin_object();
  w.member("dtype", scalar_type(t.dtype()));
  auto dims = [&](std::string_view key, Span<const SymInt> all) {
    w.key(key);
    w.begin_array();
    for (SymInt s : all) {
      w.begin_object();
      w.member("as_int", s.guard_int());
      w.end_object();
    }
    w.end_array();
  };
  dims("sizes", t.sizes());
  w.member("requires_grad", t.requires_grad());
  w.key("device");
  w.begin_object();
  w.member("type", "cpu");
  w.key("index");
  w.null();
  w.end_object();
  dims("strides", t.strides());
  w.key("storage_offset");
  w.begin_object();
  w.member("as_int", offset);
  w.end_object();
  w.member("layout", strided_layout);
  w.end_object();
}

}  // namespace tern::pt2
