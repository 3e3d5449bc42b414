#include "tern/export/pt2.h"

#include <unordered_map>

#include <algorithm>

#include "tern/base/format.h"
#include "tern/export/pt2_schema.h"
#include "tern/export/torch_file.h"
#include "tern/io/zip.h"
#include "tern/ir/verify.h"
#include "tern/ops.h"

namespace tern {
namespace {

// ---- writing ----

bool is_parameter(const ExportedProgram& program, const std::string& name, const Tensor& t) {
  for (const InputSpec& s : program.signature().inputs)
    if (s.target == name) return s.kind == InputKind::parameter;
  for (const InputSpec& s : program.signature().inputs)
    if (s.kind == InputKind::parameter && program.state_of(s).is_same(t)) return true;
  return t->is_parameter || t.requires_grad();
}

// Tensors as members prefix0, prefix1 ... and the file that says which tensor lies where. What shares memory
// is written once.
void write_payload(io::ZipWriter& zip, const ExportedProgram& program, const NamedTensors& tensors,
                   const std::string& folder, std::string_view prefix, std::string_view config) {
  struct Entry {
    Tensor tensor;
    StorageSpan span;
    size_t index;
  };
  std::unordered_map<const StorageBody*, Entry> storages;
  std::vector<const StorageBody*> order;
  for (const auto& [name, t] : tensors) {
    if (t.is_fake()) failf("save: '{}' has no data (it is a fake or meta tensor)", name);
    StorageSpan span = span_of(t);
    auto [it, fresh] = storages.try_emplace(t.storage().get(), Entry{t, span, order.size()});
    if (fresh) order.push_back(t.storage().get());
    it->second.span.begin = std::min(it->second.span.begin, span.begin);
    it->second.span.end = std::max(it->second.span.end, span.end);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    const Entry& e = storages.at(order[i]);
    zip.add(fmt::format("{}{}{}", folder, prefix, i), bytes_of(e.tensor, e.span));
  }
  io::JsonWriter w;
  w.begin_object();
  w.key("config");
  w.begin_object();
  for (const auto& [name, t] : tensors) {
    const Entry& e = storages.at(t.storage().get());
    w.key(name);
    w.begin_object();
    w.member("path_name", fmt::format("{}{}", prefix, e.index));
    w.member("is_param", is_parameter(program, name, t));
    w.member("use_pickle", false);
    w.key("tensor_meta");
    pt2::write_tensor_meta(w, t, t.offset().guard_int() - e.span.begin / t.element_size());
    w.end_object();
  }
  w.end_object();
  w.end_object();
  zip.add(fmt::format("{}{}", folder, config), w.take());
}

// Past this many elements an example takes no room in a file: all of it is one zero.
constexpr int64_t dense_example = 1 << 20;

// An input of the size that the graph says, open sizes as large as their hints; nullopt where nobody knows
// it.
std::optional<Value> example_of(const ExportedProgram& program, size_t input) {
  const InputSpec& spec = program.signature().inputs[input];
  if (spec.constant) return *spec.constant;
  auto number = [](SymInt s) { return s.is_int() ? s.as_int() : s.hint().value_or(2); };
  if (const SymInt* s = program.symbol_of(input)) return Value(number(*s));
  const ir::Type& type = *program.graph().inputs()[input]->type();
  if (!type.is_tensor() || !type.has_sizes() || type.dtype() == DType::undefined) return std::nullopt;
  Dims sizes;
  int64_t elements = 1;
  for (SymInt s : type.sizes()) {
    int64_t n = number(s);
    if (n < 0) return std::nullopt;
    sizes.push_back(n);
    elements = n && elements > dense_example ? elements : elements * std::min(n, 2 * dense_example);
  }
  if (elements <= dense_example) return Value(zeros(sizes, type.dtype()));
  return Value(zeros({}, type.dtype()).expand(sizes));
}

// (args, kwargs) as PyTorch keeps them beside every program; nothing where neither the program nor its graph
// says how large the inputs are.
std::optional<Value> examples(const ExportedProgram& program) {
  const ExportedProgram::Data& d = program.data();
  if (d.example_args) {
    bool real = true;
    for (const Value& v : {*d.example_args, d.example_kwargs.value_or(Value::dict())})
      for (const Tensor& t : tree::tensors(v)) real = real && !t.is_fake() && !t.is_symbolic();
    if (real) return Value::tuple({*d.example_args, d.example_kwargs.value_or(Value::dict())});
  }
  std::vector<Value> leaves;
  for (size_t i = 0; i < d.signature.inputs.size(); ++i) {
    if (d.signature.inputs[i].kind != InputKind::user_input) continue;
    std::optional<Value> leaf = example_of(program, i);
    if (!leaf) return std::nullopt;
    leaves.push_back(std::move(*leaf));
  }
  if (leaves.size() != d.in_spec.leaf_count() || d.in_spec.children().size() != 2) return std::nullopt;
  return tree::unflatten(d.in_spec, leaves);
}

void write_archive(io::Sink& sink, const ExportedProgram& program, const SaveOptions& options,
                   const std::string& root) {
  io::ZipWriter zip(sink);
  write_payload(zip, program, program.state_dict(), root + "data/weights/", "weight_",
                "model_weights_config.json");
  write_payload(zip, program, program.constants(), root + "data/constants/", "tensor_",
                "model_constants_config.json");
  zip.add(root + "models/model.json", pt2::program_json(program));
  // PyTorch opens this member of every archive; empty where there are no examples.
  std::vector<uint8_t> bytes;
  if (auto inputs = examples(program)) bytes = write_torch_file(*inputs);
  zip.add(root + "data/sample_inputs/model.pt", io::Bytes(bytes));
  for (const auto& [name, content] : options.extra_files) zip.add(root + "extra/" + name, content);
  zip.add(root + "archive_format", "pt2");
  zip.add(root + "archive_version", "0");
  zip.add(root + ".data/version", "6\n");
  zip.add(root + "byteorder", "little");
  zip.add(root + ".data/serialization_id", fmt::format("{:040d}", zip.combined_crc()));
  zip.finish();
}

// Until 2.7: torch.save files beside the JSON.
void write_files(io::Sink& sink, const ExportedProgram& program, const SaveOptions& options) {
  io::ZipWriter zip(sink);
  auto dict = [](const NamedTensors& all) {
    std::vector<std::pair<Value, Value>> entries;
    for (const auto& [name, t] : all) entries.emplace_back(Value(name), Value(t));
    return Value::dict(std::move(entries));
  };
  auto add = [&](std::string_view name, const Value& v) {
    std::vector<uint8_t> bytes = write_torch_file(v);
    zip.add(name, io::Bytes(bytes));
  };
  zip.add("version", "8.20");
  zip.add("serialized_exported_program.json", pt2::program_json(program));
  add("serialized_state_dict.pt", dict(program.state_dict()));
  add("serialized_constants.pt", dict(program.constants()));
  add("serialized_example_inputs.pt",
      examples(program).value_or(Value::tuple({Value::tuple({}), Value::dict()})));
  for (const auto& [name, content] : options.extra_files) zip.add("extra_files/" + name, content);
  zip.finish();
}

void write(io::Sink& sink, const ExportedProgram& program, const SaveOptions& options,
           std::string_view path) {
  if (!program.defined()) fail("save: there is no program in the handle");
  if (options.layout == Pt2Layout::files) return write_files(sink, program, options);
  size_t slash = path.rfind('/');
  std::string_view stem = slash == std::string_view::npos ? path : path.substr(slash + 1);
  stem = stem.substr(0, stem.rfind('.'));
  write_archive(sink, program, options, (stem.empty() ? "model" : std::string(stem)) + "/");
}

// ---- reading ----

class Loader {
 public:
  Loader(io::Blob archive, const std::string& label, const LoadOptions& options)
      : zip_(std::move(archive), label), options_(options), label_(label) {}

  ExportedProgram load() {
    for (const io::ZipMember& m : zip_.members()) total_ += m.size;
    Shared<ExportedProgram::Data> data =
        zip_.find("serialized_exported_program.json") ? load_files() : load_archive();
    ExportedProgram program(data);
    check(program);
    return program;
  }

 private:
  [[noreturn]] void bad(const std::string& what) { failf(ErrorKind::file, "{}: {}", label_, what); }

  Shared<ExportedProgram::Data> load_archive() {
    std::string root;
    bool found = false;
    for (const io::ZipMember& m : zip_.members())
      if (m.name == "archive_format" || m.name.ends_with("/archive_format")) {
        root = m.name.substr(0, m.name.size() - 14);
        found = true;
      }
    if (!found)
      bad("no .pt2 archive: it has neither 'archive_format' nor 'serialized_exported_program.json'");
    std::string model;
    for (const io::ZipMember& m : zip_.members())
      if (m.name.starts_with(root + "models/") && m.name.ends_with(".json") &&
          (model.empty() || m.name == root + "models/model.json"))
        model = m.name.substr(root.size() + 7, m.name.size() - root.size() - 12);
    if (model.empty())
      bad("it holds no exported program (models/*.json); compiled packages are not supported");
    auto doc = json(root + "models/" + model + ".json");
    Shared<ExportedProgram::Data> data = pt2::read_program(doc->root());
    data->state = payload(root + "data/weights/", model + "_weights_config.json");
    data->constants = payload(root + "data/constants/", model + "_constants_config.json");
    if (zip_.find(root + "data/sample_inputs/" + model + ".pt"))
      read_examples(*data, root + "data/sample_inputs/" + model + ".pt");
    read_extra(root + "extra/");
    return data;
  }

  Shared<ExportedProgram::Data> load_files() {
    auto doc = json("serialized_exported_program.json");
    Shared<ExportedProgram::Data> data = pt2::read_program(doc->root());
    data->state = tensors("serialized_state_dict.pt");
    data->constants = tensors("serialized_constants.pt");
    if (zip_.find("serialized_example_inputs.pt")) read_examples(*data, "serialized_example_inputs.pt");
    read_extra("extra_files/");
    return data;
  }

  Shared<const io::JsonDoc> json(const std::string& member) {
    return io::parse_json(zip_.read(member, io::Crc::check), fmt::format("{}: {}", label_, member));
  }

  io::Blob weights(const std::string& member) {
    bool check = options_.check_weights || total_ <= io::checked_unasked;
    return zip_.read(member, check ? io::Crc::check : io::Crc::skip);
  }

  NamedTensors payload(const std::string& folder, const std::string& config) {
    NamedTensors found;
    if (!zip_.find(folder + config)) return found;
    auto doc = json(folder + config);
    io::Json all = doc->root()["config"];
    std::unordered_map<std::string, io::Blob> members;
    std::unordered_map<std::string, std::vector<std::pair<Tensor, bool>>> made;
    for (size_t i = 0; i < all.size(); ++i) {
      io::Json entry = all.value(i);
      std::string path(entry["path_name"].as_string());
      if (auto meta = entry.find("tensor_meta"); !meta || meta->is_null()) continue;  // a custom object
      io::Json meta = entry["tensor_meta"];
      bool is_param = entry["is_param"].as_bool();
      auto dtype = pt2::dtype_of_scalar_type(meta["dtype"].as_int());
      if (!dtype) meta["dtype"].fail_here("an unknown dtype");
      auto dims = [&](std::string_view key) {
        std::vector<int64_t> d;
        for (io::Json s : meta[key]) d.push_back(s["as_int"].as_int());
        return d;
      };
      std::vector<int64_t> sizes = dims("sizes"), strides = dims("strides");
      int64_t offset = meta["storage_offset"]["as_int"].as_int();
      auto [it, fresh] = members.try_emplace(path);
      if (fresh) it->second = weights(folder + path);
      Tensor t;
      if (entry["use_pickle"].as_bool()) {
        Value v = read_torch_file(it->second, fmt::format("{}: {}{}", label_, folder, path));
        if (!v.is_tensor()) entry.fail_here("expected a tensor");
        t = v.tensor();
      } else {
        t = share(made[path], tensor_over(it->second, *dtype, sizes, strides, offset,
                                          fmt::format("{}: {}{}", label_, folder, path)));
      }
      if (is_param && !t->is_parameter) {
        t->is_parameter = true;
        if (meta["requires_grad"].as_bool() && (is_floating(*dtype) || is_complex(*dtype)))
          t.requires_grad_();
      }
      found.emplace_back(std::string(all.key(i)), t);
    }
    return found;
  }

  // Entries over the same member and with the same geometry are one tensor under several names; others share
  // its memory.
  static Tensor share(std::vector<std::pair<Tensor, bool>>& made, Tensor t) {
    for (auto& [other, unused] : made) {
      if (other.dtype() != t.dtype() || other.dim() != t.dim() || !(other.offset() == t.offset())) continue;
      bool same = true;
      for (int64_t d = 0; d < t.dim(); ++d)
        same = same && other.sizes()[d] == t.sizes()[d] && other.strides()[d] == t.strides()[d];
      if (same) return other;
    }
    if (!made.empty())
      t = make_view_of(made[0].first.storage(), t.sizes(), t.strides(), t.offset(), t.dtype());
    made.emplace_back(t, true);
    return t;
  }

  NamedTensors tensors(const std::string& member) {
    NamedTensors found;
    if (!zip_.find(member)) return found;
    io::Blob bytes = weights(member);
    if (bytes.bytes.empty()) return found;
    Value all = read_torch_file(bytes, fmt::format("{}: {}", label_, member));
    if (!all.is_dict()) bad(member + " holds no dict");
    for (const auto& [name, v] : all.entries())
      if (v.is_tensor()) found.emplace_back(name.string(), v.tensor());
    return found;
  }

  void read_examples(ExportedProgram::Data& data, const std::string& member) {
    io::Blob bytes = zip_.read(member, io::Crc::check);
    if (bytes.bytes.empty()) return;
    Value v;
    try {
      v = read_torch_file(bytes, fmt::format("{}: {}", label_, member));
    } catch (const Error&) {
      return;  // inputs of a kind that only Python has: the program runs without them
    }
    if (!v.is_tuple() || v.items().size() != 2 || !v.items()[0].is_tuple() || !v.items()[1].is_dict()) return;
    data.example_args = v.items()[0];
    data.example_kwargs = v.items()[1];
  }

  void read_extra(const std::string& folder) {
    if (!options_.extra_files) return;
    for (const io::ZipMember& m : zip_.members())
      if (m.name.starts_with(folder))
        options_.extra_files->emplace_back(m.name.substr(folder.size()), zip_.read_text(m.name));
  }

  void check(const ExportedProgram& program) {
    try {
      ir::verify(program.graph());
    } catch (const Error& e) {
      bad(e.message());
    }
    for (const InputSpec& s : program.signature().inputs) {
      if (s.kind != InputKind::parameter && s.kind != InputKind::buffer &&
          s.kind != InputKind::constant_tensor)
        continue;
      try {
        const Tensor& t = program.state_of(s);
        const ir::Value* v = program.graph().find(s.name);
        const ir::Type& type = *v->type();
        if (!type.has_sizes()) continue;
        bool fits = t.dtype() == type.dtype() && static_cast<size_t>(t.dim()) == type.sizes().size();
        for (size_t d = 0; fits && d < type.sizes().size(); ++d)
          fits = !type.sizes()[d].is_int() || type.sizes()[d].as_int() == t.sizes()[d].as_int();
        if (!fits)
          bad(fmt::format("'{}' is a tensor of {} {}, but the graph wants {}", s.target, name(t.dtype()),
                          str(t.sizes()), type.str()));
        if (s.kind == InputKind::parameter) t->is_parameter = true;
      } catch (const Error& e) {
        if (e.kind() == ErrorKind::file) throw;
        bad(e.message());
      }
    }
  }

  io::ZipReader zip_;
  const LoadOptions& options_;
  std::string label_;
  uint64_t total_ = 0;
};

}  // namespace

void save(const ExportedProgram& program, const std::string& path, const SaveOptions& options) {
  io::FileWriter file(path);
  write(file, program, options, path);
  file.commit();
}

std::vector<uint8_t> save_to_memory(const ExportedProgram& program, const SaveOptions& options) {
  io::MemoryWriter memory;
  write(memory, program, options, "model");
  return memory.take();
}

ExportedProgram load_program(io::Blob archive, const std::string& label, const LoadOptions& options) {
  try {
    return Loader(std::move(archive), label, options).load();
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::file) throw;
    // Whatever a reader further down complains about, it is the file that is wrong.
    throw Error(ErrorKind::file, fmt::format("{}: {}", label, e.message()));
  }
}

ExportedProgram load_program(const std::string& path, const LoadOptions& options) {
  return load_program(io::map_file(path, io::MapMode::copy_on_write), path, options);
}

bool looks_like_pt2(const std::string& path) {
  try {
    io::ZipReader zip(path);
    for (const io::ZipMember& m : zip.members())
      if (m.name == "serialized_exported_program.json" || m.name.ends_with("/models/model.json")) return true;
  } catch (const Error&) {
  }
  return false;
}

}  // namespace tern
