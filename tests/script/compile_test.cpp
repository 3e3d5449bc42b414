// The language: what is accepted, what it computes, what its errors say.
#include "tern/script/compile.h"

#include <gtest/gtest.h>

#include "tern/base/error.h"
#include "tern/ir/text.h"
#include "tern/ir/verify.h"
#include "tern/script/ast.h"

namespace tern::script {
namespace {

using V = tern::Value;

V run(std::string_view source, std::vector<V> args) {
  std::shared_ptr<Function> f = compile_function(source);
  ir::verify(f->graph());
  V first = f->call(args);
  // What is printed means the same.
  ConstantTable constants;
  std::string printed = print_source(*f, constants);
  std::shared_ptr<Unit> unit = Unit::make();
  unit->known_operators_only = true;
  unit->constants = constants.items;
  std::shared_ptr<Unit> again = compile(printed, {.name = "<printed>"});
  V second = again->find_function(f->qualified())->call(args);
  EXPECT_EQ(first.str(), second.str()) << printed;
  return first;
}

std::string error_of(std::string_view source) {
  try {
    compile(source);
  } catch (const Error& e) {
    return e.message();
  }
  return "no error";
}

TEST(Parser, leaves_bodies_until_they_are_asked_for) {
  auto source = std::make_shared<Source>(Source{R"(
def strings(x: Tensor) -> Tensor:
  """A text
def not_a_function():
  """
  y = 'it''s (' + "#"
# a comment at the edge
  return x
def brackets(x, y: List[
int]):
  return (x,
y[
0], # ) not closed here
)
def one_line(x: int): return x
)"});
  File file = parse_file(source, Bodies::leave);
  ASSERT_EQ(file.defs.size(), 3u);
  EXPECT_TRUE(file.defs[0].body.empty());
  EXPECT_TRUE(file.defs[1].params.empty());
  for (const Def& d : file.defs) read_def(source, d);
  EXPECT_EQ(file.defs[1].params.size(), 2u);
  EXPECT_EQ(file.defs[0].body.size(), 3u);
  EXPECT_EQ(file.defs[1].body.size(), 1u);
  EXPECT_EQ(file.defs[2].body.size(), 1u);
}

TEST(Script, loops_carry_values) {
  EXPECT_EQ(run(R"(
def f(n: int) -> int:
  total = 0
  for i in range(n):
    total += i * i
  return total
)",
                {5})
                .to_int(),
            30);
}

TEST(Script, range_with_start_and_step) {
  EXPECT_EQ(run(R"(
def f(a: int, b: int, s: int) -> List[int]:
  out: List[int] = []
  for i in range(a, b, s):
    out.append(i)
  return out
)",
                {10, 0, -3})
                .str(),
            "[10, 7, 4, 1]");
}

TEST(Script, while_with_break_and_continue) {
  EXPECT_EQ(run(R"(
def f(n: int) -> Tuple[int, int]:
  i = 0
  s = 0
  while True:
    i += 1
    if i > n:
      break
    if i % 2 == 0:
      continue
    s += i
  return i, s
)",
                {6})
                .str(),
            "(7, 9)");
}

TEST(Script, early_returns_anywhere) {
  const char* source = R"(
def f(x: int) -> str:
  if x < 0:
    return "negative"
  for i in range(10):
    for j in range(10):
      if i * j == x:
        if i > j:
          return "{} times {}".format(i, j)
        if i == j:
          return "square"
  if x == 97:
    x = 98
  else:
    if x == 89:
      return "prime"
  return "none"
)";
  EXPECT_EQ(run(source, {-1}).string(), "negative");
  EXPECT_EQ(run(source, {16}).string(), "square");
  EXPECT_EQ(run(source, {6}).string(), "3 times 2");
  EXPECT_EQ(run(source, {89}).string(), "prime");
  EXPECT_EQ(run(source, {97}).string(), "none");
}

TEST(Script, return_type_is_found_without_annotation) {
  const char* source = R"(
def f(n: int):
  for i in range(n):
    if i == 3:
      return i
  return None
)";
  EXPECT_EQ(run(source, {10}).to_int(), 3);
  EXPECT_TRUE(run(source, {2}).is_none());
  EXPECT_EQ(compile_function(source)->returns()->str(ir::TypeStyle::annotation), "Optional[int]");
}

TEST(Script, none_checks_refine) {
  const char* source = R"(
def f(x: Optional[int], y: int = 4) -> int:
  if x is None:
    x = 10
  z = x + y
  if x is not None and x > 5:
    z = z * 2
  return z
)";
  EXPECT_EQ(run(source, {V(), 1}).to_int(), 22);
  EXPECT_EQ(run(source, {3}).to_int(), 7);
}

TEST(Script, containers) {
  EXPECT_EQ(run(R"(
def f(l: List[int], d: Dict[str, int]) -> Tuple[List[int], Dict[str, int], int, bool, List[str]]:
  d = d.copy()
  q = [a * 2 for a in l[1:]]
  q.append(l[-1])
  q[0] = 100
  q += [7]
  for i, k in enumerate(d):
    d[k] = d[k] + i
  d["new"] = len(q)
  names = list(d.keys())
  t = (1, "a", 2.5)
  one, word, real = t
  del q[1]
  return q[:3], d, one + int(real), word in d, names
)",
                {V::list({1, 2, 3}, ir::Type::integer()), V::dict({{"x", 5}, {"a", 6}})})
                .str(),
            "([100, 3, 7], {'x': 5, 'a': 7, 'new': 4}, 3, True, ['x', 'a', 'new'])");
}

TEST(Script, strings_and_formats) {
  EXPECT_EQ(run(R"(
def f(a: int, b: float) -> str:
  s = f"{a} and {b}|{{}}"
  s = s.replace("and", "or") + "xx"
  if s.startswith("3 or"):
    s = s.upper()
  return "{}: {}".format(s, ord("A"))
)",
                {3, 1.5})
                .string(),
            "3 OR 1.5|{}XX: 65");
}

TEST(Script, ternary_and_short_circuit) {
  EXPECT_EQ(run(R"(
def f(l: List[int]) -> int:
  ok = len(l) > 0 and l[0] > 1
  return l[0] if ok else -1
)",
                {V::list({}, ir::Type::integer())})
                .to_int(),
            -1);
}

TEST(Script, zip_enumerate_and_tuples) {
  EXPECT_EQ(run(R"(
def f(a: List[int], b: List[str]) -> List[str]:
  out: List[str] = []
  for i, (x, y) in enumerate(zip(a, b)):
    out.append("{}{}{}".format(i, x, y))
  for v in (1, 2.5, "z"):
    out.append(str(v))
  first, *rest = (1, 2, 3)
  out.append(str(len(rest)))
  return out
)",
                {V::list({7, 8}, ir::Type::integer()), V::list({"a", "b", "c"}, ir::Type::string())})
                .str(),
            "['07a', '18b', '1', '2.5', 'z', '2']");
}

TEST(Script, tensors_and_overloads) {
  Tensor x = tensor({1.f, 2.f, 3.f, 4.f});
  V y = run(R"(
def f(x: Tensor, n: int) -> Tensor:
  y = x.view(2, 2)
  y = 1 - y * n + torch.relu(-y)
  y = y[0, 1:] + 2.0 / x[2:3]
  y += 1
  return torch.cat([y, y.neg()], dim=0)
)",
            {x, 3});
  std::vector<double> got = y.tensor().to_vector<double>();
  ASSERT_EQ(got.size(), 2u);
  EXPECT_NEAR(got[0], 1 - 6 + 2.0 / 3 + 1, 1e-5);
  EXPECT_NEAR(got[1], -got[0], 1e-6);
}

TEST(Script, tensor_conditions_and_implicit_numbers) {
  Tensor x = tensor({1.f, 2.f});
  EXPECT_NEAR(run(R"(
def f(x: Tensor) -> float:
  s = x.sum()
  while s < 100:
    s = s * 2
  k = int(s)
  return float(s) + k
)",
                  {x})
                  .to_double(),
              384, 1e-6);
}

TEST(Script, classes_and_named_tuples) {
  std::shared_ptr<Unit> unit = compile(R"(
class Counter:
  def __init__(self, start: int):
    self.count = start
    self.names: List[str] = []

  def add(self, n: int = 1) -> int:
    self.count += n
    self.names.append(str(n))
    return self.count

class Pair(NamedTuple):
  first: int
  second: str = "none"

def f(n: int) -> Tuple[int, int, str]:
  c = Counter(n)
  c.add()
  c.add(n=5)
  p = Pair(c.count)
  return p.first, len(c.names), p.second
)");
  EXPECT_EQ(unit->find_function("f")->call(std::vector<V>{10}).str(), "(16, 2, 'none')");
}

TEST(Script, functions_call_each_other) {
  std::shared_ptr<Unit> unit = compile(R"(
def twice(n: int):
  return helper(n) * 2

def helper(n: int):
  return n + 1
)");
  EXPECT_EQ(unit->find_function("twice")->call(std::vector<V>{4}).to_int(), 10);
}

TEST(Script, recursion_is_refused) {
  EXPECT_NE(error_of("def f(n: int) -> int:\n  return f(n + 1)\n")
                .find("function 'f' is called recursively. Recursive calls are not supported"),
            std::string::npos);
  EXPECT_NE(error_of("def f(n: int) -> int:\n  return g(n)\ndef g(n: int) -> int:\n  return f(n)\n")
                .find("is called recursively"),
            std::string::npos);
}

TEST(Script, integer_division_by_zero_is_an_error) {
  std::shared_ptr<Function> f = compile_function("def f(a: int, b: int) -> int:\n  return a % b\n");
  EXPECT_THROW(f->call(std::vector<V>{1, 0}), Error);
}

TEST(Script, asserts_and_raises) {
  std::shared_ptr<Function> f = compile_function(R"(
def f(n: int) -> int:
  assert n > 0, f"n is {n}"
  if n == 7:
    raise ValueError("seven")
  else:
    r = n
  return r
)");
  EXPECT_EQ(f->call(std::vector<V>{3}).to_int(), 3);
  for (auto [n, text] : {std::pair{0, "AssertionError: n is 0"}, std::pair{7, "seven"}}) {
    try {
      f->call(std::vector<V>{n});
      FAIL() << n;
    } catch (const Error& e) {
      EXPECT_NE(e.message().find(text), std::string::npos) << e.message();
    }
  }
}

TEST(Script, errors_point_at_the_place) {
  std::string e = error_of("def f(x: int) -> int:\n  y = x + z\n  return y\n");
  EXPECT_NE(e.find("undefined value z"), std::string::npos) << e;
  EXPECT_NE(e.find("<script>:2:11"), std::string::npos) << e;
  EXPECT_NE(e.find("    y = x + z\n            ^"), std::string::npos) << e;
}

TEST(Script, errors_say_what_is_wrong) {
  struct Case {
    const char *source, *text;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"def f(x: int) -> str:\n  return x\n",
            "Return value was annotated as having type str but is actually of type int"},
           {"def f(c: bool):\n  if c:\n    y = 1\n  return y\n", "y is not defined in the false branch"},
           {"def f(c: bool):\n  if c:\n    y = 1\n  else:\n    y = 'a'\n  return y\n",
            "set to type int in the true branch and type str"},
           {"def f(c: bool):\n  y = 1\n  if c:\n    y = 'a'\n  return y\n",
            "Variable 'y' previously had type int"},
           {"def f(x: Optional[int]) -> int:\n  return x + 1\n", "Arguments for call are not valid."},
           {"def f(n: int):\n  x = 1\n  for i in range(n):\n    x = 'a'\n  return x\n",
            "Variable 'x' previously had type int"},
           {"def f(x: int) -> int:\n  if x > 1:\n    return x\n", "does not return along all paths"},
           {"def f(x: Foo):\n  return x\n", "name 'Foo' is not defined"},
           {"def f(x: Tensor):\n  return torch.no_such_operator(x)\n",
            "there is no operator aten::no_such_operator"},
           {"def f():\n  break\n", "'break' outside loop"},
           {"def f(*args):\n  pass\n", "variable number of arguments"},
           {"def f(x: int):\n    y = 1\n  return y\n", "unindent does not match"},
           {"def f(x: int] -> int:\n  return x\n", "expected ','"},
           {"def f():\n  return (1, 2)[5]\n", "Tuple is length 2 and index is 5"},
           {"def f():\n  x = 'abc\n  return x\n", "a string that is never closed"},
           {"def f():\n  return (1, 2\n", "a bracket that is never closed"},
           {"def f(x: int):\n  return x.foo()\n", "'int' object has no attribute or method 'foo'"},
           {"def f(x: int):\n  try:\n    pass\n", "try blocks aren't supported"},
       }) {
    std::string e = error_of(c.source);
    EXPECT_NE(e.find(c.text), std::string::npos) << c.source << e;
  }
}

TEST(Script, deep_nesting_is_refused) {
  std::string source = "def f():\n  return " + std::string(5000, '(') + "1" + std::string(5000, ')') + "\n";
  EXPECT_NE(error_of(source).find("nested too deeply"), std::string::npos);
  source = "def f(x: int):\n  return " + std::string(5000, '-') + "x\n";
  EXPECT_NE(error_of(source).find("nested too deeply"), std::string::npos);
}

TEST(Script, damaged_source_never_crashes) {
  const std::string source = R"(
def f(x: Tensor, l: List[int], n: int = 3) -> Tuple[Tensor, int]:
  s = 0
  for i, v in enumerate(l):
    if v > n and i != 2:
      s += v
    elif v == 1:
      break
  while s < 10:
    s = s * 2 if s > 0 else 1
  d = {"a": [1, 2], "b": [3]}
  return x[..., None] * s + f"{s}".count("1"), d["a"][0]
)";
  size_t errors = 0;
  for (size_t i = 0; i < source.size(); ++i) {
    for (char c : {'\0', '(', ' ', ':', '"', '\n', 'x'}) {
      std::string damaged = source;
      damaged[i] = c;
      errors += error_of(damaged) != "no error";
    }
    errors += error_of(source.substr(0, i)) != "no error";
  }
  EXPECT_GT(errors, source.size());
}

TEST(Script, keeps_operators_it_does_not_know_when_asked) {
  std::shared_ptr<Unit> unit =
      compile("def f(x: Tensor) -> Tensor:\n  y = ops.my.op(x, 3, alpha=2)\n  return torch.unheard_of(y)\n",
              {.known_operators_only = false});
  ConstantTable constants;
  std::string text = print_source(*unit->find_function("f"), constants);
  EXPECT_NE(text.find("ops.my.op(x, 3, alpha=2)"), std::string::npos) << text;
  EXPECT_NE(text.find("torch.unheard_of(y)"), std::string::npos) << text;
}

TEST(Script, wrong_arguments_are_named) {
  std::shared_ptr<Function> f = compile_function("def f(x: Tensor, n: int = 2) -> Tensor:\n  return x * n\n");
  auto message = [&](std::vector<V> args, std::vector<std::pair<Symbol, V>> keywords) {
    try {
      f->call(args, keywords);
    } catch (const Error& e) {
      return e.message();
    }
    return std::string();
  };
  EXPECT_NE(message({}, {}).find("missing value for argument 'x'"), std::string::npos);
  EXPECT_NE(message({tensor({1.f}), "a"}, {})
                .find("Expected a value of type 'int' for argument 'n' but instead found type 'str'"),
            std::string::npos);
  EXPECT_NE(message({tensor({1.f})}, {{"k", 1}}).find("has no argument 'k'"), std::string::npos);
  EXPECT_NE(message({tensor({1.f}), 1, 2}, {}).find("takes 2 arguments but 3 were given"), std::string::npos);
}

// As PyTorch does where nothing is scripted; its TorchScript drops the call, whose schema does not say that
// it writes.
TEST(Script, embeddings_shorten_the_rows_they_read_to_max_norm) {
  std::shared_ptr<Function> f = compile_function(R"(
def f(w: Tensor):
    a = F.embedding(torch.tensor([1, 1]), w, None, 2.5)
    b = F.embedding_bag(torch.tensor([[0, 2]]), w, max_norm=0.5, norm_type=1.0, mode='sum')
    return a, b
)");
  Tensor w = tensor({0.0f, 1.0f, 3.0f, 4.0f, 4.0f, 6.0f, 6.0f, 8.0f}).view({4, 2});
  V result = f->call({V(w)});
  std::vector<float> rows = w.to_vector<float>(), expected = {0, 0.5f, 1.5f, 2, 0.2f, 0.3f, 6, 8};
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_NEAR(rows[i], expected[i], 1e-6f) << i;
}

}  // namespace
}  // namespace tern::script
