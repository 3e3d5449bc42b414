#include "tern/io/json.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cmath>

#include "tern/base/format.h"
#include "tests/io/malformed.h"
#include "tests/support/patience.h"

namespace tern::io {
namespace {

using tern::testing::fewer;
using tern::testing::patience;
using ::testing::HasSubstr;

std::shared_ptr<const JsonDoc> parse(std::string_view text) { return parse_json(text, "model.json"); }
std::string error_in(std::string_view text) {
  return error_of([&] { parse(text); });
}

TEST(IoJson, Reads) {
  auto doc = parse(R"( {"a": [1, -2.5e3, true, null, "x"], "b": {"c": {}, "d": []}} )");
  Json j = doc->root();
  EXPECT_EQ(j["a"][0].as_int(), 1);
  EXPECT_EQ(j["a"][0].as_double(), 1.0);
  EXPECT_EQ(j["a"][1].as_double(), -2500.0);
  EXPECT_TRUE(j["a"][2].as_bool());
  EXPECT_TRUE(j["a"][3].is_null());
  EXPECT_EQ(j["a"][4].as_string(), "x");
  EXPECT_EQ(j["b"]["c"].size(), 0u);
  EXPECT_TRUE(j["b"]["d"].is_array());
  EXPECT_EQ(j.key(1), "b");
  EXPECT_FALSE(j.contains("c"));
  int n = 0;
  for (Json item : j["a"]) n += item.is_number();
  EXPECT_EQ(n, 2);
}

TEST(IoJson, ErrorsNameThePath) {
  auto doc = parse(R"({"graph": {"nodes": [{}, {"target": [1]}]}})");
  Json node = doc->root()["graph"]["nodes"][1];
  EXPECT_EQ(node["target"].path(), "$.graph.nodes[1].target");
  EXPECT_EQ(error_of([&] { node["target"].as_string(); }),
            "model.json: $.graph.nodes[1].target: expected a string, found an array");
  EXPECT_EQ(error_of([&] { node["name"]; }),
            "model.json: $.graph.nodes[1]: there is no member \"name\" (there is \"target\")");
  EXPECT_EQ(error_of([&] { node["target"][1]; }),
            "model.json: $.graph.nodes[1].target: there is no element 1: the array has 1");
  EXPECT_EQ(error_of([&] { node["target"][0]["x"]; }),
            "model.json: $.graph.nodes[1].target[0]: expected an object, found an integer");
}

TEST(IoJson, ErrorsNameLineAndColumn) {
  EXPECT_EQ(error_in("{\"a\": 1,\n  \"b\" 2}"), "model.json: ':' is expected (line 2, column 7)");
  EXPECT_EQ(error_in(""), "model.json: the text ends where a value is expected (line 1, column 1)");
  EXPECT_EQ(error_in("[1, 2"), "model.json: the array does not end (line 1, column 1)");
  EXPECT_EQ(error_in("[1 2]"), "model.json: ',' or ']' is expected (line 1, column 4)");
  EXPECT_EQ(error_in("{\"a\":1,}"), "model.json: a key in quotes is expected (line 1, column 8)");
  EXPECT_EQ(error_in("\"abc"), "model.json: the string does not end (line 1, column 1)");
  EXPECT_EQ(error_in("\"a\nb\""), "model.json: a control character stands in a string (line 1, column 3)");
  EXPECT_EQ(error_in("01"), "model.json: a number starts with a zero (line 1, column 1)");
  EXPECT_EQ(error_in("1."), "model.json: the number is not complete (line 1, column 1)");
  EXPECT_EQ(error_in("[tru]"), "model.json: not a JSON value (line 1, column 2)");
  EXPECT_EQ(error_in("1 2"), "model.json: text follows the value (line 1, column 3)");
  EXPECT_EQ(error_in("\"\\q\""), "model.json: '\\q' is not an escape (line 1, column 3)");
  EXPECT_EQ(error_in("\"\xff\""), "model.json: the text is not UTF-8 (line 1, column 2)");
  EXPECT_EQ(error_in("{\"a\": 1, \"a\": 2}"),
            "model.json: the object has two members called \"a\" (line 1, column 1)");
  EXPECT_THAT(error_in(std::string(100000, '[')), HasSubstr("nested deeper than 1000"));
}

TEST(IoJson, NumbersOfPythonAndTorch) {
  EXPECT_TRUE(std::isnan(parse("NaN")->root().as_double()));
  EXPECT_EQ(parse("-Infinity")->root().as_double(), -INFINITY);
  EXPECT_EQ(parse("\"Infinity\"")->root().as_double(), INFINITY);
  EXPECT_EQ(parse("\"-Infinity\"")->root().as_double(), -INFINITY);
  EXPECT_TRUE(std::isnan(parse("\"NaN\"")->root().as_double()));
  EXPECT_EQ(parse("9223372036854775807")->root().as_int(), INT64_MAX);
  EXPECT_EQ(parse("-9223372036854775808")->root().as_int(), INT64_MIN);
  auto large = parse("123456789012345678901234567890");
  EXPECT_EQ(large->root().as_double(), 123456789012345678901234567890.0);
  EXPECT_THAT(error_of([&] { large->root().as_int(); }), HasSubstr("does not fit 64 bits"));
  EXPECT_THAT(error_of([] { parse("1.0")->root().as_int(); }),
              HasSubstr("expected an integer, found a number"));
  EXPECT_EQ(parse("1e400")->root().as_double(), INFINITY);
  EXPECT_EQ(parse("1e-400")->root().as_double(), 0.0);
}

TEST(IoJson, Escapes) {
  EXPECT_EQ(parse(R"("a\"\\\/\b\f\n\r\t\u0041\u00e9\ud83d\ude00z")")->root().as_string(),
            "a\"\\/\b\f\n\r\tA\xc3\xa9\xf0\x9f\x98\x80z");
  EXPECT_EQ(parse("\"\xc3\xa9\"")->root().as_string(), "\xc3\xa9");
}

TEST(IoJson, LargeObjectsAreHashed) {
  JsonWriter w;
  w.begin_object();
  for (int i = 0; i < 100000; ++i) w.member(fmt::format("key{}", i), i);
  w.end_object();
  auto doc = parse(w.str());
  auto start = std::chrono::steady_clock::now();
  int64_t sum = 0;
  for (int i = 0; i < 100000; ++i) sum += (*doc)[fmt::format("key{}", i)].as_int();
  EXPECT_EQ(sum, int64_t{99999} * 50000);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(500) * patience);
  EXPECT_FALSE(doc->root().contains("key100000"));
  EXPECT_EQ(doc->root().key(99999), "key99999");
}

TEST(IoJson, FloatsAreWrittenAsPythonDoes) {
  EXPECT_EQ(python_repr(1.0), "1.0");
  EXPECT_EQ(python_repr(-0.0), "-0.0");
  EXPECT_EQ(python_repr(0.1), "0.1");
  EXPECT_EQ(python_repr(1e-5), "1e-05");
  EXPECT_EQ(python_repr(0.0001), "0.0001");
  EXPECT_EQ(python_repr(123456789.125), "123456789.125");
  EXPECT_EQ(python_repr(9007199254740993.0), "9007199254740992.0");
  EXPECT_EQ(python_repr(1e16), "1e+16");
  EXPECT_EQ(python_repr(1.5e300), "1.5e+300");
  EXPECT_EQ(python_repr(5e-324), "5e-324");
  EXPECT_EQ(python_repr(INFINITY), "inf");
  EXPECT_EQ(python_repr(-INFINITY), "-inf");
  EXPECT_EQ(python_repr(NAN), "nan");
}

void fill(JsonWriter& w) {
  w.begin_object();
  w.member("a", 1);
  w.key("b");
  w.begin_array();
  w.value(0.5);
  w.value(false);
  w.null();
  w.end_array();
  w.key("c");
  w.begin_object();
  w.end_object();
  w.member("d", "x");
  w.end_object();
}

TEST(IoJson, Styles) {
  JsonWriter python, compact({.spaces = false}), pretty({.indent = 2});
  fill(python);
  fill(compact);
  fill(pretty);
  EXPECT_EQ(python.take(), R"({"a": 1, "b": [0.5, false, null], "c": {}, "d": "x"})");
  EXPECT_EQ(compact.take(), R"({"a":1,"b":[0.5,false,null],"c":{},"d":"x"})");
  EXPECT_EQ(pretty.take(), R"({
  "a": 1,
  "b": [
    0.5,
    false,
    null
  ],
  "c": {},
  "d": "x"
})");
}

TEST(IoJson, StringsAreWrittenAsPythonDoes) {
  JsonWriter ascii, utf8({.ascii = false});
  std::string text("\"\\/\b\f\n\r\t\x01\x7f\xc3\xa9\xf0\x9f\x98\x80");
  ascii.value(text);
  utf8.value(text);
  EXPECT_EQ(ascii.take(), "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\x7f\\u00e9\\ud83d\\ude00\"");
  EXPECT_EQ(utf8.take(), "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\x7f\xc3\xa9\xf0\x9f\x98\x80\"");
  EXPECT_EQ(error_of([&] { ascii.value("\xff"); }), "json: a string to be written is not UTF-8");
}

TEST(IoJson, NonFiniteNumbers) {
  JsonWriter strings, tokens({.nonfinite_as_strings = false});
  for (JsonWriter* w : {&strings, &tokens}) {
    w->begin_array();
    for (double v : {NAN, INFINITY, -INFINITY}) w->value(v);
    w->end_array();
  }
  EXPECT_EQ(strings.take(), R"(["NaN", "Infinity", "-Infinity"])");
  EXPECT_EQ(tokens.take(), "[NaN, Infinity, -Infinity]");
}

TEST(IoJson, CopiesParsedValues) {
  std::string text = R"({"a": [1, 2.5, "\ud800", 123456789012345678901234567890, null], "b": {"c": true}})";
  JsonWriter w;
  w.value(parse(text)->root());
  EXPECT_EQ(w.take(), text);
}

TEST(IoJson, TenMegabytesAreFast) {
  JsonWriter w;
  w.begin_array();
  while (w.str().size() < 10'000'000u / fewer) fill(w);
  w.end_array();
  Blob text = own(w.take());
  auto best = std::chrono::nanoseconds::max();
  for (int i = 0; i < 5; ++i) {
    auto start = std::chrono::steady_clock::now();
    auto doc = parse_json(text);
    best = std::min<std::chrono::nanoseconds>(best, std::chrono::steady_clock::now() - start);
    EXPECT_GT(doc->node_count(), 1'000'000u / fewer);
  }
  RecordProperty("milliseconds", static_cast<int>(best.count() / 1'000'000));
  EXPECT_LT(best,
            std::chrono::milliseconds(500) * patience);  // the budget is 50; the rest is for busy machines
}

TEST(IoJson, MalformedTextsNeverCrash) {
  std::string text =
      R"({"a": [1, -2.5e3, true, null, "x\u00e9\n"], "b": {"c": {}, "d": [NaN, -Infinity]}, "é": 0})";
  Outcome outcome = try_damaged(bytes_of(text), [](Blob bytes) {
    JsonWriter w;
    w.value(parse_json(bytes)->root());
  });
  EXPECT_GT(outcome.refused, static_cast<int>(text.size()));
  EXPECT_GT(outcome.accepted, 20);
}

}  // namespace
}  // namespace tern::io
