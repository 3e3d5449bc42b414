// Facts about data types, small constructors, and the way between TensorProto and Tensor.
#include "tern/onnx/model.h"

#include "tern/base/format.h"

namespace tern::onnx {

namespace {

struct TypeFacts {
  DataType type;
  const char* name;
  DType dtype;
  int bits;
};
constexpr TypeFacts type_facts[] = {
    {DataType::float32, "FLOAT", DType::float32, 32},
    {DataType::uint8, "UINT8", DType::uint8, 8},
    {DataType::int8, "INT8", DType::int8, 8},
    {DataType::uint16, "UINT16", DType::uint16, 16},
    {DataType::int16, "INT16", DType::int16, 16},
    {DataType::int32, "INT32", DType::int32, 32},
    {DataType::int64, "INT64", DType::int64, 64},
    {DataType::string, "STRING", DType::undefined, 0},
    {DataType::bool_, "BOOL", DType::bool_, 8},
    {DataType::float16, "FLOAT16", DType::float16, 16},
    {DataType::float64, "DOUBLE", DType::float64, 64},
    {DataType::uint32, "UINT32", DType::uint32, 32},
    {DataType::uint64, "UINT64", DType::uint64, 64},
    {DataType::complex64, "COMPLEX64", DType::complex64, 64},
    {DataType::complex128, "COMPLEX128", DType::complex128, 128},
    {DataType::bfloat16, "BFLOAT16", DType::bfloat16, 16},
    {DataType::float8_e4m3fn, "FLOAT8E4M3FN", DType::float8_e4m3fn, 8},
    {DataType::float8_e4m3fnuz, "FLOAT8E4M3FNUZ", DType::float8_e4m3fnuz, 8},
    {DataType::float8_e5m2, "FLOAT8E5M2", DType::float8_e5m2, 8},
    {DataType::float8_e5m2fnuz, "FLOAT8E5M2FNUZ", DType::float8_e5m2fnuz, 8},
    {DataType::uint4, "UINT4", DType::undefined, 4},
    {DataType::int4, "INT4", DType::undefined, 4},
    {DataType::float4_e2m1, "FLOAT4E2M1", DType::undefined, 4},
    {DataType::float8_e8m0, "FLOAT8E8M0", DType::undefined, 8},
    {DataType::uint2, "UINT2", DType::undefined, 2},
    {DataType::int2, "INT2", DType::undefined, 2},
    {DataType::float6_e2m3, "FLOAT6E2M3", DType::undefined, 6},
    {DataType::float6_e3m2, "FLOAT6E3M2", DType::undefined, 6},
};

const TypeFacts* facts(DataType type) {
  for (const TypeFacts& f : type_facts)
    if (f.type == type) return &f;
  return nullptr;
}

Attribute named(std::string name, Attribute::Type type) {
  Attribute a;
  a.name = std::move(name);
  a.type = type;
  return a;
}

}  // namespace

std::string_view name(DataType type) {
  const TypeFacts* f = facts(type);
  return f ? f->name : "UNDEFINED";
}

DataType data_type_of(DType dtype) {
  if (dtype != DType::undefined)
    for (const TypeFacts& f : type_facts)
      if (f.dtype == dtype) return f.type;
  failf(ErrorKind::not_supported, "onnx: there is no ONNX type for {}; cast it before the export",
        dtype == DType::undefined ? "a tensor of unknown dtype" : tern::name(dtype));
}

DType dtype_of(DataType type) {
  const TypeFacts* f = facts(type);
  return f ? f->dtype : DType::undefined;
}

int bits_of(DataType type) {
  const TypeFacts* f = facts(type);
  return f ? f->bits : 0;
}

int64_t TensorProto::numel() const {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

TypeProto TypeProto::tensor(DataType type, std::optional<std::vector<Dimension>> shape) {
  TypeProto t;
  t.kind = Kind::tensor;
  t.elem_type = type;
  t.shape = std::move(shape);
  return t;
}

TypeProto TypeProto::sequence(TypeProto element) {
  TypeProto t;
  t.kind = Kind::sequence;
  t.element = new_shared<TypeProto>(std::move(element));
  return t;
}

std::string TypeProto::str() const {
  auto inner = [&] { return element ? element->str() : std::string("?"); };
  switch (kind) {
    case Kind::none:
      return "?";
    case Kind::sequence:
      return "seq(" + inner() + ")";
    case Kind::optional:
      return "optional(" + inner() + ")";
    case Kind::map:
      return fmt::format("map({}, {})", onnx::name(elem_type), inner());
    case Kind::opaque:
      return "opaque";
    default:
      break;
  }
  std::string text(onnx::name(elem_type));
  if (kind == Kind::sparse_tensor) text = "sparse " + text;
  if (!shape) return text;
  text += '[';
  for (size_t i = 0; i < shape->size(); ++i) {
    const Dimension& d = (*shape)[i];
    if (i) text += ", ";
    text += d.value ? std::to_string(*d.value) : d.param.empty() ? "?" : d.param;
  }
  return text + ']';
}

Attribute Attribute::of(std::string name, int64_t value) {
  Attribute a = named(std::move(name), Type::int_);
  a.i = value;
  return a;
}
Attribute Attribute::of(std::string name, float value) {
  Attribute a = named(std::move(name), Type::float_);
  a.f = value;
  return a;
}
Attribute Attribute::of(std::string name, std::string value) {
  Attribute a = named(std::move(name), Type::string);
  a.s = std::move(value);
  return a;
}
Attribute Attribute::of(std::string name, std::vector<int64_t> value) {
  Attribute a = named(std::move(name), Type::ints);
  a.ints = std::move(value);
  return a;
}
Attribute Attribute::of(std::string name, std::vector<float> value) {
  Attribute a = named(std::move(name), Type::floats);
  a.floats = std::move(value);
  return a;
}
Attribute Attribute::of(std::string name, std::vector<std::string> value) {
  Attribute a = named(std::move(name), Type::strings);
  a.strings = std::move(value);
  return a;
}
Attribute Attribute::of(std::string name, TensorProto value) {
  Attribute a = named(std::move(name), Type::tensor);
  a.tensors.push_back(std::move(value));
  return a;
}
Attribute Attribute::of(std::string name, Shared<GraphProto> value) {
  Attribute a = named(std::move(name), Type::graph);
  a.graphs.push_back(std::move(value));
  return a;
}

const Attribute* NodeProto::find(std::string_view attribute) const {
  for (const Attribute& a : attributes)
    if (a.name == attribute) return &a;
  return nullptr;
}

int64_t Model::opset(std::string_view wanted) const {
  auto plain = [](std::string_view d) { return d == "ai.onnx" ? std::string_view() : d; };
  for (const OpsetId& o : opsets)
    if (plain(o.domain) == plain(wanted)) return o.version;
  return 0;
}

TensorProto to_proto(const Tensor& tensor, std::string name) {
  if (!tensor.defined()) fail(ErrorKind::value, "onnx: an undefined tensor cannot be written");
  if (tensor.is_fake() || tensor.is_symbolic())
    failf(ErrorKind::value,
          "onnx: the tensor '{}' has no data (it is fake or meta); load its weights before the export", name);
  TensorProto p;
  p.name = std::move(name);
  p.type = data_type_of(tensor.dtype());
  p.dims.assign(tensor.int_sizes(), tensor.int_sizes() + tensor.dim());
  auto dense = new_shared<Tensor>(tensor.is_contiguous() ? tensor : tensor.detach().contiguous());
  size_t bytes = static_cast<size_t>(dense->int_numel() * dense->element_size());
  p.raw = {{static_cast<const uint8_t*>(bytes ? dense->data() : nullptr), bytes}, dense};
  return p;
}

Tensor to_tensor(const TensorProto& proto) {
  DType dtype = dtype_of(proto.type);
  if (dtype == DType::undefined)
    failf(ErrorKind::not_supported,
          "onnx: the tensor '{}' has the element type {}, which Tern has no dtype for", proto.name,
          name(proto.type));
  Dims sizes;
  for (int64_t d : proto.dims) sizes.push_back(d);
  uint64_t bytes = static_cast<uint64_t>(proto.numel()) * static_cast<uint64_t>(element_size(dtype));
  if (proto.raw.bytes.size() != bytes)
    failf(ErrorKind::file, "onnx: the tensor '{}' has {} bytes of data where its shape needs {}{}",
          proto.name, proto.raw.bytes.size(), bytes,
          proto.external ? "; its external data '" + proto.external->location + "' was not read" : "");
  // Mapped pages are read-only and elements must be aligned: what is not is copied.
  auto address = reinterpret_cast<uintptr_t>(proto.raw.bytes.data());
  if (bytes && address % static_cast<uintptr_t>(element_size(dtype)) == 0)
    return from_memory(const_cast<uint8_t*>(proto.raw.bytes.data()), dtype, sizes, proto.raw.owner);
  Tensor t = make_tensor(sizes, dtype);
  if (bytes) std::copy(proto.raw.bytes.begin(), proto.raw.bytes.end(), static_cast<uint8_t*>(t.data()));
  return t;
}

}  // namespace tern::onnx
