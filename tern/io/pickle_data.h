// What a PickleDoc holds; seen only by the parser and the accessors.
#pragma once
#include "tern/io/pickle.h"

namespace tern::io {

struct PickleNode {
  PickleKind kind;
  bool flag = false;  // boolean's value; made_by_new of an object
  uint32_t a = 0;     // containers: index into lists; object: index into objects; global: module's length
  union {
    int64_t integer;
    double real;
    const char* text;
  };
  size_t size = 0;  // of the text

  explicit PickleNode(PickleKind k) : kind(k), integer(0) {}
};

constexpr uint32_t kNoPickle = 0xFFFFFFFF;

struct PickleObject {
  uint32_t callable = kNoPickle, args = kNoPickle, kwargs = kNoPickle, state = kNoPickle;
  std::vector<uint32_t> items, pairs;
};

struct PickleDoc::Data {
  std::vector<PickleNode> nodes;
  std::vector<std::vector<uint32_t>> lists;  // elements; dicts alternate key and value
  std::vector<PickleObject> objects;
  Arena text;
  uint32_t root = 0;
  int protocol = 0;
  bool cyclic = false;
  std::string label;
};

}  // namespace tern::io
