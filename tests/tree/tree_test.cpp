// Trees: flatten and back, PyTorch's printing and JSON (texts made with torch.utils._pytree of 2.13), C++
// conversions.
#include "tern/tree/tree.h"

#include <gtest/gtest.h>

#include <map>

#include "tern/base/error.h"
#include "tern/tree/convert.h"
#include "tests/support/errors.h"

namespace tern::tree {
namespace {

struct Point {
  int64_t x = 0;
  std::optional<double> y;
  std::vector<int64_t> tags;
  static constexpr auto fields = tree::fields("x", &Point::x, "y", &Point::y, "tags", &Point::tags);
  static constexpr const char* type_name = "mod.Point";
};

using tern::testing::error_of;

Value nested() {
  return to_value(std::tuple(1, Value::list({2, Value::dict({{"a", 3}, {"b", Value::tuple({4})}})})));
}

TEST(Tree, FlattensInOrderAndComesBack) {
  Flat flat = flatten(nested());
  ASSERT_EQ(flat.leaves.size(), 4u);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(flat.leaves[i].to_int(), i + 1);
  EXPECT_TRUE(unflatten(flat.spec, flat.leaves).equals(nested()));
}

TEST(Tree, PrintsAsPyTorch) {
  EXPECT_EQ(flatten(nested()).spec.str(),
            "TreeSpec(tuple, None, [*,\n"
            "  TreeSpec(list, None, [*,\n"
            "    TreeSpec(dict, ['a', 'b'], [*,\n"
            "      TreeSpec(tuple, None, [*])])])])");
  EXPECT_EQ(flatten(7).spec.str(), "*");
  EXPECT_EQ(flatten(Value::dict()).spec.str(), "TreeSpec(dict, [], [])");
  EXPECT_EQ(flatten(default_dict("builtins.list", {{"x", 1}})).spec.str(),
            "TreeSpec(defaultdict, [<class 'list'>, ['x']], [*])");
  EXPECT_EQ(flatten(named_tuple("__main__.P", {"x", "y"}, {1, 2})).spec.str(),
            "TreeSpec(namedtuple, <class '__main__.P'>, [*,\n  *])");
}

const char* leaf = R"({"type": null, "context": null, "children_spec": []})";

TEST(Tree, WritesPyTorchsJson) {
  std::string l = leaf;
  EXPECT_EQ(to_json({}), "[1, " + l + "]");
  EXPECT_EQ(to_json(flatten(nested()).spec),
            R"([1, {"type": "builtins.tuple", "context": "null", "children_spec": [)" + l +
                R"(, {"type": "builtins.list", "context": "null", "children_spec": [)" + l +
                R"(, {"type": "builtins.dict", "context": "[\"a\", \"b\"]", "children_spec": [)" + l +
                R"(, {"type": "builtins.tuple", "context": "null", "children_spec": [)" + l + "]}]}]}]}]");
  EXPECT_EQ(to_json(flatten(default_dict("builtins.list", {{"x", 1}})).spec),
            R"([1, {"type": "collections.defaultdict", "context": {"default_factory_module": "builtins", )"
            R"("default_factory_name": "list", "dict_context": ["x"]}, "children_spec": [)" +
                l + "]}]");
  EXPECT_EQ(to_json(flatten(named_tuple("mod.P", {"x"}, {1})).spec),
            R"([1, {"type": "collections.namedtuple", "context": "mod.P", "children_spec": [)" + l + "]}]");
  EXPECT_EQ(to_json(flatten(deque({1}, 5)).spec),
            R"([1, {"type": "collections.deque", "context": "5", "children_spec": [)" + l + "]}]");
  EXPECT_EQ(to_json(flatten(structure("mod.D", {"a", "b"}, {1, {}})).spec),
            R"([1, {"type": "mod.D", "context": "[[\"a\"], [\"b\"]]", "children_spec": [)" + l + "]}]");
  EXPECT_EQ(to_json(flatten(Value::dict({{"a\"\u00e9\n", 1}, {3.5, 2}})).spec),
            R"([1, {"type": "builtins.dict", "context": "[\"a\\\"\\u00e9\\n\", 3.5]", "children_spec": [)" +
                l + ", " + l + "]}]");
}

TEST(Tree, JsonRoundTrip) {
  register_named_tuple("mod.P", {"x", "y"});
  Value all = Value::tuple({nested(), ordered_dict({{"k", 1}}), default_dict("", {{1, 2}}), deque({1, 2}),
                            named_tuple("mod.P", {"x", "y"}, {1, 2}), to_value(Point{1, {}, {4, 5}})});
  Spec spec = flatten(all).spec;
  Spec back = from_json(to_json(spec));
  EXPECT_EQ(back, spec);
  EXPECT_EQ(to_json(back), to_json(spec));
  EXPECT_EQ(str(key_paths(back)[8]), "[4].x");
}

TEST(Tree, TypesNobodyRegisteredAreKept) {
  std::string text = R"([1, {"type": "foo.Bar", "context": "anything: at all", "children_spec": [)" +
                     std::string(leaf) + "]}]";
  Spec spec = from_json(text);
  EXPECT_EQ(spec.type(), "foo.Bar");
  EXPECT_EQ(to_json(spec), text);
}

TEST(Tree, BadJsonIsRefused) {
  auto message = [](const char* text) { return error_of([&] { from_json(text); }); };
  EXPECT_NE(message("[2, {}]").find("Unknown protocol 2. Available protocols: [1]"), std::string::npos);
  EXPECT_NE(message("[1]").find("expected [protocol, spec]"), std::string::npos);
  EXPECT_NE(message("{}").find("expected [protocol, spec]"), std::string::npos);
  EXPECT_NE(message("[1, {}]").find("type"), std::string::npos);
  EXPECT_NE(message(R"([1, {"type": "builtins.dict", "context": "[1]", "children_spec": []}])")
                .find("1 keys for 0"),
            std::string::npos);
  EXPECT_NE(
      message(R"([1, {"type": "builtins.dict", "context": "[1", "children_spec": []}])").find("context"),
      std::string::npos);
}

TEST(Tree, KeyPathsPrintAsPyTorchs) {
  Value v = Value::tuple({Value::tuple({1, Value::list({2, named_tuple("P", {"x", "y"}, {1, 2})})}),
                          Value::dict({{"a", structure("D", {"a", "b"}, {5, Value::list({6})})}})});
  std::vector<std::string> texts;
  for (const KeyPath& path : key_paths(flatten(v).spec)) texts.push_back("*args" + str(path));
  EXPECT_EQ(texts, (std::vector<std::string>{"*args[0][0]", "*args[0][1][0]", "*args[0][1][1].x",
                                             "*args[0][1][1].y", "*args[1]['a'].a", "*args[1]['a'].b[0]"}));
}

TEST(Tree, UnflattenChecksTheCount) {
  EXPECT_EQ(
      error_of([] {
        unflatten(flatten(Value::tuple({1})).spec, {1, 2});
      }),
      "treespec.unflatten(leaves): `leaves` has length 2 but the spec refers to a pytree that holds 1 items "
      "(TreeSpec(tuple, None, [*])).");
}

TEST(Tree, FlattenLikeNamesTheDifference) {
  Spec spec = flatten(nested()).spec;
  EXPECT_EQ(flatten_like(spec, nested()).size(), 4u);
  EXPECT_EQ(error_of([&] {
              flatten_like(spec, Value::tuple({1, Value::list({2, 3})}));
            }),
            "tree: expected dict at [1][1], found a leaf");
  EXPECT_EQ(error_of([&] { flatten_like(spec, Value::tuple({1})); }),
            "tree: expected tuple of length 2 at the root, found length 1");
  Spec dict = flatten(Value::dict({{"a", 1}, {"b", 2}})).spec;
  EXPECT_EQ(flatten_like(dict, Value::dict({{"b", 2}, {"a", 1}}))[0].to_int(), 1);
}

TEST(Tree, AValueThatContainsItselfIsAnError) {
  Value list = Value::list({});
  list.items().push_back(list);
  EXPECT_NE(error_of([&] { flatten(list); }).find("contains itself"), std::string::npos);
  list.items().clear();
}

TEST(Tree, ConvertsCppTypes) {
  Point p{3, 2.5, {1, 2}};
  Value v = to_value(p);
  EXPECT_EQ(to_json(flatten(v).spec).substr(0, 32), R"([1, {"type": "mod.Point", "conte)");
  Point q = from_value<Point>(v);
  EXPECT_EQ(q.x, 3);
  EXPECT_EQ(q.y, 2.5);
  EXPECT_EQ(q.tags, p.tags);
  EXPECT_FALSE(from_value<Point>(to_value(Point{1, {}, {}})).y.has_value());

  std::map<std::string, std::vector<double>> m{{"a", {1.5}}, {"b", {}}};
  EXPECT_EQ((from_value<std::map<std::string, std::vector<double>>>(to_value(m))), m);
  std::vector<std::pair<std::string, bool>> ordered{{"z", true}, {"a", false}};
  EXPECT_EQ(to_value(ordered).str(), "{'z': True, 'a': False}");
  EXPECT_EQ((from_value<std::vector<std::pair<std::string, bool>>>(to_value(ordered))), ordered);
  auto t = std::tuple(1, std::string("s"), std::array{1.f, 2.f}, std::optional<int>());
  EXPECT_EQ(to_value(t).str(), "(1, 's', [1.0, 2.0], None)");
  EXPECT_EQ((from_value<decltype(t)>(to_value(t))), t);
  EXPECT_EQ((from_value<std::pair<int, int>>(named_tuple("P", {"x", "y"}, {1, 2}))), std::pair(1, 2));
}

TEST(Tree, ConversionErrorsSayWhatWasFound) {
  EXPECT_EQ(error_of([] { from_value<std::pair<int, int>>(Value::tuple({1})); }),
            "tree::from_value: expected 2 items for the tuple, found 1");
  EXPECT_EQ(error_of([] { from_value<std::vector<int>>(Value(1)); }),
            "tree::from_value: expected a list or tuple, found int");
  EXPECT_EQ(error_of([] {
              from_value<Point>(Value::dict({{"x", 1}}));
            }),
            "tree: the dict has no key 'y'; it has ['x']");
}

}  // namespace
}  // namespace tern::tree
