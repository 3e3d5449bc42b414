// An ONNX model as plain structs: what onnx.proto describes, after reading. Tensors keep their bytes where
// they were (mapped from the model or from its external data); nothing here knows what an operator means.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tern/base/pointer.h"
#include "tern/io/file.h"
#include "tern/tensor/tensor.h"

namespace tern::onnx {

// Codes of TensorProto.DataType.
enum class DataType : int32_t {
  undefined = 0,
  float32 = 1,
  uint8 = 2,
  int8 = 3,
  uint16 = 4,
  int16 = 5,
  int32 = 6,
  int64 = 7,
  string = 8,
  bool_ = 9,
  float16 = 10,
  float64 = 11,
  uint32 = 12,
  uint64 = 13,
  complex64 = 14,
  complex128 = 15,
  bfloat16 = 16,
  float8_e4m3fn = 17,
  float8_e4m3fnuz = 18,
  float8_e5m2 = 19,
  float8_e5m2fnuz = 20,
  uint4 = 21,
  int4 = 22,
  float4_e2m1 = 23,
  float8_e8m0 = 24,
  uint2 = 25,
  int2 = 26,
  float6_e2m3 = 27,
  float6_e3m2 = 28,
};
std::string_view name(DataType type);  // "FLOAT", as onnx.proto spells it; "UNDEFINED" for codes nobody knows
DataType data_type_of(DType dtype);    // throws not_supported for dtypes ONNX does not have
DType dtype_of(DataType type);         // undefined where Tern has no such dtype (strings, sub-byte types)
int bits_of(DataType type);            // of an element; 0 for strings and unknown codes

struct Entry {
  std::string key, value;
};
using Entries = std::vector<Entry>;

// Bytes that stand in another file: relative to the model's folder.
struct External {
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length = {};
};

struct TensorProto {
  std::string name, doc = {};
  DataType type = DataType::undefined;
  std::vector<int64_t> dims = {};
  io::Blob raw = {};  // elements in row-major order, little endian; typed fields are read into it
  std::vector<std::string> strings = {};  // of a STRING tensor
  // Where the bytes stand or shall stand. A tensor with `external` and without `raw` is written as a
  // reference only.
  std::optional<External> external = {};
  Entries metadata = {};

  int64_t numel() const;  // dims were checked when read
};

struct Dimension {
  std::optional<int64_t> value = {};
  std::string param = {};  // "batch"; both empty: unknown
};

struct TypeProto {
  enum class Kind : uint8_t { none, tensor, sequence, map, optional, sparse_tensor, opaque };
  Kind kind = Kind::none;
  DataType elem_type = DataType::undefined;  // tensor, sparse_tensor; the key of a map
  std::optional<std::vector<Dimension>> shape = {};
  Shared<TypeProto> element = {};  // of a sequence or optional; the value of a map
  std::string denotation = {};

  static TypeProto tensor(DataType type, std::optional<std::vector<Dimension>> shape = {});
  static TypeProto sequence(TypeProto element);
  std::string str() const;  // "float32[batch, 3]"
};

struct ValueInfo {
  std::string name;
  TypeProto type = {};
  std::string doc = {};
  Entries metadata = {};
};

struct GraphProto;

struct Attribute {
  enum class Type : int32_t {
    undefined = 0,
    float_ = 1,
    int_ = 2,
    string = 3,
    tensor = 4,
    graph = 5,
    floats = 6,
    ints = 7,
    strings = 8,
    tensors = 9,
    graphs = 10,
    type_proto = 13,
    type_protos = 14,
  };
  std::string name;
  Type type = Type::undefined;
  std::string ref = {}, doc = {};  // ref: the function's attribute it stands for
  float f = 0;
  int64_t i = 0;
  std::string s = {};
  std::vector<float> floats = {};
  std::vector<int64_t> ints = {};
  std::vector<std::string> strings = {};
  std::vector<TensorProto> tensors = {};        // one for Type::tensor
  std::vector<Shared<GraphProto>> graphs = {};  // one for Type::graph
  std::vector<TypeProto> types = {};

  static Attribute of(std::string name, int64_t value);
  static Attribute of(std::string name, float value);
  static Attribute of(std::string name, std::string value);
  static Attribute of(std::string name, std::vector<int64_t> value);
  static Attribute of(std::string name, std::vector<float> value);
  static Attribute of(std::string name, std::vector<std::string> value);
  static Attribute of(std::string name, TensorProto value);
  static Attribute of(std::string name, Shared<GraphProto> value);
};

struct NodeProto {
  std::string op, name = {}, domain = {}, overload = {}, doc = {};
  std::vector<std::string> inputs = {}, outputs = {};  // "" where an optional one is left out
  std::vector<Attribute> attributes = {};
  Entries metadata = {};

  const Attribute* find(std::string_view attribute) const;  // nullptr if absent
};

struct GraphProto {
  std::string name, doc = {};
  std::vector<NodeProto> nodes = {};
  std::vector<TensorProto> initializers = {};
  std::vector<ValueInfo> inputs = {}, outputs = {}, values = {};
  Entries metadata = {};
};

struct OpsetId {
  std::string domain;  // "" is ONNX itself
  int64_t version = 0;
};

struct FunctionProto {
  std::string name, domain = {}, overload = {}, doc = {};
  std::vector<std::string> inputs = {}, outputs = {}, attributes = {};
  std::vector<Attribute> defaults = {};
  std::vector<NodeProto> nodes = {};
  std::vector<OpsetId> opsets = {};
  std::vector<ValueInfo> values = {};
  Entries metadata = {};
};

struct Model {
  int64_t ir_version = 10;
  std::string producer = "tern", producer_version = {}, domain = {}, doc = {};
  int64_t model_version = 0;
  std::vector<OpsetId> opsets = {};
  GraphProto graph = {};
  std::vector<FunctionProto> functions = {};
  Entries metadata = {};

  int64_t opset(std::string_view domain = {}) const;  // 0 where it is not imported
};

// ---- reading: mapped, bounded; what is wrong is Error(file), what ONNX has and Tern has not is
// Error(not_supported) ----
struct ReadOptions {
  std::string folder = {};    // where external data is looked for
  bool external_data = true;  // false: references stay references
};
Model load(const std::string& path);
Model read(const io::Blob& bytes, const ReadOptions& options = {});

// ---- writing ----
struct WriteOptions {
  enum class ExternalData : uint8_t { automatic, always, never } external = ExternalData::automatic;
  std::string external_name = {};       // by default the model's file name with ".data" behind it
  uint64_t external_threshold = 1024;   // smaller tensors stay in the model
  uint64_t inline_limit = 1800u << 20;  // automatic: bytes of tensors from which on data goes outside
};
// The model, and its external data beside it. Throws Error(value) where a model without external data exceeds
// 2 GB.
void write(const Model& model, const std::string& path, const WriteOptions& options = {});
std::string to_bytes(const Model& model);  // references are kept; all other data inline

// ---- tensors ----
// Shares memory where the tensor is dense; sub-byte and string types are refused on the way to a Tensor.
TensorProto to_proto(const Tensor& tensor, std::string name = {});
Tensor to_tensor(const TensorProto& proto);

}  // namespace tern::onnx
