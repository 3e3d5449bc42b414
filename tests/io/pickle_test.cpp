#include "tern/io/pickle.h"

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
using namespace std::string_view_literals;

std::shared_ptr<const PickleDoc> parse(std::string_view text, PickleLimits limits = {}) {
  return parse_pickle(as_bytes(text), nullptr, "data.pkl", limits);
}

TEST(IoPickle, Scalars) {
  EXPECT_TRUE(parse("\x80\x02N."sv)->root().is_none());
  EXPECT_TRUE(parse("\x80\x02\x88."sv)->root().as_bool());
  EXPECT_EQ(parse("\x80\x02K\xff."sv)->root().as_int(), 255);
  EXPECT_EQ(parse("\x80\x02M\x01\x02."sv)->root().as_int(), 513);
  EXPECT_EQ(parse("\x80\x02J\xfe\xff\xff\xff."sv)->root().as_int(), -2);
  EXPECT_EQ(parse("\x80\x02\x8a\x00."sv)->root().as_int(), 0);
  EXPECT_EQ(parse("\x80\x02\x8a\x06\0\0\0\0\0\x01."sv)->root().as_int(), int64_t{1} << 40);
  EXPECT_EQ(parse("\x80\x02\x8a\x08\0\0\0\0\0\0\0\x80."sv)->root().as_int(), INT64_MIN);
  EXPECT_EQ(parse("\x80\x02\x8a\x09\0\0\0\0\0\0\0\x80\0."sv)->root().digits(), "9223372036854775808");
  EXPECT_EQ(parse("\x80\x02G\x3f\xf8\0\0\0\0\0\0."sv)->root().as_double(), 1.5);
  EXPECT_EQ(parse("\x80\x02X\x02\0\0\0hi."sv)->root().as_string(), "hi");
  EXPECT_EQ(as_text(parse("\x80\x03"
                          "C\x02"
                          "ab."sv)
                        ->root()
                        .as_bytes()),
            "ab");
}

TEST(IoPickle, ProtocolZero) {
  EXPECT_EQ(parse("I42\n."sv)->root().as_int(), 42);
  EXPECT_FALSE(parse("I00\n."sv)->root().as_bool());
  EXPECT_EQ(parse("L-7L\n."sv)->root().as_int(), -7);
  EXPECT_EQ(parse("F-2.5e3\n."sv)->root().as_double(), -2500);
  EXPECT_EQ(parse("S'a\\n\\x41\\''\n."sv)->root().as_string(), "a\nA'");
  EXPECT_EQ(parse("V\\u00e9\xe9\n."sv)->root().as_string(), "\xc3\xa9\xc3\xa9");
  EXPECT_EQ(parse("(lp0\nI1\naI2\na."sv)->root().size(), 2u);
  EXPECT_EQ(parse("(dp0\nS'k'\nI1\ns."sv)->root()["k"].as_int(), 1);
  EXPECT_EQ(parse("Pstorage\n."sv)->root().persistent_id().as_string(), "storage");
}

TEST(IoPickle, TheMagicNumberOfLegacyTorchFiles) {
  // torch.save's legacy format starts with three pickles: this number, the protocol version, system info.
  std::string_view file = "\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.rest"sv;
  size_t used = 0;
  auto magic = parse_pickle(as_bytes(file), &used);
  EXPECT_EQ(magic->root().digits(), "119547037146038801333356");
  EXPECT_EQ(used, 15u);
  auto version = parse_pickle(as_bytes(file.substr(used)), &used);
  EXPECT_EQ(version->root().as_int(), 1001);
  EXPECT_EQ(used, 6u);
}

TEST(IoPickle, TensorsAreCallsThatAreNotMade) {
  // What torch.save writes for {"a": tensor}.
  auto doc = parse(
      "\x80\x02}q\0X\x01\0\0\0aq\x01"
      "ctorch._utils\n_rebuild_tensor_v2\nq\x02((X\7\0\0\0storageq\x03"
      "ctorch\nFloatStorage\nq\x04X\1\0\0\0000q\x05X\3\0\0\0cpuq\x06K\x06tq\x07QK\0K\x02K\x03\x86q\x08K\x03K"
      "\x01\x86"
      "q\t\x89"
      "ccollections\nOrderedDict\nq\n)Rq\x0btq\x0cRq\rs."sv);
  Pickle tensor = doc->root()["a"];
  EXPECT_TRUE(tensor.is_call("torch._utils", "_rebuild_tensor_v2"));
  EXPECT_FALSE(tensor.made_by_new());
  Pickle storage = tensor.args()[0].persistent_id();
  EXPECT_EQ(storage[0].as_string(), "storage");
  EXPECT_TRUE(storage[1].is_global("torch", "FloatStorage"));
  EXPECT_EQ(storage[2].as_string(), "0");
  EXPECT_EQ(storage[4].as_int(), 6);
  EXPECT_EQ(tensor.args()[2].size(), 2u);
  EXPECT_EQ(tensor.args()[2][1].as_int(), 3);
  EXPECT_TRUE(tensor.args()[5].is_call("collections", "OrderedDict"));
  EXPECT_EQ(doc->protocol(), 2);
}

TEST(IoPickle, ObjectsHaveStateItemsAndPairs) {
  auto doc = parse(
      "\x80\x02"
      "cm\nC\n)\x81}X\1\0\0\0xK\x05sb."sv);
  EXPECT_TRUE(doc->root().made_by_new());
  EXPECT_EQ(doc->root().args().size(), 0u);
  EXPECT_EQ((*doc->root().state())["x"].as_int(), 5);
  EXPECT_FALSE(doc->root().kwargs().has_value());
  auto ordered = parse(
      "\x80\x02"
      "ccollections\nOrderedDict\n)R(X\1\0\0\0aK\1X\1\0\0\0bK\2u}b."sv);
  EXPECT_EQ(ordered->root().pair_count(), 2u);
  EXPECT_EQ(ordered->root().key(1).as_string(), "b");
  EXPECT_EQ(ordered->root()["b"].as_int(), 2);
  EXPECT_TRUE(ordered->root().state().has_value());
}

TEST(IoPickle, ProtocolFour) {
  // pickle.dumps({"k": {1}, "c": collections.OrderedDict}, 4)
  auto doc = parse(
      "\x80\x04\x95\x31\0\0\0\0\0\0\0}\x94(\x8c\x01k\x94\x8f\x94(K\x01\x90\x8c\x01"
      "c\x94\x8c\x0b"
      "collections\x94\x8c\x0bOrderedDict\x94\x93\x94u."sv);
  EXPECT_EQ(doc->root()["k"].kind(), PickleKind::set);
  EXPECT_EQ(doc->root()["k"][0].as_int(), 1);
  EXPECT_TRUE(doc->root()["c"].is_global("collections", "OrderedDict"));
}

TEST(IoPickle, SharedValuesKeepTheirIdentityAndCyclesAreSafe) {
  auto shared = parse("\x80\x02]q\0(]q\x01h\x01]e."sv);
  EXPECT_EQ(shared->root()[0].id(), shared->root()[1].id());
  EXPECT_NE(shared->root()[0].id(), shared->root()[2].id());
  EXPECT_FALSE(shared->cyclic());
  auto cycle = parse("\x80\x02]q\0h\0a."sv);
  EXPECT_TRUE(cycle->cyclic());
  EXPECT_EQ(cycle->root()[0].id(), cycle->root().id());
}

TEST(IoPickle, ErrorsNameOpcodeAndOffset) {
  EXPECT_EQ(error_of([] { parse("\x80\x02X\xff\0\0\0hi."sv); }),
            "data.pkl: truncated: 255 bytes wanted, 3 left (opcode BINUNICODE at offset 2)");
  EXPECT_EQ(error_of([] { parse("\x80\x02h\x05."sv); }),
            "data.pkl: memo has nothing at 5 (opcode BINGET at offset 2)");
  EXPECT_EQ(error_of([] { parse("\x80\x02R."sv); }),
            "data.pkl: the stack is empty (opcode REDUCE at offset 2)");
  EXPECT_EQ(error_of([] { parse("\x80\x02NNR."sv); }),
            "data.pkl: a None cannot be called (opcode REDUCE at offset 4)");
  EXPECT_EQ(error_of([] { parse("\x80\x02\x82\x01."sv); }),
            "data.pkl: this opcode is not supported (opcode EXT1 at offset 2)");
  EXPECT_EQ(error_of([] { parse("\x80\x02\x01."sv); }),
            "data.pkl: byte 0x01 is not an opcode (opcode unknown opcode at offset 2)");
  EXPECT_EQ(error_of([] { parse("\x80\x09N."sv); }),
            "data.pkl: protocol 9 is not known (0 to 5 are) (opcode PROTO at offset 0)");
  EXPECT_THAT(error_of([] { parse("\x80\x02N"sv); }), HasSubstr("truncated: 1 bytes wanted, 0 left"));
  EXPECT_THAT(error_of([] { parse("\x80\x02NN."sv); }), HasSubstr("values are left on the stack"));
  EXPECT_THAT(error_of([] { parse("\x80\x02Nr\xff\xff\xff\xff."sv); }), HasSubstr("out of proportion"));
}

TEST(IoPickle, WrongKindsAreNamed) {
  auto doc = parse("\x80\x02X\x02\0\0\0hi."sv);
  EXPECT_EQ(error_of([&] { doc->root().as_int(); }), "data.pkl: expected an int, found the str 'hi'");
  EXPECT_EQ(error_of([&] { doc->root()["a"]; }), "data.pkl: expected a dict, found the str 'hi'");
  EXPECT_EQ(error_of([] { parse("\x80\x02}."sv)->root()["a"]; }), "data.pkl: a dict of 0 has no key 'a'");
  EXPECT_EQ(error_of([] { parse("\x80\x02)."sv)->root()[0]; }), "data.pkl: a tuple of 0 has no element 0");
}

TEST(IoPickle, DepthAndRepetitionAreBounded) {
  std::string deep("\x80\x02N");
  deep.append(5000, '\x85').append(".");
  EXPECT_THAT(error_of([&] { parse(deep); }), HasSubstr("values are nested deeper than 1000"));
  // Forty doublings: a walk without a memo would never end.
  std::string laughs = "\x80\x02N";
  for (int i = 0; i < 40; ++i) laughs += "2\x86";
  EXPECT_THAT(error_of([&] { parse(laughs + "."); }), HasSubstr("shared values repeat more than"));
  EXPECT_THAT(error_of([&] { parse(std::string("\x80\x02(NNNt."), {.max_nodes = 2}); }),
              HasSubstr("more than 2 values"));
}

TEST(IoPickle, WriterBytes) {
  PickleWriter w;
  w.empty_dict();
  w.mark();
  w.string("a");
  w.integer(1);
  w.string("a");
  w.integer(300);
  w.set_items();
  EXPECT_EQ(w.finish(), "\x80\x02}(X\1\0\0\0aq\0K\1h\0M\x2c\1u."sv);
  w.integer(-1);
  EXPECT_EQ(w.finish(), "\x80\x02J\xff\xff\xff\xff."sv);
  w.integer(int64_t{1} << 40);
  EXPECT_EQ(w.finish(), "\x80\x02\x8a\x08\0\0\0\0\0\1\0\0."sv);
  w.real(1.5);
  EXPECT_EQ(w.finish(), "\x80\x02G\x3f\xf8\0\0\0\0\0\0."sv);
}

std::string everything() {
  PickleWriter w;
  w.global("m", "C");
  w.empty_tuple();
  w.new_object();
  uint32_t self = w.put();
  w.mark();
  w.none();
  w.boolean(true);
  w.integer(70000);
  w.integer(INT64_MIN);
  w.real(-0.0);
  w.bytes(as_bytes("\x00\xff"sv));
  w.get(self);
  w.tuple();
  w.empty_list();
  w.string("x");
  w.append();
  w.global("m", "C");
  w.tuple(3);
  w.persistent_id();
  w.build();
  return w.finish();
}

TEST(IoPickle, WriterRoundTrip) {
  auto doc = parse(everything());
  Pickle state = doc->root().state()->persistent_id();
  EXPECT_EQ(state[0][2].as_int(), 70000);
  EXPECT_EQ(state[0][3].as_int(), INT64_MIN);
  EXPECT_TRUE(std::signbit(state[0][4].as_double()));
  EXPECT_TRUE(state[0][5].is_call("_codecs", "encode"));
  EXPECT_EQ(state[0][5].args()[0].as_string(), "\0\xc3\xbf"sv);
  EXPECT_EQ(state[0][6].id(), doc->root().id());
  EXPECT_EQ(state[1][0].as_string(), "x");
  EXPECT_EQ(state[2].id(), doc->root().callable().id());
  EXPECT_TRUE(doc->cyclic());
}

TEST(IoPickle, LargeMemosUseLongOpcodes) {
  PickleWriter w;
  w.empty_list();
  w.mark();
  for (int i = 0; i < 1000; ++i) w.string(fmt::format("s{}", i));
  w.string("s999");
  w.append_items();
  auto doc = parse(w.finish());
  EXPECT_EQ(doc->root().size(), 1001u);
  EXPECT_EQ(doc->root()[1000].id(), doc->root()[999].id());
}

TEST(IoPickle, ParsingIsLinear) {
  PickleWriter w;
  w.empty_list();
  const int count = 1000000 / fewer;
  for (int i = 0; i < count; ++i) {
    w.integer(i);
    w.put();
    w.append();
  }
  std::string text = w.finish();
  auto start = std::chrono::steady_clock::now();
  auto doc = parse(text);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2) * patience);
  EXPECT_EQ(doc->root()[count - 1].as_int(), count - 1);
}

TEST(IoPickle, MalformedFilesNeverCrash) {
  auto read = [](Blob bytes) {
    auto doc = parse_pickle(bytes.bytes);
    doc->root().describe();
  };
  std::string whole = everything();
  for (std::string_view text : {std::string_view(whole), "(lp0\nI1\naS'a\\x41'\naV\\u0041\nF1.5\nL5L\na."sv,
                                "\x80\x04\x95\x05\0\0\0\0\0\0\0}\x94(\x8c\x01k\x94\x8f\x94(K\x01\x90u."sv}) {
    Outcome outcome = try_damaged(bytes_of(std::string(text)), read);
    EXPECT_GT(outcome.refused, static_cast<int>(text.size()));
  }
}

}  // namespace
}  // namespace tern::io
