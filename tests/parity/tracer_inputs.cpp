// Traces: what goes in. Containers are taken apart in the graph; names of arguments are kept.
#include "tests/parity/tracer.h"

namespace tern {
namespace {

using namespace tracer;

Value dict(std::vector<std::pair<Value, Value>> entries) { return Value::dict(std::move(entries)); }

TEST(Tracer, input_flatten) {
  auto fn = [](Tensor x, std::tuple<Tensor, Tensor> t) { return x * std::get<0>(t) * std::get<1>(t); };
  jit::ScriptModule traced = check_trace(fn, {randn({1}), Value::tuple({randn({1}), randn({1})})});
  EXPECT_TRUE(FileCheck().check("prim::TupleUnpack").check_count("aten::mul", 2, true).run(text(traced)));
}

TEST(Tracer, input_dict_empty) {
  auto test = [](Value) { return Value(); };
  EXPECT_THAT([&] { check_trace(test, {dict({})}); },
              ThrowsMessage<Error>(HasSubstr("Dictionary inputs must have entries")));
}

struct TakesX : nn::Module {
  Tensor forward(Value dict_input) { return dict_input.find("x")->tensor(); }
};
TEST(Tracer, input_dict_remembers_keys) {
  jit::ScriptModule traced = jit::trace(TakesX(), {dict({{"x", tensor(1)}})});
  auto run = [&](Value d) { return traced.forward(Values{d}).tensor(); };
  expect_same(run(dict({{"x", tensor(1)}})), tensor(1));
  expect_same(run(dict({{"x", tensor(2)}})), tensor(2));
  EXPECT_THROW(run(dict({{"y", tensor(3)}})), Error);
  expect_same(run(dict({{"x", tensor(4)}, {"y", tensor(3)}})), tensor(4));
}

struct TakesXAndY : nn::Module {
  std::tuple<Tensor, Tensor> forward(Value d) { return {d.find("x")->tensor(), d.find("y")->tensor()}; }
};
TEST(Tracer, input_dict_insertion_order) {
  Value x_then_y = dict({{"x", tensor(1)}, {"y", tensor(2)}});
  jit::ScriptModule traced = jit::trace(TakesXAndY(), {x_then_y});
  expect_same(traced.forward(Values{x_then_y}), Value::tuple({tensor(1), tensor(2)}));
  Value y_then_x = dict({{"y", tensor(4)}, {"x", tensor(3)}});
  expect_same(traced.forward(Values{y_then_x}), Value::tuple({tensor(3), tensor(4)}));
}

struct TakesXOfOne : nn::Module {
  Tensor forward(Value d) { return d.find("x")->find(1)->tensor(); }
};
TEST(Tracer, input_dict_recursive) {
  jit::ScriptModule traced = jit::trace(TakesXOfOne(), {dict({{"x", dict({{1, tensor(1)}})}})});
  expect_same(traced.forward(Values{dict({{"x", dict({{1, tensor(2)}})}})}).tensor(), tensor(2));
}

TEST(Tracer, input_dict_checkTrace_mut) {
  auto test = [](Value d) {
    tanh_(d.find("x")->tensor());
    return d.find("x")->tensor();
  };
  jit::ScriptModule traced =
      check_trace(test, {dict({{"x", rand({3, 4})}, {"y", rand({3, 4})}})}, {.inputs_require_grads = false});
  Tensor x = rand({3, 4}), expected = x.tanh();
  traced.forward(Values{dict({{"x", x}, {"y", rand({3, 4})}})});
  expect_same(x, expected);  // the caller's tensor has changed
}

TEST(Tracer, input_dict_unify) {
  auto test = [](Value d) { return std::tuple(d.find("int")->tensor(), d.find("float")->tensor()); };
  check_trace(test, {dict({{"int", ones({2, 2}, kInt)}, {"float", ones({2, 2}, kFloat)}})},
              {.inputs_require_grads = false});
}

TEST(Tracer, input_tuple_of_dicts) {
  auto test = [](Value t) { return t.items()[0].find("x")->find("y")->tensor(); };
  Value inputs = dict({{"x", dict({{"y", rand({2, 3})}})}});
  check_trace(test, {Value::tuple({inputs, inputs})}, {.allow_unused = true});
}

TEST(Tracer, input_dict_of_dicts) {
  auto test = [](Value d) { return d.find("x")->find("y")->tensor(); };
  Value inputs = dict({{"x", dict({{"y", rand({2, 3})}})}, {"force_unify", dict({{"y", rand({3, 2})}})}});
  check_trace(test, {inputs}, {.allow_unused = true});
}

TEST(Tracer, input_dict_of_lists) {
  auto test = [](Value d) { return d.find("x")->items()[0].tensor(); };
  check_trace(test, {dict({{"x", Value::list({rand({3, 2})})}})});
}

TEST(Tracer, input_list_toplevel_flatten) {
  auto test = [](Tensor t1, Tensor t2) { return add(t1, t2); };
  check_trace(test, {ones({2, 2}), rand({2, 2})});
}

struct AddsTwo : nn::Module {
  Tensor forward(Tensor t1, Tensor t2) { return tern::add(t1, t2); }
};
TEST(Tracer, input_list_toplevel_flatten_direct) {
  Values inputs{ones({2, 2}), rand({2, 2})};
  jit::ScriptModule traced = jit::trace(AddsTwo(), inputs);
  EXPECT_EQ(traced.graph().inputs().size(), 3u);  // with self
  expect_same(traced.forward(inputs).tensor(), inputs[0].tensor() + inputs[1].tensor());
}

TEST(Tracer, input_list_of_tuples) {
  auto test = [](Value l) { return l.items()[0].items()[0].tensor(); };
  check_trace(test, {Value::list({Value::tuple({ones({2, 2})})})});
}

TEST(Tracer, input_dict_empty_list) {
  auto test = [](Value) { return Value(); };
  EXPECT_THAT(
      [&] {
        check_trace(test, {dict({{1, Value::list({})}})});
      },
      ThrowsMessage<Error>(HasSubstr("List trace inputs must have elements")));
}

TEST(Tracer, input_list_mixed_type) {
  auto test = [](Value) { return Value(); };
  Value mixed = Value::list({rand({2, 3}), Value::tuple({ones({2}), ones({2})})});
  EXPECT_THAT(
      [&] { check_trace(test, {mixed}); },
      ThrowsMessage<Error>(HasSubstr("List inputs to traced functions must have consistent element type. "
                                     "Found Tensor and Tuple[Tensor, Tensor]")));
}

struct Point {
  Tensor x, y;
  static constexpr auto fields = tree::fields("x", &Point::x, "y", &Point::y);
};
TEST(Tracer, trace_namedtuple) {
  auto f = [](Point p) { return p.x + p.y; };
  Point p{randn({1}), randn({1})};
  jit::ScriptModule traced = jit::trace(f, {tree::to_value(p)});
  EXPECT_TRUE(FileCheck().check("prim::TupleUnpack").check("aten::add").run(text(traced)));
  expect_same(traced.forward(Values{tree::to_value(p)}).tensor(), f(p));
  Point q{randn({1}), randn({1})};
  expect_same(traced.forward(Values{Value::tuple({q.x, q.y})}).tensor(), f(q));
}

struct Concatenates : nn::Module {
  Tensor forward(std::vector<Tensor> xs) { return cat(xs, 0); }
};
TEST(Tracer, trace_checking_with_global_name) {
  Tensor input1 = ones({2, 2}), input2 = ones({2, 2});
  Values inputs{Value::list({input1, input2})};
  jit::ScriptModule traced = jit::trace(Concatenates(), inputs);
  expect_same(traced.forward(Values{Value::list({input1 * 2, input2})}).tensor(),
              cat({input1 * 2, input2}, 0));
}

struct Foo : nn::Layer<Foo> {
  std::map<std::string, Tensor> forward(std::map<std::string, Tensor> x) { return {{"a", x["a"] * x["b"]}}; }
};
struct Bar : nn::Module {
  Foo foo = add("foo", Foo());
  Tensor forward(Tensor a, Tensor b) { return foo(std::map<std::string, Tensor>{{"a", a}, {"b", b}})["a"]; }
};
TEST(Tracer, trace_dict_input) {
  Bar model;
  jit::ScriptModule traced = check_trace(model, {rand({3}), rand({3})});
  EXPECT_TRUE(FileCheck().check("prim::CallMethod[name=\"forward\"]").check("return").run(text(traced)));
}

TEST(Tracer, non_tensor_tracing) {
  auto f = [](int64_t x) { return tensor(x); };
  EXPECT_THAT([&] { jit::trace(f, {1}); },
              ThrowsMessage<Error>(HasSubstr("Type 'Tuple[int]' cannot be traced. Only Tensors and (possibly "
                                             "nested) Lists, Dicts, and Tuples of Tensors can be traced")));
}

TEST(Tracer, repeated_input) {
  auto fn = [](Tensor a, Tensor b) { return a + b; };
  Tensor x = randn({2, 2});
  jit::ScriptModule traced = check_trace(fn, {x, x});
  EXPECT_EQ(traced.graph().inputs().size(), 3u);  // with self
  jit::ScriptModule twice = jit::trace(fn, {x, x});
  Tensor y = randn({2, 2});
  expect_same(twice.forward(Values{x, y}).tensor(), x + y);
}

// ---- names ----

TEST(Tracer, trace_func_argument_names_captured) {
  auto fn = [](Tensor first_arg, Tensor second_arg) { return first_arg + second_arg; };
  jit::ScriptModule traced = jit::trace(fn, {ones({1}), ones({1})}, {.names = {"first_arg", "second_arg"}});
  EXPECT_TRUE(FileCheck().check("first_arg").check_next("second_arg").run(text(traced)));
  Tensor three = full({1}, 3.0);
  expect_same(traced.forward(Values{ones({1})}, {{"second_arg", three}}).tensor(), ones({1}) + three);
}

struct Partial {
  static constexpr const char* arguments[] = {"first_arg", "second_arg"};
  Tensor operator()(Tensor first_arg) { return first_arg + second_arg; }
  int64_t second_arg = 1;
};
TEST(Tracer, trace_partial_func_argument_names_captured) {
  jit::ScriptModule traced = jit::trace(Partial(), {ones({1})});
  EXPECT_TRUE(FileCheck().check("first_arg").check_not("second_arg").run(text(traced)));
}

struct NamedArguments : nn::Module {
  static constexpr const char* arguments[] = {"first_arg", "second_arg"};
  nn::Conv2d conv = add("conv", nn::Conv2d({.in = 1, .out = 1, .kernel = 3}));
  Tensor forward(Tensor first_arg, Tensor second_arg) { return conv(first_arg) + second_arg; }
};
TEST(Tracer, trace_module_argument_names_captured) {
  NamedArguments m;
  Values example{ones({1, 1, 3, 3}), ones({1, 1, 3, 3})};
  FileCheck wanted = FileCheck().check("first_arg").check_next("second_arg");
  EXPECT_TRUE(wanted.run(text(jit::trace(m, &NamedArguments::forward, example))));
  EXPECT_TRUE(wanted.run(text(jit::trace(m, example))));
}

TEST(Tracer, trace_records_names) {
  auto foo = [](Tensor bar, Tensor baz) {
    baz = jit::named("baz", bar + 3);
    Tensor quick_brown_fox = jit::named("quick_brown_fox", neg(baz));
    Tensor yeet;
    for (int i = 0; i < 20; ++i) yeet = quick_brown_fox - 3.14;
    return yeet;
  };
  jit::ScriptModule traced = jit::trace(foo, {rand({3, 3}), rand({3, 3})}, {.names = {"bar", "baz"}});
  EXPECT_TRUE(FileCheck()
                  .check("%bar")
                  .check("%baz")
                  .check("%quick_brown_fox")
                  .check("aten::neg(%baz")
                  .check("aten::sub(%quick_brown_fox")
                  .run(text(traced)));
}

struct AddsXAndY : nn::Module {
  static constexpr const char* arguments[] = {"x", "y"};
  Tensor forward(Tensor x, Tensor y) { return x + y * 2; }
};
TEST(Tracer, trace_checking_with_deprecated_name) {
  AddsXAndY model;
  Tensor x = rand({1}), y = rand({1});
  jit::ScriptModule m2 = jit::trace(model, {ones({1}), ones({1})});
  jit::ScriptModule m3 =
      jit::trace(model, {}, {.strict = false, .keyword_inputs = {{"y", ones({1})}, {"x", ones({1})}}});
  for (const jit::ScriptModule& m : {m2, m3})
    expect_same(m.forward(Values{}, {{"y", y}, {"x", x}}).tensor(), x + y * 2);
  EXPECT_THAT(
      [&] {
        jit::trace(model, {}, {.keyword_inputs = {{"x", x}, {"z", y}}});
      },
      ThrowsMessage<Error>(HasSubstr("there is no argument 'z'")));
}

struct AddsParameter : nn::Module {
  nn::Parameter x;
  explicit AddsParameter(const Tensor& t) : x(register_parameter("x", t)) {}
  Tensor forward(Tensor y) { return x + y; }
};
TEST(Tracer, trace_aliased_parameter) {
  AddsParameter m(rand({3, 4}));
  jit::ScriptModule traced = jit::trace(m, {m.x});
  Tensor t2 = rand({3, 4});
  expect_same(traced.forward(Values{t2}).tensor(), m.x + t2);
}

}  // namespace
}  // namespace tern
