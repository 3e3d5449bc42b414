#include "tern/runtime/onnxrt.h"

#include <dirent.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "tern/base/format.h"
#include "tern/capture/retrace.h"
#include "tern/dispatch/op.h"
#include "tern/io/file.h"
#include "tern/onnx/onnx.h"
#include "tern/ops.h"

namespace tern::runtime {
namespace {

// ONNX Runtime's C interface is a table of functions in an order that never changes; these are the places of
// those used here (onnxruntime_c_api.h, struct OrtApi).
enum Place {
  GetErrorCode = 1,
  GetErrorMessage = 2,
  CreateEnv = 3,
  CreateSession = 7,
  CreateSessionFromArray = 8,
  Run = 9,
  CreateSessionOptions = 10,
  SetSessionGraphOptimizationLevel = 23,
  SetIntraOpNumThreads = 24,
  SessionGetInputCount = 30,
  SessionGetOutputCount = 31,
  SessionGetInputName = 36,
  SessionGetOutputName = 37,
  CreateTensorWithDataAsOrtValue = 49,
  GetTensorMutableData = 51,
  GetTensorElementType = 60,
  GetDimensionsCount = 61,
  GetDimensions = 62,
  GetTensorTypeAndShape = 65,
  CreateCpuMemoryInfo = 69,
  AllocatorFree = 76,
  GetAllocatorWithDefaultOptions = 78,
  ReleaseStatus = 93,
  ReleaseMemoryInfo = 94,
  ReleaseSession = 95,
  ReleaseValue = 96,
  ReleaseTensorTypeAndShapeInfo = 99,
  ReleaseSessionOptions = 100,
};

struct Library {
  void* const* api = nullptr;
  void* env = nullptr;
  void* memory = nullptr;

  template <class... A>
  void call(Place place, A... args) const {
    auto f = reinterpret_cast<void* (*)(A...)>(api[place]);
    void* status = f(args...);
    if (!status) return;
    auto text = reinterpret_cast<const char* (*)(void*)>(api[GetErrorMessage])(status);
    std::string message = text;
    bool not_implemented =
        reinterpret_cast<int (*)(void*)>(api[GetErrorCode])(status) == 9;  // ORT_NOT_IMPLEMENTED
    release(ReleaseStatus, status);
    failf(not_implemented ? ErrorKind::not_supported : ErrorKind::runtime, "ONNX Runtime: {}", message);
  }
  void release(Place place, void* object) const {
    if (object) reinterpret_cast<void (*)(void*)>(api[place])(object);
  }
};

bool exists(const std::string& path) { return access(path.c_str(), R_OK) == 0; }

std::vector<std::string> entries(const std::string& folder) {
  std::vector<std::string> names;
  if (DIR* d = opendir(folder.c_str())) {
    while (dirent* e = readdir(d)) names.push_back(e->d_name);
    closedir(d);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// <environment>/lib/python3.*/site-packages/onnxruntime/capi/libonnxruntime.so.*
std::string in_python_environment(const std::string& root) {
  for (const std::string& python : entries(root + "/lib")) {
    if (!python.starts_with("python3")) continue;
    std::string folder = root + "/lib/" + python + "/site-packages/onnxruntime/capi";
    for (const std::string& file : entries(folder))
      if (file.starts_with("libonnxruntime.so")) return folder + "/" + file;
  }
  return "";
}

const Library& library(const std::string& asked) {
  static std::mutex mutex;
  static Library lib;
  std::lock_guard lock(mutex);
  if (lib.api) return lib;
  std::string path = find_onnxruntime(asked);
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) failf(ErrorKind::not_supported, "the onnxrt backend cannot open {}: {}", path, dlerror());
  struct ApiBase {
    void* const* (*get_api)(uint32_t version);
    const char* (*version)();
  };
  auto base = reinterpret_cast<const ApiBase* (*)()>(dlsym(handle, "OrtGetApiBase"));
  if (!base) failf(ErrorKind::not_supported, "the onnxrt backend: {} is not ONNX Runtime", path);
  void* const* api = base()->get_api(16);  // every release since 1.16 offers version 16
  if (!api)
    failf(ErrorKind::not_supported, "the onnxrt backend: ONNX Runtime {} is too old (1.16 or newer)",
          base()->version());
  Library fresh{api, nullptr, nullptr};
  fresh.call(CreateEnv, 3 /* errors */, "tern", &fresh.env);
  fresh.call(CreateCpuMemoryInfo, 0 /* arena */, 0 /* default */, &fresh.memory);
  lib = fresh;
  return lib;
}

struct TypePair {
  DType dtype;
  int onnx;
};
constexpr TypePair types[] = {{kFloat, 1},
                              {kByte, 2},
                              {kChar, 3},
                              {DType::uint16, 4},
                              {kShort, 5},
                              {kInt, 6},
                              {kLong, 7},
                              {kBool, 9},
                              {kHalf, 10},
                              {kDouble, 11},
                              {DType::uint32, 12},
                              {DType::uint64, 13},
                              {kBFloat16, 16},
                              {DType::float8_e4m3fn, 17},
                              {DType::float8_e4m3fnuz, 18},
                              {DType::float8_e5m2, 19},
                              {DType::float8_e5m2fnuz, 20}};

int onnx_type(DType d) {
  for (TypePair p : types)
    if (p.dtype == d) return p.onnx;
  failf(ErrorKind::not_supported, "the onnxrt backend has no element type {}", name(d));
}
DType dtype_from(int onnx) {
  for (TypePair p : types)
    if (p.onnx == onnx) return p.dtype;
  failf(ErrorKind::not_supported, "the onnxrt backend: element type number {} is not known", onnx);
}

class OnnxrtEngine : public Engine {
 public:
  OnnxrtEngine(const std::string& path, const SessionOptions& options) : lib_(library(options.onnxruntime)) {
    void* session_options = nullptr;
    lib_.call(CreateSessionOptions, &session_options);
    try {
      lib_.call(SetSessionGraphOptimizationLevel, session_options, 99 /* all */);
      if (options.threads) lib_.call(SetIntraOpNumThreads, session_options, options.threads);
      lib_.call(CreateSession, lib_.env, path.c_str(), static_cast<const void*>(session_options), &session_);
    } catch (...) {
      lib_.release(ReleaseSessionOptions, session_options);
      throw;
    }
    lib_.release(ReleaseSessionOptions, session_options);
    read_names(SessionGetInputCount, SessionGetInputName, input_names);
    read_names(SessionGetOutputCount, SessionGetOutputName, output_names);
  }
  ~OnnxrtEngine() override { lib_.release(ReleaseSession, session_); }

  std::vector<Value> run(Span<const Value> inputs) override {
    std::vector<Tensor> kept;
    std::vector<void*> values, outputs(output_names.size(), nullptr);
    std::vector<const char*> in_names, out_names;
    auto release_all = [&] {
      for (void* v : values) lib_.release(ReleaseValue, v);
      for (void* v : outputs) lib_.release(ReleaseValue, v);
    };
    try {
      for (size_t i = 0; i < input_names.size(); ++i) {
        Tensor t = inputs[i].is_tensor() ? inputs[i].tensor().contiguous() : tensor(inputs[i].scalar());
        kept.push_back(t);
        void* v = nullptr;
        lib_.call(CreateTensorWithDataAsOrtValue, static_cast<const void*>(lib_.memory), t.data(),
                  static_cast<size_t>(t.int_numel() * t.element_size()), t.int_sizes(),
                  static_cast<size_t>(t.dim()), onnx_type(t.dtype()), &v);
        values.push_back(v);
        in_names.push_back(input_names[i].c_str());
      }
      for (const std::string& n : output_names) out_names.push_back(n.c_str());
      lib_.call(Run, session_, static_cast<const void*>(nullptr), in_names.data(),
                static_cast<const void* const*>(values.data()), values.size(), out_names.data(),
                out_names.size(), outputs.data());
      std::vector<Value> results;
      for (void* v : outputs) results.push_back(read(v));
      release_all();
      return results;
    } catch (...) {
      release_all();
      throw;
    }
  }

  std::vector<std::string> input_names, output_names;

 private:
  void read_names(Place count_of, Place name_of, std::vector<std::string>& names) {
    size_t n = 0;
    lib_.call(count_of, static_cast<const void*>(session_), &n);
    void* allocator = nullptr;
    lib_.call(GetAllocatorWithDefaultOptions, &allocator);
    for (size_t i = 0; i < n; ++i) {
      char* text = nullptr;
      lib_.call(name_of, static_cast<const void*>(session_), i, allocator, &text);
      names.push_back(text);
      lib_.call(AllocatorFree, allocator, static_cast<void*>(text));
    }
  }

  // A copy: ONNX Runtime's memory goes back to it.
  Tensor read(void* value) {
    void* info = nullptr;
    lib_.call(GetTensorTypeAndShape, static_cast<const void*>(value), &info);
    int type = 0;
    size_t rank = 0;
    lib_.call(GetTensorElementType, static_cast<const void*>(info), &type);
    lib_.call(GetDimensionsCount, static_cast<const void*>(info), &rank);
    SmallVector<int64_t, 6> sizes(rank);
    lib_.call(GetDimensions, static_cast<const void*>(info), sizes.data(), rank);
    lib_.release(ReleaseTensorTypeAndShapeInfo, info);
    void* data = nullptr;
    lib_.call(GetTensorMutableData, value, &data);
    Dims dims;
    for (int64_t s : sizes) dims.push_back(s);
    Tensor t = make_tensor(dims, dtype_from(type));
    if (t.int_numel()) std::memcpy(t.data(), data, static_cast<size_t>(t.int_numel() * t.element_size()));
    return t;
  }

  const Library& lib_;
  void* session_ = nullptr;
};

// Keeps the .onnx file that the session was made from. A model whose input sizes are not known is lowered
// anew for each set of sizes it meets.
class LoweredEngine : public Engine {
 public:
  LoweredEngine(const SessionModel& model, const SessionOptions& options) : model_(model), options_(options) {
    for (size_t i = 0; i < model.bindings.size(); ++i) {
      const ir::Type& type = *model.graph->inputs()[i]->type();
      sized_ &= model.bindings[i].tensor.defined() || !type.is_tensor() || type.has_sizes();
    }
    if (sized_)
      lower(*model.graph);
    else
      library(options.onnxruntime);
  }

  std::vector<Value> run(Span<const Value> inputs) override {
    if (!sized_) specialise(inputs);
    std::vector<Value> chosen;
    for (size_t i : order_) chosen.push_back(inputs[i]);
    return as_the_graph_has_them(engine_->run(chosen));
  }

 private:
  void specialise(Span<const Value> inputs) {
    std::string sizes;
    for (const Value& v : inputs) sizes += v.is_tensor() ? str(v.tensor().sizes()) : v.str();
    if (engine_ && sizes == sizes_) return;
    sizes_ = sizes;
    capture::RetraceOptions options;
    options.expand = [](const Op& op) { return op.is(op_composite); };
    size_t next = 0;
    for (const Binding& b : model_.bindings) {
      const Value v = b.tensor.defined() ? Value(b.tensor) : inputs[next++];
      options.inputs.push_back(
          v.is_tensor() ? Value(make_tensor(v.tensor().sizes(), v.tensor().dtype(), kCPU, true)) : v);
    }
    capture::Retraced retraced = capture::retrace(*model_.graph, options);
    if (!retraced.mutated.empty())
      fail(ErrorKind::not_supported, "the onnxrt backend: the model writes to its inputs or its state");
    lower(*retraced.graph);
  }

  // An .onnx file has no None, and its numbers are tensors.
  std::vector<Value> as_the_graph_has_them(std::vector<Value> given) const {
    if (results_.empty()) return given;
    std::vector<Value> results;
    size_t next = 0;
    for (ir::TypeKind kind : results_) {
      if (kind == ir::TypeKind::none)
        results.emplace_back();
      else if (kind == ir::TypeKind::tensor)
        results.push_back(std::move(given.at(next++)));
      else
        results.emplace_back(read_scalar(given.at(next++).tensor()));
    }
    return results;
  }

  static std::optional<ir::TypeKind> kind_of(const ir::Operand& output) {
    if (output.is_none() || output.type()->is(ir::TypeKind::none)) return ir::TypeKind::none;
    for (ir::TypeKind k :
         {ir::TypeKind::tensor, ir::TypeKind::int_, ir::TypeKind::float_, ir::TypeKind::bool_})
      if (output.type()->is(k)) return k;
    return std::nullopt;
  }

  void lower(const ir::Graph& graph) {
    results_.clear();
    for (const ir::Operand& output : graph.outputs()) {
      std::optional<ir::TypeKind> kind = kind_of(output);
      if (!kind) {
        results_.clear();
        break;
      }
      results_.push_back(*kind);
    }
    std::string path = fmt::format("{}/model{}.onnx", folder_.path(), ++files_);
    onnx::Source source{graph};
    for (size_t i = 0; i < model_.bindings.size(); ++i)
      if (model_.bindings[i].tensor.defined()) {
        std::string input = graph.inputs()[i]->name();
        source.weights.push_back({input, input, model_.bindings[i].tensor});
      }
    onnx::save(source, path);
    engine_ = new_owned<OnnxrtEngine>(path, options_);
    // Unused inputs are not part of an ONNX session's signature: pick ours by name.
    order_.clear();
    for (const std::string& name : engine_->input_names) {
      auto it = std::find(model_.input_names.begin(), model_.input_names.end(), name);
      if (it == model_.input_names.end())
        failf("the onnxrt backend: the lowered model asks for an unknown input '{}'", name);
      order_.push_back(static_cast<size_t>(it - model_.input_names.begin()));
    }
  }

  SessionModel model_;
  SessionOptions options_;
  io::TemporaryDir folder_;
  int files_ = 0;
  bool sized_ = true;
  std::string sizes_;
  Owned<OnnxrtEngine> engine_;
  std::vector<size_t> order_;
  std::vector<ir::TypeKind> results_;  // of the graph; empty where one of them is a container
};

}  // namespace

std::string find_onnxruntime(const std::string& asked) {
  if (!asked.empty()) {
    if (exists(asked)) return asked;
    failf(ErrorKind::not_supported, "the onnxrt backend: there is no {}", asked);
  }
  std::vector<std::string> places;
  if (const char* path = std::getenv("TERN_ONNXRUNTIME")) places.push_back(path);
  for (const std::string& p : places)
    if (exists(p)) return p;
  std::vector<std::string> roots;
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const char* root = std::getenv(variable)) roots.push_back(root);
  roots.push_back(".venv");
  for (const std::string& root : roots)
    if (std::string found = in_python_environment(root); !found.empty()) return found;
  if (void* handle = dlopen("libonnxruntime.so", RTLD_NOW | RTLD_LOCAL)) {
    dlclose(handle);
    return "libonnxruntime.so";
  }
  fail(ErrorKind::not_supported,
       "the onnxrt backend needs ONNX Runtime's shared library: `pip install onnxruntime` into the active "
       "Python environment "
       "or ./.venv, or set TERN_ONNXRUNTIME to the path of libonnxruntime.so");
}

Owned<Engine> make_onnxrt_engine(const SessionModel& model, const SessionOptions& options) {
  return new_owned<LoweredEngine>(model, options);
}

Owned<Engine> make_onnxrt_engine(const std::string& path, const SessionOptions& options,
                                 std::vector<std::string>* input_names,
                                 std::vector<std::string>* output_names) {
  auto engine = new_owned<OnnxrtEngine>(path, options);
  *input_names = engine->input_names;
  *output_names = engine->output_names;
  return engine;
}

}  // namespace tern::runtime
