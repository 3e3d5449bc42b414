#include "tern/jit/debug_info.h"

#include <algorithm>
#include <charconv>

#include "tern/base/format.h"
#include "tern/io/pickle.h"

namespace tern::jit {

DebugInfo::DebugInfo(const io::ZipReader& zip, const std::string& root)
    : archive_(zip.archive()), label_(zip.label()), root_(root) {}

namespace {

// (texts, file's name, first line) and the offsets of the range in the text; the parts of a text are numbers
// in the table of strings.
std::optional<ir::Origin> origin_of(const io::Pickle& range, const io::Pickle& strings) {
  auto string_at = [&](const io::Pickle& index) -> std::string {
    int64_t i = index.as_int();
    if (i < 0 || static_cast<size_t>(i) >= strings.size()) return "";
    return std::string(strings[static_cast<size_t>(i)].as_string());
  };
  io::Pickle source = range[0], ids = source[0];
  io::Pickle list = ids.is(io::PickleKind::object) ? ids.args()[0] : ids;
  std::string text;
  for (size_t i = 0; i < list.size() && text.size() < 1 << 16; ++i) text += string_at(list[i]);
  std::string file = source[1].is_none() ? "" : string_at(source[1]);
  if (file.empty()) return std::nullopt;
  ir::Origin origin;
  origin.file = file;
  origin.line = static_cast<uint32_t>(source[2].as_int());
  // A trace keeps the stack as text: file(line): function. Source is kept from its first line on.
  std::string stack = fmt::format("{}({}): ", file, origin.line);
  if (text.starts_with(stack)) {
    origin.function = text.substr(stack.size(), text.find('\n') - stack.size());
    return origin;
  }
  size_t start = std::min(static_cast<size_t>(std::max<int64_t>(range[1].as_int(), 0)), text.size());
  origin.line += static_cast<uint32_t>(
      std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(start), '\n'));
  size_t from = text.rfind('\n', start ? start - 1 : 0);
  from = from == std::string::npos || start == 0 ? 0 : from + 1;
  std::string line = text.substr(from, text.find('\n', start) - from);
  if (size_t first = line.find_first_not_of(' '); first != std::string::npos) line = line.substr(first);
  origin.text = line;
  return origin;
}

}  // namespace

DebugInfo::File DebugInfo::read(const std::string& name) const {
  File file;
  try {
    io::ZipReader zip(archive_, label_);
    const io::ZipMember *code = zip.find(root_ + name), *debug = zip.find(root_ + name + ".debug_pkl");
    if (!code || !debug) return file;
    file.code = zip.read_text(code->name);
    Shared<const io::PickleDoc> doc =
        io::parse_pickle(zip.read(*debug, io::Crc::check).bytes, nullptr, "debug information");
    io::Pickle root = doc->root();
    if (doc->cyclic() || !root.is(io::PickleKind::tuple) || root.size() < 3 ||
        !root[0].is(io::PickleKind::string))
      return file;  // the format of old archives has no table of strings
    io::Pickle strings = root[1], ranges = root[2];
    for (size_t i = 0; i < ranges.size(); ++i)
      if (std::optional<ir::Origin> o = origin_of(ranges[i][1], strings))
        file.ranges.push_back({static_cast<uint64_t>(ranges[i][0].as_int()), *o});
    std::sort(file.ranges.begin(), file.ranges.end(),
              [](const Range& a, const Range& b) { return a.offset < b.offset; });
  } catch (const Error&) {
    file.ranges.clear();  // a hint for messages: without it they say the place in the code
  }
  return file;
}

std::optional<ir::Origin> DebugInfo::find(const ir::Origin& in_code) {
  if (!in_code.line || !in_code.file.view().starts_with("code/")) return std::nullopt;
  std::string name = in_code.file.str();
  auto it = files_.find(name);
  if (it == files_.end()) it = files_.emplace(name, read(name)).first;
  const File& file = it->second;
  std::string_view text = file.code;
  size_t at = 0;
  for (uint32_t line = 1; line < in_code.line; ++line) {
    at = text.find('\n', at);
    if (at == std::string_view::npos) return std::nullopt;
    ++at;
  }
  uint64_t offset = at + (in_code.column ? in_code.column - 1 : 0);
  auto after = std::upper_bound(file.ranges.begin(), file.ranges.end(), offset,
                                [](uint64_t o, const Range& r) { return o < r.offset; });
  if (after == file.ranges.begin()) return std::nullopt;
  // A range that began on an earlier line is another statement's.
  if ((after - 1)->offset < at) return std::nullopt;
  return (after - 1)->origin;
}

std::string write_debug_info(const std::vector<Mark>& marks) {
  std::vector<std::string> strings{""};
  std::map<std::string, size_t> numbers{{"", 0}};
  auto number = [&](const std::string& s) {
    auto [it, fresh] = numbers.emplace(s, strings.size());
    if (fresh) strings.push_back(s);
    return static_cast<int64_t>(it->second);
  };
  struct Row {
    int64_t offset, text, file, line, end;
  };
  std::vector<Row> rows{{0, 0, 0, 0, 0}};
  for (const Mark& m : marks) {
    Row row{static_cast<int64_t>(m.offset), 0, 0, 0, 0};
    if (m.origin && m.origin->has_place() && !m.origin->file.empty()) {
      std::string text = m.origin->text.empty()
                             ? fmt::format("{}({}): {}\n", m.origin->file.view(), m.origin->line,
                                           m.origin->function.empty() ? "forward" : m.origin->function.view())
                             : m.origin->text.str() + "\n";
      row = {row.offset, number(text), number(m.origin->file.str()), m.origin->line,
             static_cast<int64_t>(text.size()) - 1};
    }
    if (row.offset == rows.back().offset)
      rows.back() = row;
    else
      rows.push_back(row);
  }
  io::PickleWriter out;
  out.string("FORMAT_WITH_STRING_TABLE");
  out.mark();
  for (const std::string& s : strings) out.string(s);
  out.tuple();
  out.mark();
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& r = rows[i];
    out.integer(r.offset);
    out.global("torch.jit._pickle", "build_intlist");
    out.empty_list();
    out.mark();
    if (r.text) out.integer(r.text);
    out.append_items();
    out.tuple(1);
    out.reduce();
    out.integer(r.file);
    out.integer(r.line);
    out.tuple(3);
    out.integer(0);
    out.integer(r.end);
    out.tuple(3);
    out.integer(static_cast<int64_t>(i));
    out.tuple(3);
  }
  out.tuple();
  out.tuple(3);
  return out.finish();
}

}  // namespace tern::jit
