// Traces and scripts together: functions and modules of each called from the other stay calls.
#include "tests/parity/tracer.h"

namespace tern {
namespace {

using namespace tracer;
using script::Role;

std::string text(const script::Function& f) { return ir::torch_text(f.graph()); }
using tracer::text;

struct TracedInlineDecision : nn::Module {
  std::shared_ptr<script::Function> make_decision = script::compile_function(R"(
def make_decision(flag, x):
  if bool(flag):
    return x
  else:
    return torch.zeros_like(x)
)");
  Tensor forward(Tensor x, Tensor flag) { return make_decision->call(Values{flag, neg(x)}).tensor(); }
};
TEST(Tracer, trace_nested_fn) {
  jit::ScriptModule traced =
      jit::trace(TracedInlineDecision(), {rand({3, 4}), tensor({true})}, {.check_trace = true});
  Tensor x = rand({3, 4});
  expect_same(traced.forward(Values{x, tensor({true})}).tensor(), -x);
  expect_same(traced.forward(Values{x, tensor({false})}).tensor(), zeros({3, 4}));
}

TEST(Tracer, trace_slice_expr_complete_type) {
  auto random_foo =
      jit::trace_function([](Tensor x) { return x + 1.0; }, {rand({3, 4})}, {.name = "random_foo"});
  auto random_bar = script::compile_function("def random_bar(x):\n  return random_foo(x)[0:1]\n",
                                             {.functions = {random_foo}});
  Tensor x = rand({3, 4});
  expect_same(random_bar->call(Values{x}).tensor(), (x + 1).slice(0, 0, 1));
}

TEST(Tracer, trace_inline_shape) {
  auto tensor_size = script::compile_function(
      "def tensor_size(x: Tensor) -> Tensor:\n  return torch.tensor([x.size()[0]])\n");
  auto size_of = [&](Tensor x) { return tensor_size->call(Values{x}).tensor(); };
  expect_same(size_of(rand({15})), tensor({15}, {.dtype = kLong}));
  jit::ScriptModule traced = jit::trace(size_of, {rand({7})});
  expect_same(traced.forward(Values{rand({15})}).tensor(), tensor({15}, {.dtype = kLong}));

  auto use_device =
      script::compile_function("def use_device(x):\n  return torch.zeros_like(x, device=x.device)\n");
  jit::ScriptModule foo =
      jit::trace([&](Tensor x) { return use_device->call(Values{x}).tensor(); }, {rand({7})});
  EXPECT_TRUE(FileCheck().check("prim::device").run(ir::torch_text(*foo.inlined_graph())));
}

TEST(Tracer, trace_optional) {
  auto test = script::compile_function(R"(
def test(x: Optional[Tensor]):
  if x is None:
    return torch.zeros(1)
  else:
    return x
)");
  jit::ScriptModule none = jit::trace([&] { return test->call(Values{Value()}).tensor(); }, {});
  expect_same(none.forward(Values{}).tensor(), zeros({1}));
  jit::ScriptModule some = jit::trace([&] { return test->call(Values{zeros({2})}).tensor(); }, {});
  expect_same(some.forward(Values{}).tensor(), zeros({2}));
  EXPECT_TRUE(FileCheck().check("name=\"test\"").check_next("prim::CallFunction").run(text(some)));
}

TEST(Tracer, trace_nested_datatypes) {
  auto foo = script::compile_function("def foo(x):\n  return [[x + 1, x - 1], [x + 2, x - 2]]\n");
  auto bar = [&](Tensor x) {
    Value list_stuff = foo->call(Values{x});
    return std::tuple(list_stuff.items()[0].items()[0].tensor(), list_stuff.items()[1].items()[1].tensor());
  };
  jit::ScriptModule traced = jit::trace(bar, {rand({3, 4})});
  EXPECT_TRUE(
      FileCheck().check("Tensor[][] = prim::CallFunction").check("prim::ListUnpack").run(text(traced)));
  Tensor x = rand({5, 6});
  expect_same(traced.forward(Values{x}), tree::to_value(bar(x)));
}

// ---- from a trace ----

struct CallsFunction : nn::Module {
  std::shared_ptr<script::Function> function;
  nn::Parameter param = register_parameter("param", rand({4, 5}));
  explicit CallsFunction(std::shared_ptr<script::Function> f) : function(std::move(f)) {}
  Tensor forward(Tensor x) { return function->call(Values{mm(x, param)}).tensor(); }
};
TEST(Tracer, call_traced_fn_from_traced_module) {
  auto traced_fn =
      jit::trace_function([](Tensor x) { return neg(x); }, {rand({3, 4})}, {.name = "traced_fn"});
  CallsFunction m(traced_fn);
  jit::ScriptModule tm = jit::trace(m, {rand({3, 4})});
  EXPECT_TRUE(FileCheck()
                  .check("aten::mm")
                  .check("name=\"traced_fn\"")
                  .check_next("prim::CallFunction")
                  .run(text(tm)));
  Tensor x = rand({3, 4});
  for (const jit::ScriptModule& t : {tm, saved_and_loaded(tm)})
    expect_same(t.forward(Values{x}).tensor(), -mm(x, m.param));
}

TEST(Tracer, call_script_fn_from_traced_module) {
  auto scripted_fn = script::compile_function("def scripted_fn(x):\n  return torch.neg(x)\n");
  CallsFunction m(scripted_fn);
  jit::ScriptModule tm = jit::trace(m, {rand({3, 4})});
  EXPECT_TRUE(
      FileCheck().check("aten::mm").check("name=\"scripted_fn\"").check("prim::CallFunction").run(text(tm)));
  Tensor x = rand({3, 4});
  for (const jit::ScriptModule& t : {tm, saved_and_loaded(tm)})
    expect_same(t.forward(Values{x}).tensor(), -mm(x, m.param));
}

struct CallsModule : nn::Module {
  nn::Parameter param = register_parameter("param", rand({4, 5}));
  jit::ScriptLayer mod;
  explicit CallsModule(const jit::ScriptModule& m) : mod(add("mod", jit::ScriptLayer(m))) {}
  Tensor forward(Tensor x) { return mod(mm(x, param)).tensor() + 1.0; }
};
void check_calls_module(const jit::ScriptModule& inner) {
  CallsModule m(inner);
  EXPECT_EQ(m.named_parameters().size(), 2u);  // the script's parameter is the module's too
  jit::ScriptModule tm = jit::trace(m, {rand({3, 4})});
  EXPECT_TRUE(FileCheck()
                  .check("aten::mm")
                  .check("prim::CallMethod")
                  .check_same("forward")
                  .check("aten::add")
                  .run(text(tm)));
  Tensor x = rand({3, 4});
  for (const jit::ScriptModule& t : {tm, saved_and_loaded(tm)})
    expect_same(t.forward(Values{x}).tensor(), m.forward(x));
}
struct TracedModule1 : nn::Module {
  nn::Parameter param = register_parameter("param", rand({5, 7}));
  Tensor forward(Tensor x) { return mm(x, param); }
};
TEST(Tracer, call_traced_module_from_traced_module) {
  check_calls_module(jit::trace(TracedModule1(), {rand({3, 5})}));
}
TEST(Tracer, call_script_module_from_traced_module) {
  check_calls_module(
      jit::make_module({.type_name = "ScriptMod",
                        .members = {{"param_foo", rand({5, 7}), Role::parameter}},
                        .source = "def forward(self, x):\n  return torch.mm(x, self.param_foo)\n"}));
}

TEST(Tracer, trace_mixed_by_script_with_dict_output) {
  auto return_dict = script::compile_function(
      "def return_dict(input: Tensor) -> Dict[str, Tensor]:\n  return {'foo': input + 1}\n");
  auto forward = [&](Tensor input) {
    Value dict = return_dict->call(Values{input});
    return dict.find("foo")->tensor() + dict.find("foo")->tensor();
  };
  Tensor x = ones({1});
  jit::ScriptModule tm = jit::trace(forward, {x});
  EXPECT_TRUE(
      FileCheck().check("Dict(str, Tensor) = prim::CallFunction").check("aten::__getitem__").run(text(tm)));
  expect_same(tm.forward(Values{x}).tensor(), x + 1 + x + 1);
}

TEST(Tracer, jit_trace_callfunction_return_shapes) {
  auto inner_fn = script::compile_function("def inner_fn(x):\n  return torch.cat((x, x))\n");
  auto outer_fn = [&](Tensor x, Tensor y) { return relu(inner_fn->call(Values{x + y}).tensor()); };
  Tensor x = rand({2, 2}), y = rand({2, 2});
  jit::ScriptModule traced = jit::trace(outer_fn, {x, y});
  EXPECT_TRUE(FileCheck().check("Float").check("4, 2").check("CallFunction").run(text(traced)));
  size_t calls = 0;
  for (const ir::Node& n : traced.graph().top()) {
    if (!n.is("prim::CallFunction")) continue;
    ++calls;
    const ir::Type& t = *n.output().type();
    EXPECT_TRUE(t.dtype() == kFloat && t.has_sizes() && t.has_strides() && t.device());
  }
  EXPECT_EQ(calls, 1u);
}

// ---- from a script ----

TEST(Tracer, trace_with_size) {
  auto foo = jit::trace_function([](Tensor x) { return x + 1; }, {zeros({1, 1})}, {.name = "foo"});
  auto bar = script::compile_function(R"(
def bar(x):
  y = int(foo(x))
  if 1 == 1:
    y = 7
  return y + 1
)",
                                      {.functions = {foo}});
  EXPECT_EQ(bar->call(Values{ones({1, 1})}).to_int(), 8);
}

TEST(Tracer, call_traced_fn_from_script_fn) {
  auto traced_fn =
      jit::trace_function([](Tensor x) { return neg(x); }, {rand({3, 4})}, {.name = "traced_fn"});
  auto script_fn =
      script::compile_function("def script_fn(x):\n  return traced_fn(x) + 1\n", {.functions = {traced_fn}});
  EXPECT_TRUE(FileCheck().check("prim::CallFunction").check("aten::add").run(text(*script_fn)));
  Tensor x = rand({3, 4});
  expect_same(script_fn->call(Values{x}).tensor(), 1 - x);
}

struct MmZeros : nn::Module {
  Tensor forward(Tensor x) { return mm(x, zeros({4, 3})); }
};
TEST(Tracer, call_traced_mod_from_script_fn) {
  jit::ScriptModule tm = jit::trace(MmZeros(), {rand({3, 4})});
  EXPECT_THAT(
      [&] {
        script::compile_function("def script_fn(x):\n  return tm(x) + 1\n",
                                 {.globals = {{"tm", tm.object()}}});
      },
      ThrowsMessage<Error>(HasSubstr("Cannot call a ScriptModule that is not a submodule of the caller")));
}

TEST(Tracer, call_tracing_fn_from_script_module) {
  auto traced_fn =
      jit::trace_function([](Tensor x) { return neg(x); }, {rand({3, 3})}, {.name = "traced_fn"});
  Tensor param = rand({4, 3});
  jit::ScriptModule sm =
      jit::make_module({.type_name = "ScriptMod",
                        .members = {{"param", param, Role::parameter}},
                        .source = "def forward(self, x):\n  return traced_fn(torch.mm(x, self.param))\n",
                        .functions = {{"__torch__.traced_fn", traced_fn}}});
  EXPECT_TRUE(FileCheck().check("aten::mm").check("prim::CallFunction").run(text(sm)));
  Tensor x = rand({3, 4});
  for (const jit::ScriptModule& m : {sm, saved_and_loaded(sm)})
    expect_same(m.forward(Values{x}).tensor(), -mm(x, param));
}

struct MmParameter : nn::Module {
  nn::Parameter param = register_parameter("param", rand({3, 5}));
  Tensor forward(Tensor x) { return mm(x, param); }
};
TEST(Tracer, call_tracing_mod_from_script_module) {
  MmParameter inner;
  Tensor param = rand({4, 3});
  jit::ScriptModule sm =
      jit::make_module({.type_name = "ScriptMod",
                        .members = {{"param", param, Role::parameter}},
                        .children = {jit::child("tm", jit::trace(inner, {rand({3, 3})}))},
                        .source = "def forward(self, x):\n  return self.tm(torch.mm(x, self.param))\n"});
  EXPECT_TRUE(FileCheck().check("aten::mm").check("prim::CallMethod").run(text(sm)));
  Tensor x = rand({3, 4});
  for (const jit::ScriptModule& m : {sm, saved_and_loaded(sm)})
    expect_same(m.forward(Values{x}).tensor(), mm(mm(x, param), inner.param));
}

struct AddsInputs : nn::Module {
  Tensor forward(Tensor input, Tensor input2) { return input + input2; }
};
TEST(Tracer, script_inline_trace_multiple_args) {
  jit::ScriptModule m2 = jit::make_module(
      {.type_name = "M2",
       .children = {jit::child("m", jit::trace(AddsInputs(), {zeros({4, 3}), zeros({4, 3})}))},
       .source = "def forward(self, inp):\n  return self.m(inp, inp)\n"});
  Tensor x = rand({4, 3});
  expect_same(m2.forward(Values{x}).tensor(), x + x);
}

// ---- modules of both kinds ----

struct UsesScriptModule : nn::Module {
  jit::ScriptLayer ssm;
  explicit UsesScriptModule(const jit::ScriptModule& m) : ssm(add("ssm", jit::ScriptLayer(m))) {}
  Tensor forward(Tensor x) { return ssm.call("bar").tensor() + x; }
};
TEST(Tracer, trace_hierarchy) {
  jit::ScriptModule another = jit::make_module({.type_name = "AnotherScriptMod",
                                                .members = {{"param", rand({1, 2, 3}), Role::parameter}},
                                                .source = "def bar(self):\n  return torch.zeros(4, 5)\n"});
  jit::ScriptModule some =
      jit::make_module({.type_name = "SomeScriptMod", .children = {jit::child("asm", another)}, .source = R"(
def foo(self):
  return torch.zeros(3, 4)
def bar(self):
  return torch.zeros(4, 3)
)"});
  jit::ScriptModule traced = jit::trace(UsesScriptModule(some), {rand({4, 3})});
  EXPECT_TRUE(FileCheck().check("prim::CallMethod[name=\"bar\"]").check("aten::add").run(text(traced)));
  EXPECT_TRUE(traced.submodule("ssm").has_method("foo"));
  jit::ScriptModule imported = saved_and_loaded(traced);
  EXPECT_TRUE(imported.submodule("ssm").has_method("foo"));
  EXPECT_TRUE(imported.submodule("ssm.asm").has_method("bar"));
  EXPECT_TRUE(imported.has_attr("ssm.asm.param"));
  EXPECT_EQ(str(imported.call("forward", Values{ones({4, 3})}).tensor().sizes()), "[4, 3]");
}

struct MapsToScript : nn::Module {
  jit::ScriptLayer b;
  explicit MapsToScript(const jit::ScriptModule& m) : b(add("b", jit::ScriptLayer(m))) {}
  Tensor forward(Value input_map) {
    std::vector<std::pair<Value, Value>> feature_map;
    for (auto& [key, list] : input_map.entries())
      feature_map.emplace_back(key, Value::list({list.items()[0]}));
    return b(Value::dict(std::move(feature_map))).tensor();
  }
};
TEST(Tracer, trace_dict_mix_script) {
  jit::ScriptModule test_b =
      jit::make_module({.type_name = "testB",
                        .children = {jit::child("linear", jit::trace(nn::Linear(2, 2), {rand({2, 2})}))},
                        .source = R"(
def forward(self, feature_map: Dict[str, List[Tensor]]) -> Tensor:
  output = []
  for j in feature_map.values():
    output.append(self.linear(j[0]))
  return torch.stack(output)
)"});
  auto input_map = [] {
    return Value::dict(
        {{"1", Value::list({rand({2, 2}), rand({2, 2})})}, {"3", Value::list({rand({2, 2}), rand({2, 2})})}});
  };
  MapsToScript model(test_b);
  jit::ScriptModule traced = jit::trace(model, {input_map()});
  EXPECT_TRUE(
      FileCheck().check("prim::DictConstruct").check("prim::CallMethod[name=\"forward\"]").run(text(traced)));
  Value other = input_map();
  expect_same(traced.forward(Values{other}).tensor(), model.forward(other));
}

struct ChecksWhatIsReturned : nn::Module {
  jit::ScriptLayer checks_dict, returns_dict;
  ChecksWhatIsReturned(const jit::ScriptModule& checks, const jit::ScriptModule& returns)
      : checks_dict(add("checks_dict", jit::ScriptLayer(checks))),
        returns_dict(add("returns_dict", jit::ScriptLayer(returns))) {}
  Tensor forward(Value input) { return checks_dict(returns_dict(input)).tensor(); }
};
TEST(Tracer, trace_script_returning_complex_dict) {
  jit::ScriptModule returns = jit::make_module({.type_name = "ReturnsDict", .source = R"(
def forward(self, id_score_list: Dict[str, Tuple[Tensor, Tensor, Tensor]]) -> Dict[str, Tuple[Tensor, Tensor, Tensor]]:
  v = id_score_list["1000"]
  idx_keys = v[1] - 1500000
  weights = v[2]
  result = {"1000": (v[0], idx_keys, weights)}
  return result
)"});
  jit::ScriptModule checks = jit::make_module({.type_name = "ChecksDict", .source = R"(
def forward(self, input: Dict[str, Tuple[Tensor, Tensor, Tensor]]):
  v = input["1000"]
  return v[1] + 1
)"});
  auto input = [](Tensor keys, Tensor weights) {
    return Value::dict({{"1000", Value::tuple({tensor({0}, {.dtype = kLong}), keys, weights})}});
  };
  Value input1 = input(zeros({0}, kLong), zeros({0}));
  Value input2 = input(tensor({1500000, 1500004}, {.dtype = kLong}), tensor({2.0f, 3.0f}));
  ChecksWhatIsReturned eager(checks, returns);
  jit::ScriptModule traced = jit::trace(eager, {input1});
  expect_same(traced.forward(Values{input1}).tensor(), eager.forward(input1));
  expect_same(traced.forward(Values{input2}).tensor(), eager.forward(input2));
  expect_same(eager.forward(input2), tensor({1, 5}, {.dtype = kLong}));
}

struct ConvPlus : nn::Module {
  static constexpr const char* arguments[] = {"first_arg", "second_arg"};
  nn::Conv2d conv = add("conv", nn::Conv2d({.in = 1, .out = 1, .kernel = 3}));
  Tensor forward(Tensor first_arg, Tensor second_arg) { return conv(first_arg) + second_arg; }
};
TEST(Tracer, traced_module_implements_interface) {
  auto unit = script::compile(R"(
class TestModuleInterface(ModuleInterface):
  def forward(self, first_arg: Tensor, second_arg: Tensor) -> Tensor:
    pass
def fn_takes_interface(x: TestModuleInterface):
  ones = torch.ones(1, 1, 3, 3)
  return x.forward(ones, ones)
)");
  script::Function& fn = *unit->find_function("fn_takes_interface");
  ConvPlus module;
  Tensor one = ones({1, 1, 3, 3});
  jit::ScriptModule traced = jit::trace(module, {one, one});
  jit::ScriptModule scripted =
      jit::make_module({.type_name = "TestModule",
                        .children = {jit::child("conv", jit::trace(module.conv, {one}))},
                        .source = R"(
def forward(self, first_arg: Tensor, second_arg: Tensor) -> Tensor:
  return self.conv(first_arg) + second_arg
)"});
  for (const jit::ScriptModule& m : {scripted, traced})
    expect_same(fn.call(Values{m.object()}).tensor(), module.forward(one, one));
  jit::ScriptModule other =
      jit::make_module({.type_name = "Other", .source = "def forward(self, x):\n  return x\n"});
  EXPECT_THROW(fn.call(Values{other.object()}), Error);
}

}  // namespace
}  // namespace tern
