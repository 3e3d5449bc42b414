// ModelProto from the wire. Field numbers are those of onnx.proto; what is read but not understood is
// skipped.
#include <cstring>
#include <map>

#include "tern/base/format.h"
#include "tern/io/protobuf.h"
#include "tern/onnx/model.h"

namespace tern::onnx {

namespace {

using io::ProtoReader;

class Reader {
 public:
  Reader(const io::Blob& blob, const ReadOptions& options) : blob_(blob), options_(options) {}

  Model model();

 private:
  GraphProto graph(ProtoReader r);
  NodeProto node(ProtoReader r);
  Attribute attribute(ProtoReader r);
  FunctionProto function(ProtoReader r);
  TensorProto tensor(ProtoReader r);
  TypeProto type(ProtoReader r);
  std::vector<Dimension> shape(ProtoReader r);
  ValueInfo value_info(ProtoReader r);
  OpsetId opset(ProtoReader r);
  Entry entry(ProtoReader r);
  void read_external(TensorProto& t, const Entries& entries);

  const io::Blob& blob_;
  const ReadOptions& options_;
  std::map<std::string, Shared<const io::MappedFile>> files_;
};

[[noreturn]] void no_sparse(std::string_view where) {
  failf(ErrorKind::not_supported,
        "onnx: sparse tensors are not supported ({}); make them dense before the model is saved", where);
}

template <class T, class V>
io::Blob pack(const std::vector<V>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T v = static_cast<T>(values[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &v, sizeof(T));
  }
  return io::own(std::move(bytes));
}

}  // namespace

Model load(const std::string& path) {
  ReadOptions options;
  size_t slash = path.find_last_of('/');
  options.folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  try {
    return read(io::map_file(path, io::MapMode::copy_on_write), options);
  } catch (const Error& e) {
    if (e.message().find(path) != std::string::npos) throw;
    throw e.with_context(path);
  }
}

Model read(const io::Blob& bytes, const ReadOptions& options) {
  if (bytes.bytes.empty()) fail(ErrorKind::file, "onnx: the file is empty");
  return Reader(bytes, options).model();
}

namespace {

Model Reader::model() {
  Model m;
  m.ir_version = 0;
  m.producer.clear();
  bool has_graph = false;
  for (ProtoReader r(blob_.bytes, "ModelProto"); r.next();) switch (r.field()) {
      case 1:
        m.ir_version = r.int64();
        break;
      case 2:
        m.producer = r.string();
        break;
      case 3:
        m.producer_version = r.string();
        break;
      case 4:
        m.domain = r.string();
        break;
      case 5:
        m.model_version = r.int64();
        break;
      case 6:
        m.doc = r.string();
        break;
      case 7:
        m.graph = graph(r.message("GraphProto"));
        has_graph = true;
        break;
      case 8:
        m.opsets.push_back(opset(r.message("OperatorSetIdProto")));
        break;
      case 14:
        m.metadata.push_back(entry(r.message("StringStringEntryProto")));
        break;
      case 25:
        m.functions.push_back(function(r.message("FunctionProto")));
        break;
      default:
        break;
    }
  if (!has_graph) fail(ErrorKind::file, "onnx: this is not an ONNX model: it has no graph");
  if (m.ir_version < 1) failf(ErrorKind::file, "onnx: the model's ir_version {} is not valid", m.ir_version);
  if (m.opsets.empty() && m.ir_version >= 3)
    fail(ErrorKind::file, "onnx: the model does not say which opset it uses (opset_import is missing)");
  return m;
}

GraphProto Reader::graph(ProtoReader r) {
  GraphProto g;
  while (r.next()) switch (r.field()) {
      case 1:
        g.nodes.push_back(node(r.message("NodeProto")));
        break;
      case 2:
        g.name = r.string();
        break;
      case 5:
        g.initializers.push_back(tensor(r.message("TensorProto")));
        break;
      case 10:
        g.doc = r.string();
        break;
      case 11:
        g.inputs.push_back(value_info(r.message("ValueInfoProto")));
        break;
      case 12:
        g.outputs.push_back(value_info(r.message("ValueInfoProto")));
        break;
      case 13:
        g.values.push_back(value_info(r.message("ValueInfoProto")));
        break;
      case 15:
        no_sparse("a sparse initializer");
      case 16:
        g.metadata.push_back(entry(r.message("StringStringEntryProto")));
        break;
      default:
        break;
    }
  return g;
}

NodeProto Reader::node(ProtoReader r) {
  NodeProto n;
  while (r.next()) switch (r.field()) {
      case 1:
        n.inputs.emplace_back(r.string());
        break;
      case 2:
        n.outputs.emplace_back(r.string());
        break;
      case 3:
        n.name = r.string();
        break;
      case 4:
        n.op = r.string();
        break;
      case 5:
        n.attributes.push_back(attribute(r.message("AttributeProto")));
        break;
      case 6:
        n.doc = r.string();
        break;
      case 7:
        n.domain = r.string();
        break;
      case 8:
        n.overload = r.string();
        break;
      case 9:
        n.metadata.push_back(entry(r.message("StringStringEntryProto")));
        break;
      default:
        break;
    }
  if (n.op.empty()) r.bad("a node has no op_type");
  if (n.domain == "ai.onnx") n.domain.clear();
  return n;
}

Attribute Reader::attribute(ProtoReader r) {
  using Type = Attribute::Type;
  Attribute a;
  Type found = Type::undefined;
  int32_t declared = 0;
  auto is = [&](Type t) { found = t; };
  while (r.next()) switch (r.field()) {
      case 1:
        a.name = r.string();
        break;
      case 2:
        a.f = r.float32(), is(Type::float_);
        break;
      case 3:
        a.i = r.int64(), is(Type::int_);
        break;
      case 4:
        a.s = r.string(), is(Type::string);
        break;
      case 5:
        a.tensors.push_back(tensor(r.message("TensorProto"))), is(Type::tensor);
        break;
      case 6:
        a.graphs.push_back(new_shared<GraphProto>(graph(r.message("GraphProto"))));
        is(Type::graph);
        break;
      case 7:
        r.append(a.floats), is(Type::floats);
        break;
      case 8:
        r.append(a.ints), is(Type::ints);
        break;
      case 9:
        a.strings.emplace_back(r.string()), is(Type::strings);
        break;
      case 10:
        a.tensors.push_back(tensor(r.message("TensorProto"))), is(Type::tensors);
        break;
      case 11:
        a.graphs.push_back(new_shared<GraphProto>(graph(r.message("GraphProto"))));
        is(Type::graphs);
        break;
      case 13:
        a.doc = r.string();
        break;
      case 14:
        a.types.push_back(type(r.message("TypeProto"))), is(Type::type_proto);
        break;
      case 15:
        a.types.push_back(type(r.message("TypeProto"))), is(Type::type_protos);
        break;
      case 20:
        declared = r.int32();
        break;
      case 21:
        a.ref = r.string();
        break;
      case 22:
      case 23:
        no_sparse("the attribute '" + a.name + "'");
      default:
        break;
    }
  if (declared == 11 || declared == 12) no_sparse("the attribute '" + a.name + "'");
  if (declared < 0 || declared > 14)
    r.bad(fmt::format("the attribute '{}' has the unknown type {}", a.name, declared));
  a.type = declared ? static_cast<Type>(declared) : found;  // old files do not say the type
  if ((a.type == Type::tensor && a.tensors.size() != 1 && a.ref.empty()) ||
      (a.type == Type::graph && a.graphs.size() != 1 && a.ref.empty()))
    r.bad(fmt::format("the attribute '{}' needs exactly one value", a.name));
  return a;
}

FunctionProto Reader::function(ProtoReader r) {
  FunctionProto f;
  while (r.next()) switch (r.field()) {
      case 1:
        f.name = r.string();
        break;
      case 4:
        f.inputs.emplace_back(r.string());
        break;
      case 5:
        f.outputs.emplace_back(r.string());
        break;
      case 6:
        f.attributes.emplace_back(r.string());
        break;
      case 7:
        f.nodes.push_back(node(r.message("NodeProto")));
        break;
      case 8:
        f.doc = r.string();
        break;
      case 9:
        f.opsets.push_back(opset(r.message("OperatorSetIdProto")));
        break;
      case 10:
        f.domain = r.string();
        break;
      case 11:
        f.defaults.push_back(attribute(r.message("AttributeProto")));
        break;
      case 12:
        f.values.push_back(value_info(r.message("ValueInfoProto")));
        break;
      case 13:
        f.overload = r.string();
        break;
      case 14:
        f.metadata.push_back(entry(r.message("StringStringEntryProto")));
        break;
      default:
        break;
    }
  return f;
}

TensorProto Reader::tensor(ProtoReader r) {
  TensorProto t;
  std::vector<float> floats;
  std::vector<int32_t> ints;
  std::vector<int64_t> longs;
  std::vector<double> doubles;
  std::vector<uint64_t> unsigneds;
  Entries external;
  bool is_external = false, has_raw = false;
  while (r.next()) switch (r.field()) {
      case 1:
        r.append(t.dims);
        break;
      case 2:
        t.type = static_cast<DataType>(r.int32());
        break;
      case 3:
        fail(ErrorKind::not_supported, "onnx: tensors in segments are not supported");
      case 4:
        r.append(floats);
        break;
      case 5:
        r.append(ints);
        break;
      case 6:
        t.strings.emplace_back(r.string());
        break;
      case 7:
        r.append(longs);
        break;
      case 8:
        t.name = r.string();
        break;
      case 9:
        t.raw = {r.bytes(), blob_.owner};
        has_raw = true;
        break;
      case 10:
        r.append(doubles);
        break;
      case 11:
        r.append(unsigneds);
        break;
      case 12:
        t.doc = r.string();
        break;
      case 13:
        external.push_back(entry(r.message("StringStringEntryProto")));
        break;
      case 14:
        is_external = r.int32() == 1;
        break;
      case 16:
        t.metadata.push_back(entry(r.message("StringStringEntryProto")));
        break;
      default:
        break;
    }
  if (name(t.type) == "UNDEFINED")
    r.bad(fmt::format("the tensor '{}' has the unknown data type {}", t.name, static_cast<int32_t>(t.type)));
  uint64_t count = 1;
  bool empty = false;
  for (int64_t d : t.dims) {
    if (d < 0) r.bad(fmt::format("the tensor '{}' has a negative dimension {}", t.name, d));
    if (d == 0) empty = true;
    if (d && __builtin_mul_overflow(count, static_cast<uint64_t>(d), &count))
      r.bad(fmt::format("the shape of the tensor '{}' overflows", t.name));
    if (count > uint64_t{1} << 58) r.bad(fmt::format("the tensor '{}' is impossibly large", t.name));
  }
  if (empty) count = 0;
  if (t.type == DataType::string) {
    if (t.strings.size() != count)
      r.bad(fmt::format("the tensor '{}' has {} strings where its shape needs {}", t.name, t.strings.size(),
                        count));
    return t;
  }
  uint64_t bytes = (count * static_cast<uint64_t>(bits_of(t.type)) + 7) / 8;
  if (is_external) {
    read_external(t, external);
    return t;
  }
  if (!has_raw) {
    switch (t.type) {
      case DataType::float32:
      case DataType::complex64:
        t.raw = pack<float>(floats);
        break;
      case DataType::float64:
      case DataType::complex128:
        t.raw = pack<double>(doubles);
        break;
      case DataType::int64:
        t.raw = pack<int64_t>(longs);
        break;
      case DataType::uint64:
        t.raw = pack<uint64_t>(unsigneds);
        break;
      case DataType::uint32:
        t.raw = pack<uint32_t>(unsigneds);
        break;
      case DataType::int32:
        t.raw = pack<int32_t>(ints);
        break;
      case DataType::int16:
      case DataType::uint16:
      case DataType::float16:
      case DataType::bfloat16:
        t.raw = pack<uint16_t>(ints);
        break;
      case DataType::bool_:
        for (int32_t& v : ints) v = v != 0;
        [[fallthrough]];
      default:
        t.raw = pack<uint8_t>(ints);  // eight bits, or sub-byte elements packed into bytes
    }
  }
  if (t.raw.bytes.size() != bytes)
    r.bad(fmt::format("the tensor '{}' of type {} has {} bytes of data where its shape needs {}", t.name,
                      name(t.type), t.raw.bytes.size(), bytes));
  return t;
}

void Reader::read_external(TensorProto& t, const Entries& entries) {
  External e;
  auto number = [&](const Entry& entry) -> uint64_t {
    uint64_t v = 0;
    bool good = !entry.value.empty() && entry.value.size() <= 18;
    for (char c : entry.value) {
      good = good && c >= '0' && c <= '9';
      if (good) v = v * 10 + static_cast<uint64_t>(c - '0');
    }
    if (!good)
      failf(ErrorKind::file, "onnx: the external data of '{}' has the {} '{}', which is no size", t.name,
            entry.key, entry.value);
    return v;
  };
  for (const Entry& entry : entries) {
    if (entry.key == "location") e.location = entry.value;
    if (entry.key == "offset") e.offset = number(entry);
    if (entry.key == "length") e.length = number(entry);
  }
  if (e.location.empty()) failf(ErrorKind::file, "onnx: the external data of '{}' has no location", t.name);
  t.external = e;
  if (!options_.external_data) return;

  // A model may not reach outside its folder.
  bool outside = e.location[0] == '/' || e.location.find('\0') != std::string::npos;
  for (size_t i = 0; !outside && i != std::string::npos;) {
    size_t slash = e.location.find('/', i);
    outside = e.location.substr(i, slash == std::string::npos ? slash : slash - i) == "..";
    i = slash == std::string::npos ? slash : slash + 1;
  }
  if (outside)
    failf(ErrorKind::file, "onnx: the external data of '{}' is at '{}', outside the model's folder", t.name,
          e.location);
  auto& file = files_[e.location];
  if (!file) {
    std::string path = options_.folder.empty()         ? e.location
                       : options_.folder.back() == '/' ? options_.folder + e.location
                                                       : options_.folder + "/" + e.location;
    try {
      file = io::MappedFile::open(path, io::MapMode::copy_on_write);
    } catch (const Error& error) {
      throw error.with_context(fmt::format("onnx: the external data of '{}'", t.name));
    }
  }
  uint64_t needed = (static_cast<uint64_t>(t.numel()) * static_cast<uint64_t>(bits_of(t.type)) + 7) / 8;
  if (e.length && *e.length != needed)
    failf(ErrorKind::file, "onnx: the external data of '{}' has {} bytes where its shape needs {}", t.name,
          *e.length, needed);
  if (e.offset > file->size() || needed > file->size() - e.offset)
    failf(ErrorKind::file,
          "onnx: the external data of '{}' ends behind the end of '{}' ({} bytes at {}, of {})", t.name,
          e.location, needed, e.offset, file->size());
  t.raw = {io::Bytes(file->bytes().data() + e.offset, needed), file};
}

std::vector<Dimension> Reader::shape(ProtoReader r) {
  std::vector<Dimension> dims;
  while (r.next()) {
    if (r.field() != 1) continue;
    Dimension& d = dims.emplace_back();
    for (ProtoReader m = r.message("Dimension"); m.next();) {
      if (m.field() == 1) d.value = m.int64();
      if (m.field() == 2) d.param = m.string();
    }
    if (d.value && *d.value < 0) d.value.reset();  // some writers say -1 for "unknown"
  }
  return dims;
}

TypeProto Reader::type(ProtoReader r) {
  using Kind = TypeProto::Kind;
  TypeProto t;
  while (r.next()) switch (r.field()) {
      case 1:
      case 8:
        t.kind = r.field() == 1 ? Kind::tensor : Kind::sparse_tensor;
        for (ProtoReader m = r.message("TypeProto.Tensor"); m.next();) {
          if (m.field() == 1) t.elem_type = static_cast<DataType>(m.int32());
          if (m.field() == 2) t.shape = shape(m.message("TensorShapeProto"));
        }
        break;
      case 4:
      case 9:
        t.kind = r.field() == 4 ? Kind::sequence : Kind::optional;
        for (ProtoReader m = r.message("TypeProto.Sequence"); m.next();)
          if (m.field() == 1) t.element = new_shared<TypeProto>(type(m.message("TypeProto")));
        break;
      case 5:
        t.kind = Kind::map;
        for (ProtoReader m = r.message("TypeProto.Map"); m.next();) {
          if (m.field() == 1) t.elem_type = static_cast<DataType>(m.int32());
          if (m.field() == 2) t.element = new_shared<TypeProto>(type(m.message("TypeProto")));
        }
        break;
      case 6:
        t.denotation = r.string();
        break;
      case 7:
        t.kind = Kind::opaque;
        break;
      default:
        break;
    }
  return t;
}

ValueInfo Reader::value_info(ProtoReader r) {
  ValueInfo v;
  while (r.next()) switch (r.field()) {
      case 1:
        v.name = r.string();
        break;
      case 2:
        v.type = type(r.message("TypeProto"));
        break;
      case 3:
        v.doc = r.string();
        break;
      case 4:
        v.metadata.push_back(entry(r.message("StringStringEntryProto")));
        break;
      default:
        break;
    }
  return v;
}

OpsetId Reader::opset(ProtoReader r) {
  OpsetId o;
  while (r.next()) {
    if (r.field() == 1) o.domain = r.string();
    if (r.field() == 2) o.version = r.int64();
  }
  if (o.domain == "ai.onnx") o.domain.clear();
  return o;
}

Entry Reader::entry(ProtoReader r) {
  Entry e;
  while (r.next()) {
    if (r.field() == 1) e.key = r.string();
    if (r.field() == 2) e.value = r.string();
  }
  return e;
}

}  // namespace
}  // namespace tern::onnx
