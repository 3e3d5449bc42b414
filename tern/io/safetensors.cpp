#include "tern/io/safetensors.h"

#include <algorithm>
#include <cstring>

#include "tern/base/format.h"
#include "tern/io/json.h"

namespace tern::io {

namespace {

constexpr uint64_t kMaxHeader = 100'000'000;  // the reference implementation's limit

struct Type {
  std::string_view name;
  int bits;
  int rank;  // order in a written file: the most aligned last in this list, first in the file
};
constexpr Type kTypes[] = {
    {"BOOL", 8, 0},         {"F4", 4, 1},      {"F6_E2M3", 6, 2}, {"F6_E3M2", 6, 3}, {"U8", 8, 4},
    {"I8", 8, 5},           {"F8_E5M2", 8, 6}, {"F8_E4M3", 8, 7}, {"F8_E8M0", 8, 8}, {"F8_E4M3FNUZ", 8, 9},
    {"F8_E5M2FNUZ", 8, 10}, {"I16", 16, 11},   {"U16", 16, 12},   {"F16", 16, 13},   {"BF16", 16, 14},
    {"I32", 32, 15},        {"U32", 32, 16},   {"F32", 32, 17},   {"C64", 64, 18},   {"F64", 64, 19},
    {"I64", 64, 20},        {"U64", 64, 21}};

const Type* find_type(std::string_view name) {
  for (const Type& type : kTypes)
    if (type.name == name) return &type;
  return nullptr;
}

// Bytes of a tensor, or a reason.
const char* byte_count(const Type& type, Span<const int64_t> shape, uint64_t& bytes) {
  uint64_t bits = static_cast<uint64_t>(type.bits);
  for (int64_t dim : shape) {
    if (dim < 0) return "a dimension is negative";
    if (dim == 0) {
      bytes = 0;
      return nullptr;
    }
  }
  for (int64_t dim : shape)
    if (__builtin_mul_overflow(bits, static_cast<uint64_t>(dim), &bits)) return "the shape overflows";
  if (bits % 8) return "its elements do not fill whole bytes";
  bytes = bits / 8;
  return nullptr;
}

}  // namespace

const SafeTensor* SafeTensors::find(std::string_view name) const {
  for (const SafeTensor& tensor : tensors)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

int safetensors_bits(std::string_view dtype) {
  const Type* type = find_type(dtype);
  if (!type) failf(ErrorKind::value, "safetensors: there is no dtype '{}'", dtype);
  return type->bits;
}

SafeTensors parse_safetensors(Blob file, std::string label) {
  auto bad = [&](std::string_view what) { failf(ErrorKind::file, "{}: {}", label, what); };
  if (file.bytes.size() < 8) bad("not a safetensors file: it is shorter than 8 bytes");
  uint64_t header_size;
  std::memcpy(&header_size, file.bytes.data(), 8);
  if (header_size > kMaxHeader)
    bad(fmt::format("not a safetensors file: its header claims {} bytes (limit {})", header_size,
                    kMaxHeader));
  if (header_size > file.bytes.size() - 8)
    bad(fmt::format("truncated: the header claims {} bytes, {} are left", header_size,
                    file.bytes.size() - 8));
  Bytes data = file.bytes.drop_front(8 + header_size);
  auto header = parse_json(Blob{file.bytes.drop_front(8).first(header_size), file.owner}, label);

  SafeTensors result;
  result.owner = file.owner;
  Json root = header->root();
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (size_t i = 0; i < root.size(); ++i) {
    std::string_view name = root.key(i);
    Json entry = root.value(i);
    if (name == "__metadata__") {
      for (size_t k = 0; k < entry.size(); ++k)
        result.metadata.emplace_back(entry.key(k), entry.value(k).as_string());
      continue;
    }
    SafeTensor tensor;
    tensor.name = name;
    tensor.dtype = entry["dtype"].as_string();
    const Type* type = find_type(tensor.dtype);
    if (!type) entry["dtype"].fail_here(fmt::format("there is no dtype '{}'", tensor.dtype));
    for (Json dim : entry["shape"]) tensor.shape.push_back(dim.as_int());
    Json offsets = entry["data_offsets"];
    if (offsets.size() != 2) offsets.fail_here("two offsets are expected");
    int64_t from = offsets[0].as_int(), to = offsets[1].as_int();
    if (from < 0 || to < from || static_cast<uint64_t>(to) > data.size())
      offsets.fail_here(fmt::format("[{}, {}) lies outside the {} bytes of data", from, to, data.size()));
    uint64_t want = 0;
    if (const char* why = byte_count(*type, tensor.shape, want)) entry["shape"].fail_here(why);
    if (want != static_cast<uint64_t>(to - from))
      entry.fail_here(fmt::format("dtype and shape need {} bytes, but the offsets give {}", want, to - from));
    tensor.data = data.drop_front(static_cast<size_t>(from)).first(want);
    ranges.emplace_back(from, to);
    result.tensors.push_back(std::move(tensor));
  }
  std::sort(ranges.begin(), ranges.end());
  uint64_t at = 0;
  for (auto [from, to] : ranges) {
    if (from < at) bad(fmt::format("two tensors overlap at data offset {}", from));
    if (from > at) bad(fmt::format("the data have a hole between offsets {} and {}", at, from));
    at = to;
  }
  if (at != data.size()) bad(fmt::format("{} bytes of data belong to no tensor", data.size() - at));
  return result;
}

SafeTensors read_safetensors(const std::string& path) { return parse_safetensors(map_file(path), path); }

void write_safetensors(Sink& sink, const SafeTensors& content) {
  std::vector<const SafeTensor*> order;
  for (const SafeTensor& tensor : content.tensors) {
    safetensors_bits(tensor.dtype);
    uint64_t want = 0;
    const char* why = byte_count(*find_type(tensor.dtype), tensor.shape, want);
    if (why) failf(ErrorKind::value, "safetensors: '{}': {}", tensor.name, why);
    if (want != tensor.data.size())
      failf(ErrorKind::value, "safetensors: '{}' needs {} bytes by its dtype and shape, but {} are given",
            tensor.name, want, tensor.data.size());
    if (tensor.name == "__metadata__")
      fail(ErrorKind::value, "safetensors: a tensor cannot be called __metadata__");
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(), [](const SafeTensor* a, const SafeTensor* b) {
    int ra = find_type(a->dtype)->rank, rb = find_type(b->dtype)->rank;
    return ra != rb ? ra > rb : a->name < b->name;
  });
  JsonWriter json({.spaces = false, .ascii = false});
  json.begin_object();
  if (!content.metadata.empty()) {
    json.key("__metadata__");
    json.begin_object();
    for (const auto& [key, value] : content.metadata) json.member(key, value);
    json.end_object();
  }
  uint64_t at = 0;
  std::vector<std::string_view> names;
  for (const SafeTensor* tensor : order) {
    names.push_back(tensor->name);
    json.key(tensor->name);
    json.begin_object();
    json.member("dtype", tensor->dtype);
    json.key("shape");
    json.begin_array();
    for (int64_t dim : tensor->shape) json.value(dim);
    json.end_array();
    json.key("data_offsets");
    json.begin_array();
    json.value(at);
    at += tensor->data.size();
    json.value(at);
    json.end_array();
    json.end_object();
  }
  json.end_object();
  std::sort(names.begin(), names.end());
  if (auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    failf(ErrorKind::value, "safetensors: two tensors are called '{}'", *twice);
  std::string header = json.take();
  header.append((8 - header.size() % 8) % 8, ' ');
  uint64_t size = header.size();
  if (size > kMaxHeader)
    failf(ErrorKind::value, "safetensors: the header has {} bytes, above the limit", size);
  sink.write(&size, 8);
  sink.write(header);
  for (const SafeTensor* tensor : order) sink.write(tensor->data);
}

void write_safetensors(const std::string& path, const SafeTensors& content) {
  FileWriter file(path);
  write_safetensors(file, content);
  file.commit();
}

}  // namespace tern::io
