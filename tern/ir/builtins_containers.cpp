// Builtins on lists, tuples and dicts.
#include <algorithm>

#include "tern/base/format.h"
#include "tern/ir/builtin_families.h"

namespace tern::ir {
namespace {

using namespace builtin;

// ---- sequences ----

size_t length(const V& v) {
  if (v.is_string()) return v.string().size();
  if (v.is_dict()) return v.entries().size();
  return v.items().size();
}
V len(Args in) {
  need(in, 1, 1, "len");
  if (in[0].is_tensor()) {
    if (in[0].tensor().dim() == 0) fail(ErrorKind::type, "len() of a 0-d tensor");
    return in[0].tensor().size(0, Loc{});
  }
  return static_cast<int64_t>(length(in[0]));
}
size_t position(const V& index, size_t n, std::string_view what) {
  int64_t i = integer(index).guard_int(Loc{}), size = static_cast<int64_t>(n);
  if (i < -size || i >= size) failf(ErrorKind::index, "{} index out of range", what);
  return static_cast<size_t>(i < 0 ? i + size : i);
}
V get_item(Args in) {
  need(in, 2, 2, "[]");
  const V &v = in[0], &key = in[1];
  if (v.is_dict()) {
    if (V* found = v.find(key)) return *found;
    failf(ErrorKind::index, "KeyError: {}", text_of(key));
  }
  if (v.is_string()) return std::string(1, v.string()[position(key, v.string().size(), "string")]);
  return v.items()[position(key, v.items().size(), v.is_list() ? "list" : "tuple")];
}
V set_item(Args in) {
  need(in, 3, 3, "[]=");
  if (in[0].is_dict()) {
    if (V* found = in[0].find(in[1]))
      *found = in[2];
    else
      in[0].entries().emplace_back(in[1], in[2]);
  } else {
    in[0].items()[position(in[1], in[0].items().size(), "list")] = in[2];
  }
  return in[0];
}
V delete_item(Args in) {
  need(in, 2, 2, "del");
  if (in[0].is_dict()) {
    auto& entries = in[0].entries();
    for (auto it = entries.begin(); it != entries.end(); ++it)
      if (same(it->first, in[1])) {
        entries.erase(it);
        return {};
      }
    failf(ErrorKind::index, "KeyError: {}", text_of(in[1]));
  }
  auto& items = in[0].items();
  items.erase(items.begin() + static_cast<ptrdiff_t>(position(in[1], items.size(), "list")));
  return {};
}
struct Range {
  int64_t start, stop, step;
};
Range slice_range(Args in, size_t n) {
  int64_t size = static_cast<int64_t>(n);
  int64_t step = in.size() > 3 && !in[3].is_none() ? integer(in[3]).guard_int(Loc{}) : 1;
  if (step == 0) fail(ErrorKind::value, "List slice should have non-zero step");
  auto clip = [&](const V& v, int64_t otherwise) {
    if (v.is_none()) return otherwise;
    int64_t i = integer(v).guard_int(Loc{});
    if (i < 0) i += size;
    return step > 0 ? std::clamp<int64_t>(i, 0, size) : std::clamp<int64_t>(i, -1, size - 1);
  };
  static const V none{};
  return {clip(in.size() > 1 ? in[1] : none, step > 0 ? 0 : size - 1),
          clip(in.size() > 2 ? in[2] : none, step > 0 ? size : -1), step};
}
V slice(Args in) {
  need(in, 1, 4, "slice");
  Range r = slice_range(in, length(in[0]));
  auto each = [&](auto f) {
    for (int64_t k = r.start; r.step > 0 ? k < r.stop : k > r.stop; k += r.step) f(static_cast<size_t>(k));
  };
  if (in[0].is_string()) {
    std::string out;
    each([&](size_t k) { out += in[0].string()[k]; });
    return out;
  }
  std::vector<V> items;
  each([&](size_t k) { items.push_back(in[0].items()[k]); });
  return in[0].is_tuple() ? V::tuple(std::move(items)) : V::list(std::move(items), in[0].element_type());
}
V append(Args in) {
  need(in, 2, 2, "append");
  in[0].items().push_back(in[1]);
  return in[0];
}
V extend(Args in) {
  need(in, 2, 2, "extend");
  std::vector<V> more = in[1].items();
  in[0].items().insert(in[0].items().end(), more.begin(), more.end());
  return {};
}
V insert(Args in) {
  need(in, 3, 3, "insert");
  auto& items = in[0].items();
  int64_t i = integer(in[1]).guard_int(Loc{}), n = static_cast<int64_t>(items.size());
  i = std::clamp<int64_t>(i < 0 ? i + n : i, 0, n);
  items.insert(items.begin() + i, in[2]);
  return {};
}
V pop(Args in) {
  need(in, 1, 3, "pop");
  if (in[0].is_dict()) {
    auto& entries = in[0].entries();
    for (auto it = entries.begin(); it != entries.end(); ++it)
      if (in.size() > 1 && same(it->first, in[1])) {
        V v = it->second;
        entries.erase(it);
        return v;
      }
    if (in.size() == 3) return in[2];
    failf(ErrorKind::index, "KeyError: {}", in.size() > 1 ? text_of(in[1]) : "");
  }
  auto& items = in[0].items();
  if (items.empty()) fail(ErrorKind::index, "pop from empty list");
  size_t at = in.size() > 1 ? position(in[1], items.size(), "pop") : items.size() - 1;
  V v = items[at];
  items.erase(items.begin() + static_cast<ptrdiff_t>(at));
  return v;
}
size_t find_in(const std::vector<V>& items, const V& v) {
  for (size_t k = 0; k < items.size(); ++k)
    if (same(items[k], v)) return k;
  return items.size();
}
V remove(Args in) {
  need(in, 2, 2, "remove");
  auto& items = in[0].items();
  size_t at = find_in(items, in[1]);
  if (at == items.size()) fail(ErrorKind::value, "list.remove(x): x not in list");
  items.erase(items.begin() + static_cast<ptrdiff_t>(at));
  return {};
}
V index_of(Args in) {
  need(in, 2, 4, "index");
  if (in[0].is_string()) return index_in_text(in);
  size_t at = find_in(in[0].items(), in[1]);
  if (at == in[0].items().size()) failf(ErrorKind::value, "'{}' is not in list", text_of(in[1]));
  return static_cast<int64_t>(at);
}
V count_of(Args in) {
  need(in, 2, 4, "count");
  if (in[0].is_string()) return count_in_text(in);
  return static_cast<int64_t>(
      std::count_if(in[0].items().begin(), in[0].items().end(), [&](const V& v) { return same(v, in[1]); }));
}
V reverse(Args in) {
  need(in, 1, 1, "reverse");
  std::reverse(in[0].items().begin(), in[0].items().end());
  return {};
}
V clear(Args in) {
  need(in, 1, 1, "clear");
  if (in[0].is_dict())
    in[0].entries().clear();
  else
    in[0].items().clear();
  return {};
}
V copy(Args in) {
  need(in, 1, 1, "copy");
  if (in[0].is_dict()) return V::dict(in[0].entries());
  return V::list(in[0].items(), in[0].element_type());
}
void sort_items(std::vector<V>& items, bool backwards) {
  std::stable_sort(items.begin(), items.end(),
                   [&](const V& a, const V& b) { return backwards ? order(b, a) < 0 : order(a, b) < 0; });
}
V sort(Args in) {
  need(in, 1, 2, "sort");
  sort_items(in[0].items(), in.size() > 1 && truth(in[1]));
  return {};
}
V sorted(Args in) {
  need(in, 1, 2, "sorted");
  std::vector<V> items = in[0].items();
  sort_items(items, in.size() > 1 && truth(in[1]));
  return V::list(std::move(items), in[0].element_type());
}
V to_list(Args in) {
  need(in, 1, 1, "list");
  if (in[0].is_string()) {
    std::vector<V> items;
    for (char c : in[0].string()) items.emplace_back(std::string(1, c));
    return V::list(std::move(items), Type::string());
  }
  if (in[0].is_dict()) {
    std::vector<V> keys;
    for (auto& [k, v] : in[0].entries()) keys.push_back(k);
    return V::list(std::move(keys));
  }
  return V::list(in[0].items(), in[0].element_type());
}
V contains(Args in) {
  need(in, 2, 2, "in");
  if (in[0].is_dict()) return in[0].find(in[1]) != nullptr;
  if (in[0].is_string()) return in[0].string().find(in[1].string()) != std::string::npos;
  return find_in(in[0].items(), in[1]) != in[0].items().size();
}
V extreme(Args in, bool largest, std::string_view what) {
  const std::vector<V> all = in.size() == 1 ? in[0].items() : in.vec();
  if (all.empty()) failf(ErrorKind::value, "{}() arg is an empty sequence", what);
  // What PyTorch asks of two floats; of a nan it makes the second.
  if (in.size() == 2 && in[0].is_number() && in[1].is_number() && any_float(in[0], in[1])) {
    double a = in[0].to_double(), b = in[1].to_double();
    return (largest ? a >= b : a <= b) ? a : b;
  }
  V best = all[0];
  for (size_t k = 1; k < all.size(); ++k) {
    if (best.is_int() && all[k].is_int())
      best = largest ? sym_max(best.sym(), all[k].sym()) : sym_min(best.sym(), all[k].sym());
    else if (largest ? order(all[k], best) > 0 : order(all[k], best) < 0)
      best = all[k];
  }
  return best;
}
V minimum(Args in) {
  need(in, 1, 64, "min");
  return extreme(in, false, "min");
}
V maximum(Args in) {
  need(in, 1, 64, "max");
  return extreme(in, true, "max");
}
V sum(Args in) {
  need(in, 1, 1, "sum");
  V total = int64_t{0};
  for (const V& v : in[0].items()) {
    V pair[] = {total, v.is_bool() ? V(int64_t{v.to_bool()}) : v};
    total = wrapping_add(pair);
  }
  return total;
}
V all_of(Args in) {
  need(in, 1, 1, "all");
  return std::all_of(in[0].items().begin(), in[0].items().end(), truth);
}
V any_of(Args in) {
  need(in, 1, 1, "any");
  return std::any_of(in[0].items().begin(), in[0].items().end(), truth);
}
V range_length(Args in) {
  need(in, 3, 3, "range");
  int64_t lo = integer(in[0]).guard_int(Loc{}), hi = integer(in[1]).guard_int(Loc{}),
          step = integer(in[2]).guard_int(Loc{});
  if (step == 0) fail(ErrorKind::value, "range() arg 3 must not be zero");
  if (step > 0) return lo < hi ? 1 + (hi - 1 - lo) / step : 0;
  return lo > hi ? 1 + (lo - 1 - hi) / -step : 0;
}
V derive_index(Args in) {
  need(in, 3, 3, "range");
  return integer(in[1]) + integer(in[0]) * integer(in[2]);
}
V range_list(Args in) {
  need(in, 1, 1, "range");
  int64_t n = integer(in[0]).guard_int(Loc{});
  if (n > (int64_t{1} << 26)) fail(ErrorKind::value, "the range is too long for a list");
  std::vector<V> items;
  for (int64_t k = 0; k < n; ++k) items.emplace_back(k);
  return V::list(std::move(items), Type::integer());
}

// ---- dicts ----

V keys(Args in) {
  need(in, 1, 1, "keys");
  std::vector<V> out;
  for (auto& [k, v] : in[0].entries()) out.push_back(k);
  return V::list(std::move(out));
}
V values(Args in) {
  need(in, 1, 1, "values");
  std::vector<V> out;
  for (auto& [k, v] : in[0].entries()) out.push_back(v);
  return V::list(std::move(out));
}
V items(Args in) {
  need(in, 1, 1, "items");
  std::vector<V> out;
  for (auto& [k, v] : in[0].entries()) out.push_back(V::tuple({k, v}));
  return V::list(std::move(out));
}
V get(Args in) {
  need(in, 2, 3, "get");
  if (V* found = in[0].find(in[1])) return *found;
  return in.size() == 3 ? in[2] : V();
}
V set_default(Args in) {
  need(in, 3, 3, "setdefault");
  if (V* found = in[0].find(in[1])) return *found;
  in[0].entries().emplace_back(in[1], in[2]);
  return in[2];
}
V update(Args in) {
  need(in, 2, 2, "update");
  std::vector<std::pair<V, V>> more = in[1].entries();
  for (auto& [k, v] : more) {
    V triple[] = {in[0], k, v};
    set_item(triple);
  }
  return {};
}
V make_dict(Args in) {
  need(in, 0, 1, "dict");
  V d = V::dict();
  if (in.empty()) return d;
  if (in[0].is_dict()) return V::dict(in[0].entries());
  for (const V& pair : in[0].items()) {
    V triple[] = {d, pair.items().at(0), pair.items().at(1)};
    set_item(triple);
  }
  return d;
}

V pop_item(Args in) {
  need(in, 1, 1, "popitem");
  auto& entries = in[0].entries();
  if (entries.empty()) fail(ErrorKind::index, "popitem(): dictionary is empty");
  // TorchScript takes the first, Python the last.
  auto [key, item] = entries.front();
  entries.erase(entries.begin());
  return V::tuple({key, item});
}
// += and *= of lists.
V add_in_place(Args in) {
  extend(in);
  return in[0];
}
V repeat_in_place(Args in) {
  need(in, 2, 2, "*=");
  auto& all = in[0].items();
  std::vector<V> once = all;
  int64_t times = std::max<int64_t>(integer(in[1]).guard_int(Loc{}), 0);
  if (!once.empty() && times > (int64_t{1} << 28) / static_cast<int64_t>(once.size()))
    fail(ErrorKind::value, "the repeated sequence is too long");
  all.clear();
  for (int64_t k = 0; k < times; ++k) all.insert(all.end(), once.begin(), once.end());
  return in[0];
}

constexpr BuiltinEntry table[] = {
    {"popitem", pop_item, true},
    {"add_", add_in_place, true},
    {"mul_", repeat_in_place, true},
    {"sym_max", maximum},
    {"sym_min", minimum},
    {"len", len},
    {"__getitem__", get_item},
    {"getitem", get_item},
    {"TupleIndex", get_item},
    {"StringIndex", get_item},
    {"_set_item", set_item, true},
    {"__setitem__", set_item, true},
    {"Delete", delete_item, true},
    {"slice", slice},
    {"TupleSlice", slice},
    {"append", append, true},
    {"extend", extend, true},
    {"insert", insert, true},
    {"pop", pop, true},
    {"remove", remove, true},
    {"index", index_of},
    {"count", count_of},
    {"reverse", reverse, true},
    {"clear", clear, true},
    {"copy", copy},
    {"sort", sort, true},
    {"sorted", sorted},
    {"list", to_list},
    {"Size", to_list},
    {"__contains__", contains},
    {"contains", contains},
    {"min", minimum},
    {"max", maximum},
    {"sum", sum},
    {"all", all_of},
    {"any", any_of},
    {"__range_length", range_length},
    {"__derive_index", derive_index},
    {"rangelist", range_list},
    {"keys", keys},
    {"values", values},
    {"items", items},
    {"get", get},
    {"setdefault", set_default, true},
    {"update", update, true},
    {"dict", make_dict},
};

}  // namespace

Span<const BuiltinEntry> container_builtins() { return table; }

}  // namespace tern::ir
