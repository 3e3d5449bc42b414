// What a PickleDoc holds; seen only by the parser and the accessors.
#pragma once
#include "tern/io/pickle.h"

namespace tern::io {

struct PickleNode {
  PickleKind kind;
  bool flag = false;  // boolean's value; made_by_new of an object
  uint32_t a = 0;     // object: index into objects; global: module's length; persistent: its id; else: room
  union {
    int64_t integer;
    double real;
    const char* text;
    size_t first;  // of a container's elements, among all
  };
  size_t size = 0;  // of the text; elements of a container, keys and values of a dict

  explicit PickleNode(PickleKind k) : kind(k), integer(0) {}
};

constexpr uint32_t kNoPickle = 0xFFFFFFFF;

struct PickleObject {
  uint32_t callable = kNoPickle, args = kNoPickle, kwargs = kNoPickle, state = kNoPickle;
  uint32_t items = kNoPickle, pairs = kNoPickle;  // a list and a dict of their own, when something was added
};

struct PickleDoc::Data {
  std::vector<PickleNode> nodes;
  std::vector<uint32_t> elements;  // of every container, each in one piece; dicts alternate key and value
  std::vector<PickleObject> objects;
  Arena text;
  uint32_t root = 0;
  int protocol = 0;
  bool cyclic = false;
  std::string label;

  Span<const uint32_t> elements_of(uint32_t id) const {
    if (id == kNoPickle) return {};
    return {elements.data() + nodes[id].first, nodes[id].size};
  }
};

}  // namespace tern::io
