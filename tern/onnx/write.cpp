// ModelProto to the wire: tensors are streamed from where they are, large ones into a file beside the model.
#include "tern/base/format.h"
#include "tern/io/protobuf.h"
#include "tern/onnx/model.h"

namespace tern::onnx {

namespace {

using io::ProtoWriter;

// Data that is put outside: in this order, each at its offset.
struct Outside {
  std::string name;
  uint64_t threshold = 0;
  uint64_t end = 0;
  std::vector<std::pair<uint64_t, io::Blob>> parts = {};

  bool takes(const TensorProto& t) const { return !name.empty() && t.raw.bytes.size() >= threshold; }
  uint64_t place(const TensorProto& t) {
    // Pages for what is worth mapping on its own, cache lines for the rest.
    uint64_t alignment = t.raw.bytes.size() >= 65536 ? 4096 : 64;
    uint64_t at = (end + alignment - 1) / alignment * alignment;
    end = at + t.raw.bytes.size();
    parts.emplace_back(at, t.raw);
    return at;
  }
};

class Writer {
 public:
  explicit Writer(Outside& outside) : outside_(outside) {}
  void model(const Model& m);
  ProtoWriter out;

 private:
  void graph(const GraphProto& g);
  void node(const NodeProto& n);
  void attribute(const Attribute& a);
  void function(const FunctionProto& f);
  void tensor(const TensorProto& t, bool may_be_outside);
  void type(const TypeProto& t);
  void value_info(const ValueInfo& v);
  void opset(uint32_t field, const OpsetId& o);
  void entries(uint32_t field, const Entries& list);
  void external(std::string_view location, uint64_t offset, std::optional<uint64_t> length);
  void text(uint32_t field, const std::string& s) {
    if (!s.empty()) out.string(field, s);
  }

  Outside& outside_;
};

uint64_t inline_bytes(const GraphProto& g) {
  uint64_t n = 0;
  for (const TensorProto& t : g.initializers)
    if (!(t.external && t.raw.bytes.empty())) n += t.raw.bytes.size();
  for (const NodeProto& node : g.nodes)
    for (const Attribute& a : node.attributes) {
      for (const TensorProto& t : a.tensors) n += t.raw.bytes.size();
      for (const auto& inner : a.graphs) n += inline_bytes(*inner);
    }
  return n;
}

}  // namespace

void write(const Model& model, const std::string& path, const WriteOptions& options) {
  using Mode = WriteOptions::ExternalData;
  Outside outside;
  outside.threshold = options.external_threshold;
  if (options.external == Mode::always ||
      (options.external == Mode::automatic && inline_bytes(model.graph) > options.inline_limit)) {
    size_t slash = path.find_last_of('/');
    outside.name = !options.external_name.empty()
                       ? options.external_name
                       : path.substr(slash == std::string::npos ? 0 : slash + 1) + ".data";
    if (outside.name.find('/') != std::string::npos)
      failf(ErrorKind::value,
            "onnx::write: the external data '{}' must stand beside the model: give a name without '/'",
            outside.name);
  }
  Writer writer(outside);
  writer.model(model);
  if (writer.out.size() > ProtoWriter::kMaxMessage)
    failf(
        ErrorKind::value,
        "onnx::write: the model has {} bytes, more than the 2 GB an ONNX file may have; allow external data",
        writer.out.size());

  // The data first: a model never refers to what is not there.
  if (!outside.parts.empty()) {
    size_t slash = path.find_last_of('/');
    io::FileWriter data(slash == std::string::npos ? outside.name : path.substr(0, slash + 1) + outside.name);
    static const char zeros[4096] = {};
    for (const auto& [at, blob] : outside.parts) {
      data.write(zeros, static_cast<size_t>(at - data.position()));
      data.write(blob.bytes);
    }
    data.commit();
  }
  io::FileWriter file(path);
  writer.out.write(file);
  file.commit();
}

std::string to_bytes(const Model& model) {
  Outside nothing;
  Writer writer(nothing);
  writer.model(model);
  return writer.out.str();
}

namespace {

void Writer::model(const Model& m) {
  out.int64(1, m.ir_version);
  text(2, m.producer);
  text(3, m.producer_version);
  text(4, m.domain);
  if (m.model_version) out.int64(5, m.model_version);
  text(6, m.doc);
  out.begin(7);
  graph(m.graph);
  out.end();
  for (const OpsetId& o : m.opsets) opset(8, o);
  entries(14, m.metadata);
  for (const FunctionProto& f : m.functions) {
    out.begin(25);
    function(f);
    out.end();
  }
}

void Writer::graph(const GraphProto& g) {
  for (const NodeProto& n : g.nodes) {
    out.begin(1);
    node(n);
    out.end();
  }
  out.string(2, g.name);
  for (const TensorProto& t : g.initializers) {
    out.begin(5);
    tensor(t, true);
    out.end();
  }
  text(10, g.doc);
  auto infos = [&](uint32_t field, const std::vector<ValueInfo>& list) {
    for (const ValueInfo& v : list) {
      out.begin(field);
      value_info(v);
      out.end();
    }
  };
  infos(11, g.inputs);
  infos(12, g.outputs);
  infos(13, g.values);
  entries(16, g.metadata);
}

void Writer::node(const NodeProto& n) {
  for (const std::string& name : n.inputs) out.string(1, name);
  for (const std::string& name : n.outputs) out.string(2, name);
  text(3, n.name);
  out.string(4, n.op);
  for (const Attribute& a : n.attributes) {
    out.begin(5);
    attribute(a);
    out.end();
  }
  text(6, n.doc);
  text(7, n.domain);
  text(8, n.overload);
  entries(9, n.metadata);
}

void Writer::attribute(const Attribute& a) {
  using Type = Attribute::Type;
  out.string(1, a.name);
  if (a.ref.empty()) switch (a.type) {
      case Type::float_:
        out.float32(2, a.f);
        break;
      case Type::int_:
        out.int64(3, a.i);
        break;
      case Type::string:
        out.string(4, a.s);
        break;
      case Type::floats:
        for (float f : a.floats) out.float32(7, f);
        break;
      case Type::ints:
        for (int64_t i : a.ints) out.int64(8, i);
        break;
      case Type::strings:
        for (const std::string& s : a.strings) out.string(9, s);
        break;
      case Type::tensor:
      case Type::tensors:
        for (const TensorProto& t : a.tensors) {
          out.begin(a.type == Type::tensor ? 5 : 10);
          tensor(t, false);
          out.end();
        }
        break;
      case Type::graph:
      case Type::graphs:
        for (const auto& g : a.graphs) {
          out.begin(a.type == Type::graph ? 6 : 11);
          graph(*g);
          out.end();
        }
        break;
      case Type::type_proto:
      case Type::type_protos:
        for (const TypeProto& t : a.types) {
          out.begin(a.type == Type::type_proto ? 14 : 15);
          type(t);
          out.end();
        }
        break;
      case Type::undefined:
        break;
    }
  text(13, a.doc);
  out.int32(20, static_cast<int32_t>(a.type));
  text(21, a.ref);
}

void Writer::function(const FunctionProto& f) {
  out.string(1, f.name);
  for (const std::string& s : f.inputs) out.string(4, s);
  for (const std::string& s : f.outputs) out.string(5, s);
  for (const std::string& s : f.attributes) out.string(6, s);
  for (const NodeProto& n : f.nodes) {
    out.begin(7);
    node(n);
    out.end();
  }
  text(8, f.doc);
  for (const OpsetId& o : f.opsets) opset(9, o);
  out.string(10, f.domain);
  for (const Attribute& a : f.defaults) {
    out.begin(11);
    attribute(a);
    out.end();
  }
  for (const ValueInfo& v : f.values) {
    out.begin(12);
    value_info(v);
    out.end();
  }
  text(13, f.overload);
  entries(14, f.metadata);
}

void Writer::tensor(const TensorProto& t, bool may_be_outside) {
  out.packed_int64(1, t.dims);
  out.int32(2, static_cast<int32_t>(t.type));
  for (const std::string& s : t.strings) out.string(6, s);
  out.string(8, t.name);
  bool reference = t.external && t.raw.bytes.empty() && t.numel() != 0;
  if (reference) {
    external(t.external->location, t.external->offset, t.external->length);
  } else if (may_be_outside && outside_.takes(t)) {
    external(outside_.name, outside_.place(t), t.raw.bytes.size());
  } else if (t.type != DataType::string) {
    out.borrowed_bytes(9, t.raw.bytes);
  }
  text(12, t.doc);
  entries(16, t.metadata);
}

void Writer::external(std::string_view location, uint64_t offset, std::optional<uint64_t> length) {
  auto entry = [&](std::string_view key, std::string_view value) {
    out.begin(13);
    out.string(1, key);
    out.string(2, value);
    out.end();
  };
  entry("location", location);
  entry("offset", std::to_string(offset));
  if (length) entry("length", std::to_string(*length));
  out.int32(14, 1);
}

void Writer::type(const TypeProto& t) {
  using Kind = TypeProto::Kind;
  auto inner = [&](uint32_t field) {
    if (!t.element) return;
    out.begin(field);
    type(*t.element);
    out.end();
  };
  switch (t.kind) {
    case Kind::none:
      break;
    case Kind::tensor:
    case Kind::sparse_tensor:
      out.begin(t.kind == Kind::tensor ? 1 : 8);
      out.int32(1, static_cast<int32_t>(t.elem_type));
      if (t.shape) {
        out.begin(2);
        for (const Dimension& d : *t.shape) {
          out.begin(1);
          if (d.value)
            out.int64(1, *d.value);
          else if (!d.param.empty())
            out.string(2, d.param);
          out.end();
        }
        out.end();
      }
      out.end();
      break;
    case Kind::sequence:
    case Kind::optional:
      out.begin(t.kind == Kind::sequence ? 4 : 9);
      inner(1);
      out.end();
      break;
    case Kind::map:
      out.begin(5);
      out.int32(1, static_cast<int32_t>(t.elem_type));
      inner(2);
      out.end();
      break;
    case Kind::opaque:
      out.begin(7);
      out.end();
      break;
  }
  text(6, t.denotation);
}

void Writer::value_info(const ValueInfo& v) {
  out.string(1, v.name);
  if (v.type.kind != TypeProto::Kind::none) {
    out.begin(2);
    type(v.type);
    out.end();
  }
  text(3, v.doc);
  entries(4, v.metadata);
}

void Writer::opset(uint32_t field, const OpsetId& o) {
  out.begin(field);
  out.string(1, o.domain);
  out.int64(2, o.version);
  out.end();
}

void Writer::entries(uint32_t field, const Entries& list) {
  for (const Entry& e : list) {
    out.begin(field);
    out.string(1, e.key);
    out.string(2, e.value);
    out.end();
  }
}

}  // namespace
}  // namespace tern::onnx
