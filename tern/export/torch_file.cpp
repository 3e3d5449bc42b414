#include "tern/export/torch_file.h"

#include <cstring>
#include <unordered_map>

#include "tern/base/format.h"
#include "tern/io/pickle.h"
#include "tern/io/zip.h"
#include "tern/tree/tree.h"

namespace tern {
namespace {

struct StorageType {
  DType dtype;
  std::string_view name;
};
constexpr StorageType storage_types[] = {
    {DType::float32, "FloatStorage"},
    {DType::float64, "DoubleStorage"},
    {DType::float16, "HalfStorage"},
    {DType::bfloat16, "BFloat16Storage"},
    {DType::int64, "LongStorage"},
    {DType::int32, "IntStorage"},
    {DType::int16, "ShortStorage"},
    {DType::int8, "CharStorage"},
    {DType::uint8, "ByteStorage"},
    {DType::bool_, "BoolStorage"},
    {DType::complex64, "ComplexFloatStorage"},
    {DType::complex128, "ComplexDoubleStorage"},
};

// dtypes without a storage class of their own are saved over bytes, with the dtype beside the tensor.
const StorageType* storage_type(DType d) {
  for (const StorageType& s : storage_types)
    if (s.dtype == d) return &s;
  return nullptr;
}

class Reader {
 public:
  Reader(const io::Blob& archive, const std::string& label) : zip_(archive, label), label_(label) {
    for (const io::ZipMember& m : zip_.members())
      if (m.name.ends_with("data.pkl") && (m.name == "data.pkl" || m.name[m.name.size() - 9] == '/'))
        root_ = m.name.substr(0, m.name.size() - 8);
    pickle_ = io::parse_pickle(zip_.read(root_ + "data.pkl", io::Crc::check).bytes, nullptr, label);
    if (pickle_->cyclic()) failf(ErrorKind::file, "{}: a container holds itself", label);
  }
  Value read() { return value(pickle_->root(), 0); }

 private:
  using Kind = io::PickleKind;

  Value value(io::Pickle p, int depth) {
    if (depth > 200) failf(ErrorKind::file, "{}: nested too deeply", label_);
    switch (p.kind()) {
      case Kind::none:
        return {};
      case Kind::boolean:
        return Value(p.as_bool());
      case Kind::integer:
        return Value(p.as_int());
      case Kind::real:
        return Value(p.as_double());
      case Kind::string:
        return Value(p.as_string());
      case Kind::tuple:
      case Kind::list: {
        std::vector<Value> items;
        for (size_t i = 0; i < p.size(); ++i) items.push_back(value(p[i], depth + 1));
        return p.is(Kind::tuple) ? Value::tuple(std::move(items)) : Value::list(std::move(items));
      }
      case Kind::dict:
        return dict(p, depth);
      case Kind::object:
        return object(p, depth);
      default:
        failf(ErrorKind::file, "{}: {} cannot be read", label_, p.describe());
    }
  }

  Value dict(io::Pickle p, int depth) {
    std::vector<std::pair<Value, Value>> entries;
    for (size_t i = 0; i < p.pair_count(); ++i)
      entries.emplace_back(value(p.key(i), depth + 1), value(p.value(i), depth + 1));
    return Value::dict(std::move(entries));
  }

  Value object(io::Pickle p, int depth) {
    if (p.is_call("collections", "OrderedDict")) return dict(p, depth);
    io::Pickle args = p.args();
    if (p.is_call("torch._utils", "_rebuild_parameter") && args.size() >= 2) {
      Value t = value(args[0], depth + 1);
      if (args[1].as_bool()) t.tensor().requires_grad_();
      t.tensor()->is_parameter = true;
      return t;
    }
    if (p.is_call("torch._utils", "_rebuild_tensor_v2") || p.is_call("torch._utils", "_rebuild_tensor_v3"))
      return tensor(p);
    if (p.is_call("torch", "device") && args.size() >= 1)
      if (auto device = Device::parse(args[0].as_string())) return Value(*device);
    if (p.is_call("torch", "Size") && args.size() == 1) return value(args[0], depth + 1);
    failf(ErrorKind::file, "{}: {} is no plain data", label_, p.describe());
  }

  Value tensor(io::Pickle p) {
    io::Pickle args = p.args();
    if (args.size() < 5 || !args[0].is(Kind::persistent))
      failf(ErrorKind::file, "{}: {} is malformed", label_, p.describe());
    io::Pickle id = args[0].persistent_id();
    if (!id.is(Kind::tuple) || id.size() < 5 || id[0].as_string() != "storage")
      failf(ErrorKind::file, "{}: a storage is malformed", label_);
    DType dtype = DType::undefined;
    for (const StorageType& s : storage_types)
      if (id[1].is_global("torch", s.name)) dtype = s.dtype;
    if (p.is_call("torch._utils", "_rebuild_tensor_v3") && args.size() >= 7) {
      std::string_view name = args[6].is(Kind::global) ? args[6].name() : "";
      if (auto found = parse_dtype(name)) dtype = *found;
    }
    if (dtype == DType::undefined)
      failf(ErrorKind::file, "{}: storages of {} are not known", label_, id[1].describe());
    std::string key(id[2].as_string());
    auto [it, fresh] = storages_.try_emplace(key);
    if (fresh) it->second = zip_.read(root_ + "data/" + key);
    std::vector<int64_t> sizes, strides;
    for (size_t i = 0; i < args[2].size(); ++i) sizes.push_back(args[2][i].as_int());
    for (size_t i = 0; i < args[3].size(); ++i) strides.push_back(args[3][i].as_int());
    Tensor t = tensor_over(it->second, dtype, sizes, strides, args[1].as_int(), label_);
    // Tensors of one storage share its memory.
    auto [storage, first] = shared_.try_emplace(key, t.storage());
    if (!first) t = make_view_of(storage->second, t.sizes(), t.strides(), t.offset(), dtype);
    if (args[4].as_bool()) t.requires_grad_();
    return t;
  }

  io::ZipReader zip_;
  std::string label_, root_;
  Shared<const io::PickleDoc> pickle_;
  std::unordered_map<std::string, io::Blob> storages_;
  std::unordered_map<std::string, Storage> shared_;
};

class Writer {
 public:
  std::vector<uint8_t> write(const Value& v) {
    measure(v);
    value(v);
    io::MemoryWriter sink;
    io::ZipWriter zip(sink);
    zip.add("archive/data.pkl", pickle_.finish());
    zip.add("archive/byteorder", "little");
    for (size_t i = 0; i < order_.size(); ++i) {
      const Entry& e = storages_.at(order_[i]);
      zip.add(fmt::format("archive/data/{}", i), bytes_of(e.tensor, e.span));
    }
    zip.add("archive/version", "3\n");
    zip.add("archive/.data/serialization_id", fmt::format("{:040d}", zip.combined_crc()));
    zip.finish();
    return sink.take();
  }

 private:
  struct Entry {
    Tensor tensor;
    StorageSpan span;
    size_t index;
  };

  void measure(const Value& v) {
    if (v.is_tensor()) {
      const Tensor& t = v.tensor();
      StorageSpan span = span_of(t);
      auto [it, fresh] = storages_.try_emplace(t.storage().get(), Entry{t, span, order_.size()});
      if (fresh) {
        order_.push_back(t.storage().get());
      } else {
        it->second.span.begin = std::min(it->second.span.begin, span.begin);
        it->second.span.end = std::max(it->second.span.end, span.end);
      }
    } else if (v.is_list() || v.is_tuple()) {
      for (const Value& item : v.items()) measure(item);
    } else if (v.is_dict()) {
      for (const auto& [key, item] : v.entries()) measure(item);
    }
  }

  void value(const Value& v) {
    switch (v.kind()) {
      case ValueKind::none:
        return pickle_.none();
      case ValueKind::bool_:
        return pickle_.boolean(v.to_bool());
      case ValueKind::int_:
        return pickle_.integer(v.to_int());
      case ValueKind::float_:
        return pickle_.real(v.to_double());
      case ValueKind::string:
        return pickle_.string(v.string());
      case ValueKind::tensor:
        return tensor(v.tensor());
      case ValueKind::tuple:
        pickle_.mark();
        for (const Value& item : v.items()) value(item);
        return pickle_.tuple();
      case ValueKind::list:
        pickle_.empty_list();
        pickle_.mark();
        for (const Value& item : v.items()) value(item);
        return pickle_.append_items();
      case ValueKind::dict:
        pickle_.empty_dict();
        pickle_.mark();
        for (const auto& [key, item] : v.entries()) {
          value(key);
          value(item);
        }
        return pickle_.set_items();
      default:
        failf(ErrorKind::not_supported, "a {} cannot be written to a file of torch.save", v.kind_name());
    }
  }

  void tensor(const Tensor& t) {
    const Entry& e = storages_.at(t.storage().get());
    const StorageType* type = storage_type(t.dtype());
    bool parameter = t->is_parameter;
    if (parameter) {
      pickle_.global("torch._utils", "_rebuild_parameter");
      pickle_.mark();
    }
    pickle_.global("torch._utils", type ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    pickle_.mark();
    pickle_.mark();
    pickle_.string("storage");
    if (type)
      pickle_.global("torch", type->name);
    else
      pickle_.global("torch.storage", "UntypedStorage");
    pickle_.string(std::to_string(e.index));
    pickle_.string("cpu");
    int64_t bytes = e.span.end - e.span.begin;
    pickle_.integer(type ? bytes / t.element_size() : bytes);
    pickle_.tuple();
    pickle_.persistent_id();
    pickle_.integer(t.offset().guard_int() - e.span.begin / t.element_size());
    for (Span<const SymInt> dims : {t.sizes(), t.strides()}) {
      pickle_.mark();
      for (SymInt s : dims) pickle_.integer(s.guard_int());
      pickle_.tuple();
    }
    pickle_.boolean(!parameter && t.requires_grad());
    pickle_.global("collections", "OrderedDict");
    pickle_.empty_tuple();
    pickle_.reduce();
    if (!type) pickle_.global("torch", name(t.dtype()));
    pickle_.tuple();
    pickle_.reduce();
    if (parameter) {
      pickle_.boolean(t.requires_grad());
      pickle_.global("collections", "OrderedDict");
      pickle_.empty_tuple();
      pickle_.reduce();
      pickle_.tuple();
      pickle_.reduce();
    }
  }

  io::PickleWriter pickle_;
  std::unordered_map<const StorageBody*, Entry> storages_;
  std::vector<const StorageBody*> order_;
};

}  // namespace

Value read_torch_file(const io::Blob& archive, const std::string& label) {
  return Reader(archive, label).read();
}
std::vector<uint8_t> write_torch_file(const Value& value) { return Writer().write(value); }

StorageSpan span_of(const Tensor& t) {
  if (t.is_fake()) fail("a tensor without data (fake or meta) cannot be written to a file");
  int64_t size = t.element_size(), begin = t.offset().guard_int(), end = begin;
  if (t.int_numel() > 0) {
    for (int64_t d = 0; d < t.dim(); ++d) end += (t.int_sizes()[d] - 1) * t.int_strides()[d];
    end += 1;
  }
  return {t.body(), begin * size, end * size};
}

io::Bytes bytes_of(const Tensor& t, const StorageSpan& span) {
  return {static_cast<const uint8_t*>(t.storage()->data) + span.begin,
          static_cast<size_t>(span.end - span.begin)};
}

Tensor tensor_over(const io::Blob& bytes, DType dtype, Span<const int64_t> sizes, Span<const int64_t> strides,
                   int64_t offset, const std::string& label) {
  auto bad = [&](std::string_view what) { failf(ErrorKind::file, "{}: {}", label, what); };
  if (sizes.size() != strides.size()) bad("a tensor has another number of strides than sizes");
  if (sizes.size() > 64) bad("a tensor has too many dimensions");
  int64_t size = element_size(dtype), last = offset, numel = 1;
  bool empty = false;
  for (int64_t s : sizes) empty = empty || s == 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] < 0 || strides[d] < 0) bad("a size or a stride of a tensor is negative");
    int64_t reach;
    if (__builtin_mul_overflow(numel, std::max<int64_t>(sizes[d], 1), &numel)) bad("a tensor is too large");
    if (empty) continue;
    if (__builtin_mul_overflow(sizes[d] - 1, strides[d], &reach) ||
        __builtin_add_overflow(last, reach, &last))
      bad("a tensor reaches beyond its storage");
  }
  int64_t available = static_cast<int64_t>(bytes.bytes.size()) / size;
  if (offset < 0 || offset > available || (!empty && last >= available))
    failf(ErrorKind::file, "{}: a tensor reaches beyond its storage of {} bytes", label, bytes.bytes.size());
  Storage storage;
  if (reinterpret_cast<uintptr_t>(bytes.bytes.data()) % static_cast<uintptr_t>(std::min<int64_t>(size, 16)) ==
      0) {
    storage = Storage::borrow(const_cast<uint8_t*>(bytes.bytes.data()), bytes.bytes.size(), bytes.owner);
  } else {
    storage = Storage::allocate(bytes.bytes.size());
    std::memcpy(storage->data, bytes.bytes.data(), bytes.bytes.size());
  }
  Dims dims, steps;
  for (int64_t s : sizes) dims.push_back(s);
  for (int64_t s : strides) steps.push_back(s);
  return make_view_of(storage, dims, steps, offset, dtype);
}

}  // namespace tern
