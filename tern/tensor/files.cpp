#include "tern/tensor/files.h"

#include <algorithm>
#include <cstring>

#include "tern/base/format.h"
#include "tern/io/npy.h"
#include "tern/io/safetensors.h"
#include "tern/tensor/nesting.h"

namespace tern {

void note_left(const Tensor& t, std::string_view as);  // dispatch/recording.cpp

namespace {

struct NumpyType {
  DType dtype;
  const char* code;  // without the byte order
};
constexpr NumpyType numpy_types[] = {
    {kFloat, "f4"},        {kDouble, "f8"},         {kHalf, "f2"},         {kLong, "i8"},
    {kInt, "i4"},          {kShort, "i2"},          {kChar, "i1"},         {kByte, "u1"},
    {kBool, "b1"},         {DType::uint16, "u2"},   {DType::uint32, "u4"}, {DType::uint64, "u8"},
    {kComplexFloat, "c8"}, {kComplexDouble, "c16"},
};

struct SafeType {
  DType dtype;
  const char* name;
};
constexpr SafeType safe_types[] = {
    {kFloat, "F32"},
    {kDouble, "F64"},
    {kHalf, "F16"},
    {kBFloat16, "BF16"},
    {kLong, "I64"},
    {kInt, "I32"},
    {kShort, "I16"},
    {kChar, "I8"},
    {kByte, "U8"},
    {kBool, "BOOL"},
    {DType::uint16, "U16"},
    {DType::uint32, "U32"},
    {DType::uint64, "U64"},
    {DType::float8_e4m3fn, "F8_E4M3"},
    {DType::float8_e5m2, "F8_E5M2"},
    {DType::float8_e4m3fnuz, "F8_E4M3FNUZ"},
    {DType::float8_e5m2fnuz, "F8_E5M2FNUZ"},
    {kComplexFloat, "C64"},
};

Dims dims_of(const std::vector<int64_t>& shape) {
  Dims dims;
  for (int64_t s : shape) dims.push_back(s);
  return dims;
}

// Borrows the bytes where they can be used as they lie: aligned, in this machine's byte order.
Tensor from_bytes(io::Bytes bytes, const Shared<const void>& owner, DType dtype, const Dims& sizes,
                  const Dims& strides, size_t swap, const std::string& label) {
  size_t unit = static_cast<size_t>(element_size(dtype));
  if (bytes.size() < static_cast<size_t>(product(sizes).as_int()) * unit)
    failf(ErrorKind::file, "{}: {} bytes are too few for {} of size {}", label, bytes.size(), name(dtype),
          str(sizes));
  size_t alignment = is_complex(dtype) ? unit / 2 : unit;
  bool aligned = reinterpret_cast<uintptr_t>(bytes.data()) % alignment == 0;
  if (aligned && swap <= 1 && owner) {
    Storage storage = Storage::borrow(const_cast<uint8_t*>(bytes.data()), bytes.size(), owner);
    return make_view_of(storage, sizes, strides, 0, dtype);
  }
  Tensor t = make_tensor(sizes, strides, dtype);
  size_t n = static_cast<size_t>(t.int_numel()) * unit;
  if (n == 0) return t;
  auto* to = static_cast<uint8_t*>(t.data());
  std::memcpy(to, bytes.data(), n);
  if (swap > 1)
    for (size_t i = 0; i + swap <= n; i += swap) std::reverse(to + i, to + i + swap);
  return t;
}

Tensor from_npy(const io::NpyArray& array, const std::string& label) {
  std::string_view code = std::string_view(array.descr).substr(array.descr.empty() ? 0 : 1);
  for (const NumpyType& type : numpy_types) {
    if (code != type.code) continue;
    Dims sizes = dims_of(array.shape), strides = contiguous_strides(sizes);
    if (array.fortran) {
      SymInt step = 1;
      for (size_t d = 0; d < sizes.size(); ++d) {
        strides[d] = step;
        step = step * (sizes[d].as_int() ? sizes[d] : SymInt(1));
      }
    }
    size_t unit = static_cast<size_t>(element_size(type.dtype)) / (is_complex(type.dtype) ? 2 : 1);
    return from_bytes(array.data.bytes, array.data.owner, type.dtype, sizes, strides,
                      array.big_endian() ? unit : 1, label);
  }
  failf(ErrorKind::not_supported, "{}: NumPy's type '{}' has no dtype here; save it as a number or bool",
        label, array.descr);
}

Tensor row_major(const Tensor& t, const char* what) {
  if (!t.defined()) failf("{}: the tensor is undefined", what);
  if (t.is_fake()) failf("{}: the tensor has no data (it is a meta or fake tensor)", what);
  return t.is_contiguous() ? t : t.detach().contiguous();
}

io::NpyArray to_npy(const Tensor& tensor) {
  check_not_nested(tensor, "save_npy");
  note_left(tensor, "a NumPy array");
  io::NpyArray array;
  for (const NumpyType& type : numpy_types)
    if (type.dtype == tensor.dtype())
      array.descr = std::string(tensor.element_size() == 1 ? "|" : "<") + type.code;
  if (array.descr.empty())
    failf(ErrorKind::not_supported,
          "save_npy: NumPy has no type for {}; save a .safetensors, or convert the tensor first",
          name(tensor.dtype()));
  for (int64_t d = 0; d < tensor.dim(); ++d) array.shape.push_back(tensor.int_sizes()[d]);
  auto keep = new_shared<Tensor>(tensor);
  array.data = {
      io::Bytes(static_cast<const uint8_t*>(tensor.data()), static_cast<size_t>(tensor.nbytes().as_int())),
      keep};
  return array;
}

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && std::string_view(text).substr(text.size() - end.size()) == end;
}

}  // namespace

Tensor load_npy(const std::string& path) {
  return from_npy(io::parse_npy(io::map_file(path, io::MapMode::copy_on_write), path), path);
}
void save_npy(const std::string& path, const Tensor& tensor) {
  io::write_npy(path, to_npy(row_major(tensor, "save_npy")));
}

TensorMap load_npz(const std::string& path) {
  TensorMap tensors;
  // The archive maps the file for reading: what is written to later has to be a copy.
  for (const io::NpzEntry& entry : io::read_npz(path)) {
    io::NpyArray array = entry.array;
    array.data.owner = nullptr;
    tensors[entry.name] = from_npy(array, path + ": " + entry.name);
  }
  return tensors;
}
void save_npz(const std::string& path, const TensorMap& tensors, bool compress) {
  std::vector<io::NpzEntry> entries;
  for (const auto& [key, t] : tensors) entries.push_back({key, to_npy(row_major(t, "save_npz"))});
  io::write_npz(path, entries, compress);
}

TensorMap load_safetensors(const std::string& path, std::map<std::string, std::string>* metadata) {
  io::SafeTensors content = io::parse_safetensors(io::map_file(path, io::MapMode::copy_on_write), path);
  TensorMap tensors;
  for (const io::SafeTensor& entry : content.tensors) {
    const SafeType* type = std::find_if(std::begin(safe_types), std::end(safe_types),
                                        [&](const SafeType& t) { return entry.dtype == t.name; });
    if (type == std::end(safe_types))
      failf(ErrorKind::not_supported, "{}: {}: the element type {} has no dtype here", path, entry.name,
            entry.dtype);
    Dims sizes = dims_of(entry.shape);
    tensors[entry.name] = from_bytes(entry.data, content.owner, type->dtype, sizes, contiguous_strides(sizes),
                                     1, path + ": " + entry.name);
  }
  if (metadata)
    for (const auto& [key, value] : content.metadata) (*metadata)[key] = value;
  return tensors;
}

void save_safetensors(const std::string& path, const TensorMap& tensors,
                      const std::map<std::string, std::string>& metadata) {
  io::SafeTensors content;
  std::vector<Tensor> kept;
  for (const auto& [key, t] : tensors) {
    if (!t.defined()) failf("save_safetensors: {}: the tensor is undefined", key);
    const SafeType* type = std::find_if(std::begin(safe_types), std::end(safe_types),
                                        [&](const SafeType& s) { return s.dtype == t.dtype(); });
    if (type == std::end(safe_types))
      failf(ErrorKind::not_supported, "save_safetensors: {}: the format has no type for {}", key,
            name(t.dtype()));
    check_not_nested(t, "save_safetensors");
    kept.push_back(row_major(t, "save_safetensors"));
    io::SafeTensor entry;
    entry.name = key;
    entry.dtype = type->name;
    for (int64_t d = 0; d < t.dim(); ++d) entry.shape.push_back(t.int_sizes()[d]);
    entry.data =
        io::Bytes(static_cast<const uint8_t*>(kept.back().data()), static_cast<size_t>(t.nbytes().as_int()));
    content.tensors.push_back(std::move(entry));
  }
  for (const auto& item : metadata) content.metadata.emplace_back(item.first, item.second);
  io::write_safetensors(path, content);
}

TensorMap load_tensors(const std::string& path) {
  if (ends_with(path, ".npy")) return {{"", load_npy(path)}};
  if (ends_with(path, ".npz")) return load_npz(path);
  if (ends_with(path, ".safetensors")) return load_safetensors(path);
  failf(ErrorKind::value, "load_tensors: {}: the name should end in .npy, .npz or .safetensors", path);
}
void save_tensors(const std::string& path, const TensorMap& tensors) {
  if (ends_with(path, ".npz")) return save_npz(path, tensors);
  if (ends_with(path, ".safetensors")) return save_safetensors(path, tensors);
  if (ends_with(path, ".npy")) {
    if (tensors.size() != 1)
      failf(ErrorKind::value, "save_tensors: {}: an .npy file holds one tensor, but {} were given; use .npz",
            path, tensors.size());
    return save_npy(path, tensors.begin()->second);
  }
  failf(ErrorKind::value, "save_tensors: {}: the name should end in .npy, .npz or .safetensors", path);
}

}  // namespace tern
