// Traces: what comes out, and how strict the tracer is about containers.
#include "tests/parity/tracer.h"

namespace tern {
namespace {

using namespace tracer;

struct LegacyConstructor : nn::Module {
  std::tuple<Tensor, Tensor> forward(Tensor x) { return {x + 1, tensor({0.0f})}; }
};
TEST(Tracer, trace_legacy_ctor) {
  LegacyConstructor m;
  jit::ScriptModule traced = jit::trace(m, {randn({2, 2})});
  Tensor x = randn({2, 2});
  expect_same(traced.forward(Values{x}), Value::tuple({x + 1, tensor({0.0f})}));
}

TEST(Tracer, trace_single_tuple) {
  Tensor x = tensor(2.0);
  auto f2 = [](Tensor x) { return std::tuple(x); };
  jit::ScriptModule traced = jit::trace(f2, {x});
  expect_same(traced.forward(Values{x}), Value::tuple({x}));
}

TEST(Tracer, trace_numel) {
  auto fn = [](Tensor x) { return numel(x); };
  Tensor x = randn({2, 3, 4}), y = randn({4, 5, 6});
  jit::ScriptModule traced = jit::trace(fn, {x});
  EXPECT_TRUE(
      FileCheck().check("aten::numel").check("prim::NumToTensor").check_next("return").run(text(traced)));
  EXPECT_EQ(traced.forward(Values{y}).tensor().item<int64_t>(), 120);
  EXPECT_EQ(traced.forward(Values{x}).tensor().item<int64_t>(), 24);
}

TEST(Tracer, output_unflatten) {
  auto fn = [](Tensor x) { return std::tuple(x * 2, std::tuple(x.pow(2), x + 4, std::tuple(x + 2)), x * 4); };
  jit::ScriptModule traced = check_trace(fn, {randn({2, 2})});
  EXPECT_TRUE(
      FileCheck().check_count("prim::TupleConstruct", 3, true).check_next("return").run(text(traced)));
}

TEST(Tracer, repeated_output) {
  auto fn = [](Tensor a, Tensor b) {
    Tensor z = a + b;
    return std::tuple(z, z);
  };
  jit::ScriptModule traced = check_trace(fn, {randn({2, 2}), randn({2, 2})});
  const ir::Node& tuple = *traced.graph().outputs()[0].value().node();
  ASSERT_TRUE(tuple.is("prim::TupleConstruct"));
  EXPECT_EQ(&tuple.input(0).value(), &tuple.input(1).value());
}

struct StringsToTensors : nn::Module {
  Value forward(Tensor a, Tensor b) { return Value::dict({{"a", a}, {"b", b}}); }
};
struct TensorsToTensors : nn::Module {
  Value forward(Tensor a, Tensor b) { return Value::dict({{a, b}, {b, a}}); }
};
TEST(Tracer, trace_dict_output) {
  Tensor a = rand({3}), b = rand({3});
  EXPECT_THAT(
      [&] {
        jit::trace(StringsToTensors(), {a, b});
      },
      ThrowsMessage<Error>(HasSubstr("Encountering a dict at the output of the tracer")));
  jit::ScriptModule strings = jit::trace(StringsToTensors(), {a, b}, {.strict = false});
  expect_same(strings.forward(Values{a, b}), Value::dict({{"a", a}, {"b", b}}));
  EXPECT_TRUE(FileCheck().check("Dict(str, Tensor) = prim::DictConstruct").run(text(strings)));

  jit::ScriptModule tensors = jit::trace(TensorsToTensors(), {a, b}, {.strict = false});
  expect_same(tensors.forward(Values{a, b}), Value::dict({{a, b}, {b, a}}));
  EXPECT_TRUE(FileCheck().check("Dict(Tensor, Tensor) = prim::DictConstruct").run(text(tensors)));
}

TEST(Tracer, trace_with_tensor_list_output) {
  auto f = [] { return std::vector<Tensor>{zeros({1}), zeros({5})}; };
  EXPECT_THAT(tracer_warnings([&] { jit::trace(f, {}); }),
              Contains(HasSubstr("cause the trace to be incorrect")));
  jit::ScriptModule traced;
  EXPECT_THAT(tracer_warnings([&] { traced = jit::trace(f, {}, {.strict = false}); }), ::testing::IsEmpty());
  expect_same(traced.forward(Values{}), tree::to_value(f()));
}

constexpr const char* only_tensors =
    "Only tensors, lists, tuples of tensors, or dictionary of tensors can be output";

TEST(Tracer, trace_with_number_list_output) {
  auto f = [] { return std::vector<int64_t>{1, 5}; };
  EXPECT_THAT([&] { jit::trace(f, {}); }, ThrowsMessage<Error>(HasSubstr(only_tensors)));
}

TEST(Tracer, trace_with_nested_tensor_list_output) {
  auto f = [] { return std::vector<std::vector<Tensor>>{{zeros({1})}, {zeros({5})}}; };
  EXPECT_THAT([&] { jit::trace(f, {}); }, ThrowsMessage<Error>(HasSubstr(only_tensors)));
}

// A nested tensor made by a script inside the trace, so that it follows the lengths of its inputs.
TEST(Tracer, trace_with_nested_strided_tensor_output) {
  auto nt_construct = script::compile_function(R"(
def nt_construct(values, kv_lengths):
  kv_lengths_list: List[int] = kv_lengths.tolist()
  return torch._nested_tensor_from_tensor_list(
      list(values.split(kv_lengths_list, dim=0)), None, None, None, None
  )
)");
  auto f = [&](Tensor x, Tensor offsets) {
    Tensor kv_lengths = offsets.slice(0, 1) - offsets.slice(0, {}, -1);
    return nt_construct->call(Values{x, kv_lengths}).tensor().cos();
  };
  Tensor x = rand({5, 4}), offsets = tensor({0, 2, 5}, {.dtype = kLong});
  Tensor ref = f(x, offsets);
  ASSERT_TRUE(ref.is_nested());
  expect_same(ref.unbind(), Tensors{x.slice(0, 0, 2).cos(), x.slice(0, 2, 5).cos()});
  jit::ScriptModule traced = jit::trace(f, {x, offsets});
  expect_same(traced.forward(Values{x, offsets}).tensor(), ref);
  Tensor x2 = rand({8, 4}), offsets2 = tensor({0, 2, 4, 8}, {.dtype = kLong});
  Tensor res = traced.forward(Values{x2, offsets2}).tensor();
  expect_same(res, f(x2, offsets2));
  ASSERT_TRUE(res.is_nested());
  EXPECT_EQ(str(res.unbind()[2].sizes()), "[4, 4]");
}

struct ReturnsDict : nn::Module {
  Value forward(Tensor k, Tensor v) {
    Tensor x = 2 * k, y = 3 * v;
    return Value::dict({{"imakey", Value::tuple({x, y})}});
  }
};
struct ReturnsBadDict : nn::Module {
  Value forward(Tensor k, Tensor) {
    Tensor x = 2 * k;
    return Value::dict({{"imakey", Value::tuple({x, 1})}});
  }
};
TEST(Tracer, trace_returning_dict_with_tensor_tuples) {
  jit::ScriptModule traced = jit::trace(ReturnsDict(), {ones({1}), ones({1})}, {.strict = false});
  Value expected = Value::dict({{"imakey", Value::tuple({tensor({2.0f}), tensor({3.0f})})}});
  expect_same(traced.forward(Values{ones({1}), ones({1})}), expected);
  EXPECT_THAT(
      [&] {
        jit::trace(ReturnsBadDict(), {ones({1}), ones({1})}, {.strict = false});
      },
      ThrowsMessage<Error>(HasSubstr("cannot be understood by the tracer, only outputs matching")));
}

struct Arange : nn::Module {
  Tensor forward() { return arange(5); }
};
TEST(Tracer, trace_optioanl_dtype) {
  Arange m;
  jit::ScriptModule traced = jit::trace(m, {});
  expect_same(traced.forward(Values{}).tensor(), m.forward());
  EXPECT_EQ(traced.forward(Values{}).tensor().dtype(), kLong);
}

TEST(Tracer, trace_annotation) {
  auto foo = jit::trace_function([](Tensor a) { return a + a + a; }, {rand({1})}, {.name = "foo"});
  Tensor x = randn({5, 5});
  expect_same(foo->call(Values{x}).tensor(), x + x + x);
}

TEST(Tracer, trace_variable_instantiation) {
  auto random_foo = [](Tensor x) { return Tensor(Tensor(x) + 1.0); };
  jit::ScriptModule traced = jit::trace(random_foo, {rand({3, 4})});
  Tensor x = rand({5, 6});
  expect_same(traced.forward(Values{x}).tensor(), random_foo(x));
}

TEST(Tracer, wrapped_number) {
  auto foobar = [] { return -10000.0 * ones({1}, kFloat); };
  jit::ScriptModule traced = jit::trace(foobar, {}, {.check_trace = true});
  expect_same(traced.forward(Values{}).tensor(), foobar());
  EXPECT_EQ(traced.forward(Values{}).tensor().dtype(), kFloat);  // the number does not decide the type
}

TEST(Tracer, typeas_trace_check) {
  Tensor a = tensor({0.4f}).requires_grad_(), b = tensor({0.7f}).requires_grad_();
  jit::ScriptModule traced = jit::trace([](Tensor x, Tensor y) { return type_as(x, y); }, {a, b});
  EXPECT_TRUE(FileCheck().check("aten::type_as").run(text(traced)));
  expect_same(traced.forward(Values{a, b.to(kDouble)}).tensor(), a.to(kDouble));
}

TEST(Tracer, tensor_with_grad_as_constant) {
  Tensor param = randn({3}).requires_grad_(), x = randn({3});
  auto f = [&](Tensor x) { return x + param; };
  EXPECT_THAT([&] { jit::trace(f, {x}); },
              ThrowsMessage<Error>(HasSubstr("Cannot insert a Tensor that requires grad as a constant")));
}

TEST(Tracer, trace_inverse) {
  auto foo = [](Tensor x) { return bitwise_not(x); };
  jit::ScriptModule traced = jit::trace(foo, {zeros({3, 4}, kByte)});
  Tensor eg = zeros({3}, kByte);
  expect_same(traced.forward(Values{eg}).tensor(), foo(eg));
  EXPECT_EQ(foo(eg).to_vector<double>()[0], 255);
}

TEST(Tracer, trace_random) {
  auto f = [](Tensor mean, Tensor std) { return normal(mean, std); };
  jit::ScriptModule traced = jit::trace(f, {zeros({2, 3}), ones({2, 3})}, {.check_trace = false});
  Tensor mean = zeros({5, 5}), std = ones({5, 5});
  std::vector<uint8_t> before = default_generator().state();
  Tensor output = f(mean, std);
  default_generator().set_state(before);
  expect_same(traced.forward(Values{mean, std}).tensor(), output);
}

TEST(Tracer, trace_tensor_factory) {
  auto run = [](auto fn, const Tensor& input, bool grads) {
    check_trace(fn, {input}, {.inputs_require_grads = grads});
    EXPECT_TRUE(FileCheck().check("ones").run(text(jit::trace(fn, {input}))));
  };
  run([](Tensor x) { return x + ones({2, 3}); }, ones({2, 3}), true);
  run([](Tensor x) { return x + ones({2, 3}, kInt); }, ones({2, 3}, kInt), false);
  Tensor out = tensor(std::initializer_list<float>{});
  run([=](Tensor x) { return x + ones_out(out, {2, 3}); }, ones({2, 3}), true);
}

TEST(Tracer, trace_contiguous) {
  auto foo = [](Tensor x) { return x.slice(2, {}, {}, 2).contiguous().view({12}); };
  Tensor x = rand({2, 3, 4});
  jit::ScriptModule traced = jit::trace(foo, {x});
  Tensor y = traced.forward(Values{x}).tensor();
  EXPECT_NE(x.storage()->data, y.storage()->data);
  expect_same(y, foo(x));
}

TEST(Tracer, trace_contiguous_short_circuit) {
  auto foo = [](Tensor x) { return x.contiguous(); };
  EXPECT_TRUE(FileCheck().check("aten::contiguous").run(text(jit::trace(foo, {rand({2, 3, 4})}))));
}

}  // namespace
}  // namespace tern
