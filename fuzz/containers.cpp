// The containers of tern/io: archives, pickles, JSON, arrays. What is accepted is written and read again.
#include <algorithm>
#include <memory>

#include "fuzz/targets.h"
#include "tern/io/json.h"
#include "tern/io/npy.h"
#include "tern/io/pickle.h"
#include "tern/io/safetensors.h"
#include "tern/io/zip.h"

namespace tern::fuzz {
namespace {

// A copy of exactly this size, so that a sanitizer sees any read past its end.
io::Blob blob(const uint8_t* data, size_t size) { return io::own(std::vector<uint8_t>(data, data + size)); }

bool same(io::Bytes a, io::Bytes b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}

constexpr io::ZipLimits zip_limits{.max_member_size = 1 << 20};

}  // namespace

int zip(const uint8_t* data, size_t size) {
  return survive([&] {
    io::ZipReader reader(blob(data, size), "fuzz.zip", zip_limits);
    io::MemoryWriter sink;
    io::ZipWriter writer(sink);
    std::vector<std::pair<std::string, io::Blob>> members;
    for (const io::ZipMember& m : reader.members()) {
      if (reader.find(m.name) == nullptr) throw Finding("a member is not found by its name");
      survive([&] {
        io::Blob content = reader.read(m, io::Crc::check);
        if (content.bytes.size() != m.size)
          throw Finding("a member has another size than the directory says");
        reader.data_offset(m);
        members.emplace_back(m.name, content);
      });
    }
    survive([&] { reader.verify(); });
    survive([&] { reader.at("no such member"); });
    for (size_t i = 0; i < members.size(); ++i)
      writer.add(members[i].first, members[i].second.bytes, i % 2 == 1);
    writer.finish();
    must("what was written does not read", [&] {
      io::ZipReader again(io::own(sink.take()), "again.zip", zip_limits);
      again.verify();
      for (auto& [name, content] : members)
        if (!same(again.read(name).bytes, content.bytes)) throw Finding("a member changed");
    });
  });
}

namespace {

// Every accessor of every value, also those of another kind. No recursion: what a throw costs under
// AddressSanitizer grows with the depth of the stack.
void walk(io::Pickle root, size_t count_of_nodes) {
  std::vector<bool> seen(count_of_nodes);
  std::vector<io::Pickle> waiting{root};
  auto inside = [&](auto&& get) {
    survive([&] {
      if (std::optional<io::Pickle> item = get()) waiting.push_back(*item);
    });
  };
  while (!waiting.empty()) {
    io::Pickle value = waiting.back();
    waiting.pop_back();
    if (value.id() >= seen.size()) throw Finding("a value that is not of the document");
    if (seen[value.id()]) continue;
    seen[value.id()] = true;
    survive([&] { value.describe(); });
    survive([&] { value.as_int(); });
    survive([&] { value.as_double(); });
    survive([&] { value.as_string(); });
    survive([&] { value.as_bytes(); });
    survive([&] { value.digits(); });
    survive([&] { value.find("key"); });
    size_t count = 0, pairs = 0;
    survive([&] { count = value.size(); });
    if (!value.is(io::PickleKind::dict))
      for (size_t i = 0; i < count; ++i) inside([&] { return value[i]; });
    survive([&] { pairs = value.pair_count(); });
    for (size_t i = 0; i < pairs; ++i) {
      inside([&] { return value.key(i); });
      inside([&] { return value.value(i); });
    }
    survive([&] { (void)value[count]; });
    survive([&] { value.key(pairs); });
    inside([&] { return value.callable(); });
    inside([&] { return value.args(); });
    inside([&] { return value.kwargs(); });
    inside([&] { return value.state(); });
    inside([&] { return value.persistent_id(); });
  }
}

}  // namespace

int pickle(const uint8_t* data, size_t size) {
  return survive([&] {
    size_t consumed = 0;
    std::shared_ptr<const io::PickleDoc> doc;
    {
      io::Blob bytes = blob(data, size);  // gone before the walk: the document must not borrow from it
      doc = io::parse_pickle(bytes.bytes, &consumed, "fuzz.pkl", {.max_nodes = 1 << 16, .max_walk = 1 << 16});
    }
    if (consumed == 0 || consumed > size) throw Finding("more was consumed than there is");
    walk(doc->root(), doc->node_count());
  });
}

int json(const uint8_t* data, size_t size) {
  return survive([&] {
    auto doc = io::parse_json(blob(data, size), "fuzz.json");
    auto text_of = [](const io::JsonDoc& d) {
      io::JsonWriter writer;
      writer.value(d.root());
      return writer.take();
    };
    std::string once = text_of(*doc), twice;
    must("what was written does not parse", [&] { twice = text_of(*io::parse_json(once, "again.json")); });
    if (once != twice) throw Finding("the text changed: " + once + " became " + twice);
    if (!doc->root().is_array() && !doc->root().is_object()) return;
    for (io::Json item : doc->root()) {
      survive([&] { item.path(); });
      survive([&] { item.as_double(); });
      survive([&] { item.as_string(); });
    }
  });
}

int npy(const uint8_t* data, size_t size) {
  return survive([&] {
    auto again = [](const io::NpyArray& array) {
      io::MemoryWriter sink;
      must("what was read cannot be written", [&] { io::write_npy(sink, array); });
      must("what was written does not read", [&] {
        io::NpyArray copy = io::parse_npy(io::own(sink.take()), "again.npy");
        if (copy.shape != array.shape || !same(copy.data.bytes, array.data.bytes))
          throw Finding("the array changed");
      });
    };
    io::Blob bytes = blob(data, size);
    if (io::ZipReader::looks_like_zip(bytes.bytes)) {
      for (const io::NpzEntry& entry : io::read_npz(io::ZipReader(bytes, "fuzz.npz", zip_limits)))
        again(entry.array);
      return;
    }
    size_t consumed = 0;
    io::NpyArray array = io::parse_npy(bytes, "fuzz.npy", &consumed);
    if (consumed > size) throw Finding("more was consumed than there is");
    if (array.data.bytes.size() != static_cast<size_t>(array.count()) * array.item_size())
      throw Finding("the data do not fit the header");
    again(array);
  });
}

int safetensors(const uint8_t* data, size_t size) {
  return survive([&] {
    io::SafeTensors content = io::parse_safetensors(blob(data, size), "fuzz.safetensors");
    io::MemoryWriter sink;
    must("what was read cannot be written", [&] { io::write_safetensors(sink, content); });
    must("what was written does not read", [&] {
      io::SafeTensors copy = io::parse_safetensors(io::own(sink.take()), "again.safetensors");
      if (copy.tensors.size() != content.tensors.size()) throw Finding("a tensor was lost");
      for (const io::SafeTensor& t : content.tensors) {
        const io::SafeTensor* other = copy.find(t.name);
        if (!other || other->dtype != t.dtype || other->shape != t.shape || !same(other->data, t.data))
          throw Finding("tensor '" + t.name + "' changed");
      }
    });
  });
}

}  // namespace tern::fuzz
