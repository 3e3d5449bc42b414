// Modules: names, state dicts, sharing, hooks, scopes, cloning, conversion, printing.
#include <gtest/gtest.h>

#include <cmath>

#include "tern/tern.h"
#include "tests/support/errors.h"

namespace tern::nn {
namespace {

struct Net : Module {
  Linear fc1 = add("fc1", Linear(4, 3)), fc2 = add("fc2", Linear(3, 2));
  Tensor forward(Tensor x) { return fc2(relu(fc1(x))); }
};

struct Block : Layer<Block> {
  Linear inner = add("inner", Linear(2, 2));
  Parameter scale = register_parameter("scale", ones({2}));
  Buffer seen = register_buffer("seen", zeros({1}));
  Buffer scratch = register_buffer("scratch", zeros({1}), false);
  std::vector<std::string>* paths = nullptr;
  Tensor forward(Tensor x) {
    if (paths) paths->push_back(thread_state.scope->path.str() + ":" + thread_state.scope->type_name.str());
    return inner(x) * scale;
  }
};

struct Tower : Module {
  Block block = add("block", Block());
  ModuleList<Block> list = add("list", ModuleList{Block(), Block()});
  Tensor forward(Tensor x) {
    x = block(x);
    for (Block& b : list) x = b(x);
    return x;
  }
};

std::vector<std::string> names(const StateDict& dict) {
  std::vector<std::string> out;
  for (const auto& [name, t] : dict) out.push_back(name);
  return out;
}
using tern::testing::error_of;
using Names = std::vector<std::string>;

TEST(Module, NamesAreDottedPaths) {
  Net net;
  EXPECT_EQ(names(net.named_parameters()), (Names{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}));
  Tower tower;
  EXPECT_EQ(names(tower.block.state_dict("block.")),
            (Names{"block.scale", "block.seen", "block.inner.weight", "block.inner.bias"}));
  EXPECT_EQ(names(tower.named_buffers()), (Names{"block.seen", "block.scratch", "list.0.seen",
                                                 "list.0.scratch", "list.1.seen", "list.1.scratch"}));
  Names modules;
  for (auto& [name, m] : tower.named_modules()) modules.push_back(name);
  EXPECT_EQ(modules,
            (Names{"", "block", "block.inner", "list", "list.0", "list.0.inner", "list.1", "list.1.inner"}));
  EXPECT_TRUE(tower.parameter("list.1.scale").is_same(tower.list[1].scale));
  EXPECT_EQ(error_of([&] { tower.parameter("list.7.scale"); }), "ModuleList has no attribute `7`");
}

TEST(Module, ParametersAreLeavesThatRequireGrad) {
  Net net;
  for (const Tensor& p : net.parameters()) {
    EXPECT_TRUE(p.is_leaf());
    EXPECT_TRUE(p.requires_grad());
    EXPECT_TRUE(p->is_parameter);
  }
  call(net, ones({1, 4})).sum().backward();
  EXPECT_TRUE(net.fc1.weight.grad().defined());
  net.zero_grad();
  EXPECT_FALSE(net.fc1.weight.grad().defined());
  net.requires_grad_(false);
  EXPECT_FALSE(call(net, ones({1, 4})).requires_grad());
}

TEST(Module, CopiesShareStateClonesDoNot) {
  Net net;
  Net same = net;
  NoGrad no_grad;
  same.fc1.weight.fill_(3.0);
  EXPECT_EQ(net.fc1.weight.to_vector<float>()[0], 3);
  Net other = clone(net);
  other.fc1.weight.fill_(5.0);
  EXPECT_EQ(net.fc1.weight.to_vector<float>()[0], 3);
  EXPECT_EQ(other.parameter("fc1.weight").to_vector<float>()[0], 5);
  EXPECT_TRUE(other.fc1.weight->requires_grad);
  EXPECT_EQ(names(other.state_dict()), names(net.state_dict()));
  EXPECT_TRUE(other.submodule("fc1").is_same(other.fc1));
}

TEST(Module, CloneReachesIntoContainers) {
  Sequential net(Linear(2, 2), ReLU(), Sequential(Linear(2, 1)));
  Sequential other = clone(net);
  NoGrad no_grad;
  other[0].as<Linear>().weight.zero_();
  other.parameter("0.bias").zero_();
  EXPECT_EQ(other[0](ones({1, 2})).to_vector<float>(), (std::vector<float>{0, 0}));
  EXPECT_NE(net[0].as<Linear>().weight.to_vector<float>()[0], 0);
  EXPECT_NE(error_of([&] { net[1].as<Linear>(); }).find("is a torch.nn.modules.activation.ReLU"),
            std::string::npos);
}

TEST(Module, TiedWeightsAreOneParameterWithTwoNames) {
  struct Tied : Module {
    Embedding tokens = add("tokens", Embedding(5, 3));
    Linear head = add("head", Linear(3, 5, false));
    Tied() { head.weight = tokens.weight; }
    Tensor forward(Tensor x) { return head(tokens(x)); }
  } net;
  EXPECT_EQ(names(net.named_parameters()), (Names{"tokens.weight"}));
  EXPECT_EQ(names(net.state_dict()), (Names{"tokens.weight", "head.weight"}));
  call(net, tensor({1}).to(kLong)).sum().backward();
  EXPECT_TRUE(net.head.weight.grad().is_same(net.tokens.weight.grad()));
  Tied other = clone(net);
  EXPECT_TRUE(other.head.weight.is_same(other.tokens.weight));
  EXPECT_FALSE(other.head.weight.is_same(net.head.weight));
}

TEST(Module, StateDictLoads) {
  manual_seed(0);
  Net from;
  Net to;
  EXPECT_NE(from.fc1.weight.to_vector<float>(), to.fc1.weight.to_vector<float>());
  Tensor handle = to.fc1.weight;
  LoadResult result = to.load_state_dict(from.state_dict());
  EXPECT_TRUE(result.missing.empty() && result.unexpected.empty());
  EXPECT_EQ(handle.to_vector<float>(), from.fc1.weight.to_vector<float>());
  EXPECT_FALSE(from.state_dict()[0].second.requires_grad());
}

TEST(Module, LoadErrorsArePyTorchs) {
  Sequential net(Linear(3, 4), Linear(4, 2));
  StateDict dict = net.state_dict();
  dict.erase(dict.begin() + 1);
  for (auto& [name, t] : dict)
    if (name == "1.weight") t = zeros({2, 5});
  dict.emplace_back("x", zeros({1}));
  EXPECT_EQ(error_of([&] { net.load_state_dict(dict); }),
            "Error(s) in loading state_dict for Sequential:\n\tMissing key(s) in state_dict: \"0.bias\". "
            "\n\tUnexpected "
            "key(s) in state_dict: \"x\". \n\tsize mismatch for 1.weight: copying a param with shape "
            "torch.Size([2, 5]) "
            "from checkpoint, the shape in current model is torch.Size([2, 4]).");
  dict = {{"x", zeros({1})}};
  LoadResult result = net.load_state_dict(dict, false);
  EXPECT_EQ(result.missing, (Names{"0.weight", "0.bias", "1.weight", "1.bias"}));
  EXPECT_EQ(result.unexpected, (Names{"x"}));
}

TEST(Module, BadNamesAreRefused) {
  Module m;
  EXPECT_EQ(error_of([&] { m.add("a.b", ReLU()); }), "module name can't contain \".\", got: a.b");
  EXPECT_EQ(error_of([&] { m.add("", ReLU()); }), "module name can't be empty string \"\"");
  EXPECT_EQ(error_of([&] { m.register_parameter("a.b", {}); }),
            "parameter name can't contain \".\", got: a.b");
  Tensor t = ones({2}, kFloat);
  t.requires_grad_();
  EXPECT_NE(error_of([&] { m.register_parameter("p", t * 2); }).find("non-leaf"), std::string::npos);
  EXPECT_EQ(error_of([&] { m.register_parameter("p", zeros({2}, kLong)); }),
            "only Tensors of floating point dtype can require gradients");
  Module child;
  child.add("m", m);
  EXPECT_EQ(error_of([&] { m.add("c", child); }), "add(\"c\"): a module can't be its own descendant");
}

TEST(Module, ANameIsOneThing) {
  struct Net : nn::Module {
    nn::Linear fc = add("fc", nn::Linear(2, 2));
    nn::Parameter scale = register_parameter("scale", ones({2}));
    nn::Buffer mean = register_buffer("mean", zeros({2}));
  } net;
  EXPECT_EQ(error_of([&] { net.register_parameter("fc", ones({1})); }), "attribute 'fc' already exists");
  EXPECT_EQ(error_of([&] { net.register_parameter("mean", ones({1})); }), "attribute 'mean' already exists");
  EXPECT_EQ(error_of([&] { net.register_buffer("scale", ones({1})); }), "attribute 'scale' already exists");
  EXPECT_EQ(error_of([&] { net.add("scale", nn::Linear(1, 1)); }), "attribute 'scale' already exists");
  EXPECT_EQ(net.state_dict().size(), 4u);
  net.register_buffer("mean", ones({3}));  // its own place
  EXPECT_EQ(net.state_dict().size(), 4u);
}

TEST(Module, ConversionReachesEveryHandle) {
  BatchNorm2d bn(3);
  Tensor handle = bn.weight;
  bn.to_double();
  EXPECT_EQ(handle.dtype(), DType::float64);
  EXPECT_EQ(bn.running_mean.dtype(), DType::float64);
  EXPECT_EQ(bn.num_batches_tracked.dtype(), DType::int64);
  EXPECT_TRUE(handle.requires_grad());
  Tensor y = bn(ones({2, 3, 2, 2}, kDouble));
  y.sum().backward();
  EXPECT_EQ(handle.grad().dtype(), DType::float64);
  bn.to(kFloat);
  EXPECT_EQ(handle.grad().dtype(), DType::float32);
  EXPECT_EQ(error_of([&] { bn.to(kLong); }),
            "nn.Module.to only accepts floating point or complex dtypes, but got desired dtype=torch.int64");
}

TEST(Module, MetaModulesHaveNoMemory) {
  Linear big({.in = 1 << 20, .out = 1 << 20, .device = kMeta});
  EXPECT_TRUE(big.weight.is_meta());
  EXPECT_EQ(str(big.weight.sizes()), "[1048576, 1048576]");
  Linear small({.in = 2, .out = 2, .device = kMeta});
  EXPECT_NE(error_of([&] { small.load_state_dict(Linear(2, 2).state_dict()); }).find("meta device"),
            std::string::npos);
  small.to(kCPU).load_state_dict(Linear(2, 2).state_dict());
  EXPECT_FALSE(small.weight.is_meta());
}

TEST(Module, TrainAndEvalReachChildren) {
  Sequential net(Dropout(0.5), Sequential(Dropout(0.5)));
  net.eval();
  EXPECT_FALSE(net[1].as<Sequential>()[0].training());
  Tensor x = ones({8});
  EXPECT_EQ(net(x).to_vector<float>(), x.to_vector<float>());
  net.train();
  EXPECT_TRUE(net[0].training());
}

TEST(Module, HooksSeeAndChangeArgumentsAndOutputs) {
  Linear layer(2, 2);
  Tensor seen;
  int first = layer.register_forward_pre_hook([&](const Module& m, const Value& args) {
    EXPECT_EQ(m.type_name(), "torch.nn.modules.linear.Linear");
    seen = args.items()[0].tensor();
  });
  layer.register_forward_pre_hook(
      [](const Module&, const Value& args) { return args.items()[0].tensor() * 0; });
  int last = layer.register_forward_hook(
      [](const Module&, const Value&, const Value& output) { return output.tensor() + 1; });
  Tensor x = ones({1, 2});
  Tensor y = layer(x);
  EXPECT_TRUE(seen.is_same(x));
  auto bias = layer.bias.to_vector<float>();
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{bias[0] + 1, bias[1] + 1}));
  layer.remove_hook(last);
  layer.remove_hook(first);
  EXPECT_EQ(layer(x).to_vector<float>(), bias);
}

TEST(Module, CallsEnterTheScopeOfTheirPath) {
  Tower tower;
  std::vector<std::string> paths;
  tower.block.paths = &paths;
  for (Block& b : tower.list) b.paths = &paths;
  call(tower, ones({1, 2}));
  ASSERT_EQ(paths.size(), 3u);
  EXPECT_EQ(paths[0].substr(0, 6), "block:");
  EXPECT_EQ(paths[1].substr(0, 7), "list.0:");
  EXPECT_EQ(paths[2].substr(0, 7), "list.1:");
  EXPECT_EQ(paths[0].substr(6), "tern.nn.Block");
  EXPECT_EQ(thread_state.scope, nullptr);
}

TEST(Module, ASharedLayerIsCalledByEachOfItsNames) {
  struct Probe : Layer<Probe> {
    std::vector<std::string>* paths = nullptr;
    Tensor forward(Tensor x) {
      paths->push_back(thread_state.scope->path.str());
      return x;
    }
  };
  std::vector<std::string> paths;
  struct Shared : Module {
    Probe a, b;
    explicit Shared(Probe p) : a(add("a", p)), b(add("b", p)) {}
    Tensor forward(Tensor x) { return b(a(x)); }
  };
  Probe probe;
  probe.paths = &paths;
  Shared net(probe);
  call(net, ones({1}));
  EXPECT_EQ(paths, (Names{"a", "b"}));
}

TEST(Module, ApplyVisitsChildrenFirst) {
  Net net;
  Names order;
  net.apply([&](const Module& m) { order.emplace_back(m.type_name().substr(m.type_name().rfind('.') + 1)); });
  EXPECT_EQ(order.size(), 3u);
  EXPECT_EQ(order[0], "Linear");
}

TEST(Module, ReplaceChangesTheMember) {
  Net net;
  net.replace("fc2", net.fc2, Linear(3, 7));
  EXPECT_EQ(str(call(net, ones({1, 4})).sizes()), "[1, 7]");
  EXPECT_EQ(str(net.parameter("fc2.weight").sizes()), "[7, 3]");
}

TEST(Module, ModuleDictFindsByName) {
  ModuleDict<> heads{{"a", Linear(2, 1)}, {"b", Linear(2, 3)}};
  EXPECT_EQ(str(heads["b"](ones({1, 2})).sizes()), "[1, 3]");
  EXPECT_EQ(names(heads.state_dict()), (Names{"a.weight", "a.bias", "b.weight", "b.bias"}));
  EXPECT_EQ(error_of([&] { heads["c"]; }), "ModuleDict has no key 'c'");
}

TEST(Module, PrintsAsPyTorch) {
  Sequential net(Linear(3, 4), ReLU(true),
                 Conv2d({.in = 3,
                         .out = 6,
                         .kernel = 3,
                         .stride = 2,
                         .padding = 1,
                         .dilation = 2,
                         .groups = 3,
                         .bias = false,
                         .padding_mode = "reflect"}),
                 Conv2d({.in = 1, .out = 2, .kernel = {3, 5}, .padding = "same"}),
                 ConvTranspose2d({.in = 2, .out = 3, .kernel = 3, .stride = 2, .output_padding = 1}),
                 BatchNorm2d(4), LayerNorm(5), GroupNorm(2, 4), RMSNorm(5), MaxPool2d(2), AvgPool2d(2),
                 AvgPool1d(2), AdaptiveAvgPool2d({1, 1}), AdaptiveAvgPool2d(1), GELU(), LeakyReLU(0.1),
                 Softplus(), Hardtanh(), Softmax(1), PReLU(), Dropout(0.3), Flatten(), Unflatten(1, {2, 3}),
                 Identity(), ZeroPad2d(1),
                 BatchNorm1d({.features = 3, .momentum = {}, .affine = false, .track_running_stats = false}));
  EXPECT_EQ(net.str(), R"(Sequential(
  (0): Linear(in_features=3, out_features=4, bias=True)
  (1): ReLU(inplace=True)
  (2): Conv2d(3, 6, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), dilation=(2, 2), groups=3, bias=False, padding_mode=reflect)
  (3): Conv2d(1, 2, kernel_size=(3, 5), stride=(1, 1), padding=same)
  (4): ConvTranspose2d(2, 3, kernel_size=(3, 3), stride=(2, 2), output_padding=(1, 1))
  (5): BatchNorm2d(4, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
  (6): LayerNorm((5,), eps=1e-05, elementwise_affine=True, bias=True)
  (7): GroupNorm(2, 4, eps=1e-05, affine=True, bias=True)
  (8): RMSNorm((5,), eps=None, elementwise_affine=True)
  (9): MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
  (10): AvgPool2d(kernel_size=2, stride=2, padding=0)
  (11): AvgPool1d(kernel_size=(2,), stride=(2,), padding=(0,))
  (12): AdaptiveAvgPool2d(output_size=(1, 1))
  (13): AdaptiveAvgPool2d(output_size=1)
  (14): GELU(approximate='none')
  (15): LeakyReLU(negative_slope=0.1)
  (16): Softplus(beta=1.0, threshold=20.0)
  (17): Hardtanh(min_val=-1.0, max_val=1.0)
  (18): Softmax(dim=1)
  (19): PReLU(num_parameters=1)
  (20): Dropout(p=0.3, inplace=False)
  (21): Flatten(start_dim=1, end_dim=-1)
  (22): Unflatten(dim=1, unflattened_size=(2, 3))
  (23): Identity()
  (24): ZeroPad2d((1, 1, 1, 1))
  (25): BatchNorm1d(3, eps=1e-05, momentum=None, affine=False, bias=False, track_running_stats=False)
))");
  EXPECT_EQ(Sequential().str(), "Sequential()");
}

TEST(Module, PrintsNestedAndFoldedModules) {
  TransformerEncoder encoder(TransformerEncoderLayer({.d_model = 8, .nhead = 2, .dim_feedforward = 16}), 2);
  EXPECT_EQ(encoder.str(), R"(TransformerEncoder(
  (layers): ModuleList(
    (0-1): 2 x TransformerEncoderLayer(
      (self_attn): MultiheadAttention(
        (out_proj): NonDynamicallyQuantizableLinear(in_features=8, out_features=8, bias=True)
      )
      (linear1): Linear(in_features=8, out_features=16, bias=True)
      (dropout): Dropout(p=0.1, inplace=False)
      (linear2): Linear(in_features=16, out_features=8, bias=True)
      (norm1): LayerNorm((8,), eps=1e-05, elementwise_affine=True, bias=True)
      (norm2): LayerNorm((8,), eps=1e-05, elementwise_affine=True, bias=True)
      (dropout1): Dropout(p=0.1, inplace=False)
      (dropout2): Dropout(p=0.1, inplace=False)
    )
  )
))");
}

TEST(Module, InitFormulas) {
  EXPECT_DOUBLE_EQ(init::calculate_gain("relu"), std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(init::calculate_gain("tanh"), 5.0 / 3);
  EXPECT_EQ(init::fans(zeros({4, 3, 2, 2})).in, 12);
  EXPECT_EQ(init::fans(zeros({4, 3, 2, 2})).out, 16);
  EXPECT_EQ(error_of([] { init::xavier_uniform_(zeros({3})); }),
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions");
  EXPECT_EQ(error_of([] {
              init::kaiming_uniform_(zeros({3, 3}), {.mode = "x"});
            }),
            "Mode x not supported, please use one of ['fan_in', 'fan_out']");
}

struct Scaled : Module {
  ParameterList list = add("list", ParameterList({ones({2}), ones({2, 3}, kDouble)}));
  ParameterDict dict = add("dict", ParameterDict({{"w", ones({1})}}));
  Linear fc = add("fc", Linear(1, 1));
  Tensor forward(const Tensor& x) { return x * list[0] + dict["w"]; }
};

TEST(Module, ParametersInAListAndByName) {
  Scaled net;
  std::vector<std::string> names;
  for (const auto& [name, t] : net.state_dict()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"list.0", "list.1", "dict.w", "fc.weight", "fc.bias"}));
  EXPECT_EQ(net.list.str(), R"(ParameterList(
    (0): Parameter containing: [torch.float32 of size 2]
    (1): Parameter containing: [torch.float64 of size 2x3]
))");
  EXPECT_EQ(net.dict.str(), "ParameterDict(  (w): Parameter containing: [torch.FloatTensor of size 1])");
  EXPECT_EQ(ParameterList().str(), "ParameterList()");

  net.dict.insert("v", zeros({2}));
  net.dict["w"] = full({1}, 5.0);
  net.list[0] = full({2}, 2.0);
  EXPECT_EQ(net.dict.size(), 2u);
  EXPECT_TRUE(net.dict.contains("v"));
  EXPECT_FALSE(net.dict.contains("u"));
  EXPECT_EQ(call(net, ones({2})).to_vector<float>(), (std::vector<float>{7, 7}));

  Scaled copy = clone(net);
  {
    NoGrad plain;
    copy.list[0].now().fill_(9);
  }
  EXPECT_EQ(net.parameter("list.0").to_vector<float>(), (std::vector<float>{2, 2}));
  EXPECT_EQ(copy.parameter("list.0").to_vector<float>(), (std::vector<float>{9, 9}));
  net.to_double();
  EXPECT_NE(net.list.str().find("[torch.float64 of size 2]"), std::string::npos);
}

TEST(Module, PrintsAsItsOwnClass) {
  Scaled net;
  std::ostringstream out;
  out << net;
  EXPECT_TRUE(out.str().starts_with("Scaled(\n  (list): ParameterList(\n      (0): Parameter containing:"))
      << out.str();
  EXPECT_EQ(str(net), out.str());
}

}  // namespace
}  // namespace tern::nn
