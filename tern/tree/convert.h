// C++ types as Values and back: numbers, strings, tensors, vectors, maps, tuples, optionals, and structs that
// name their members:
//   struct Box { Tensor corners; double score; static constexpr auto fields = tree::fields("corners",
//   &Box::corners,
//                                                                                        "score",
//                                                                                        &Box::score); };
// A struct may also say `static constexpr const char* type_name = "my.module.Box"`, the name files carry.
#pragma once
#include <array>
#include <concepts>
#include <optional>
#include <tuple>
#include <utility>

#include "tern/tree/tree.h"

namespace tern::tree {

template <class S, class M>
struct Field {
  const char* name;
  M S::*member;
};

// A list as nested structs: a std::tuple of as many would cost its header more than the rest of it.
struct NoFields {
  static constexpr bool is_field_list = true;
  void each(auto&&) const {}
};
template <class S, class M, class Rest>
struct Fields {
  static constexpr bool is_field_list = true;
  Field<S, M> first;
  Rest rest;
  void each(auto&& f) const {
    f(first);
    rest.each(f);
  }
};
constexpr NoFields fields() { return {}; }
template <class S, class M, class... Rest>
constexpr auto fields(const char* name, M S::*member, Rest... rest) {
  return Fields<S, M, decltype(fields(rest...))>{{name, member}, fields(rest...)};
}

template <class T>
concept Struct = requires {
  std::remove_cvref_t<decltype(T::fields)>::is_field_list;
};

// The C++ name of a type as a dotted Python-like name: "my.Net" for my::Net.
std::string dotted_name(std::string_view pretty_function);
template <class T>
std::string type_name_of() {
  if constexpr (requires { T::type_name; })
    return T::type_name;
  else
    return dotted_name(__PRETTY_FUNCTION__);
}

[[noreturn]] void wrong_length(std::string_view what, size_t wanted, size_t found);
const std::vector<Value>& sequence(
    const Value& v);  // the items of a list, tuple, namedtuple or deque; throws TypeError

namespace details {
template <class T>
concept StringLike = std::convertible_to<const T&, std::string_view>;
template <class T>
concept Map = requires {
  typename T::key_type;
  typename T::mapped_type;
};
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_vector = false;
template <class T>
inline constexpr bool is_vector<std::vector<T>> = true;
template <class T>
inline constexpr bool is_entries = false;  // a dict in insertion order
template <class T>
inline constexpr bool is_entries<std::vector<std::pair<std::string, T>>> = true;
template <class T>
inline constexpr bool is_array = false;
template <class T, size_t N>
inline constexpr bool is_array<std::array<T, N>> = true;
template <class T>
concept TupleLike = requires {
  std::tuple_size<T>::value;
};
}  // namespace details

template <class T>
Value to_value(const T& x) {
  if constexpr (std::is_same_v<T, Value>) {
    return x;
  } else if constexpr (std::is_same_v<T, std::nullopt_t> || std::is_same_v<T, std::nullptr_t>) {
    return {};
  } else if constexpr (std::is_floating_point_v<T>) {
    return Value(static_cast<double>(x));
  } else if constexpr (details::is_optional<T>) {
    return x ? to_value(*x) : Value();
  } else if constexpr (details::StringLike<T>) {
    return Value(std::string_view(x));
  } else if constexpr (details::is_entries<T> || details::Map<T>) {
    std::vector<std::pair<Value, Value>> entries;
    for (const auto& [key, item] : x) entries.emplace_back(to_value(key), to_value(item));
    return Value::dict(std::move(entries));
  } else if constexpr (details::is_vector<T> || details::is_array<T>) {
    std::vector<Value> items;
    items.reserve(x.size());
    for (const auto& item : x) items.push_back(to_value(static_cast<const typename T::value_type&>(item)));
    return Value::list(std::move(items));
  } else if constexpr (Struct<T>) {
    std::vector<std::string> names;
    std::vector<Value> items;
    T::fields.each([&](const auto& field) {
      names.emplace_back(field.name);
      items.push_back(to_value(x.*field.member));
    });
    return structure(type_name_of<T>(), std::move(names), std::move(items));
  } else if constexpr (details::TupleLike<T>) {
    return std::apply([](const auto&... item) { return Value::tuple({to_value(item)...}); }, x);
  } else {
    static_assert(
        std::is_constructible_v<Value, const T&>,
        "tree::to_value: give the struct a member list: static constexpr auto fields = tree::fields(...)");
    return Value(x);
  }
}

// Throws TypeError when the value is something else, ValueError when a tuple or array has another length.
template <class T>
T from_value(const Value& v) {
  if constexpr (std::is_same_v<T, Value>) {
    return v;
  } else if constexpr (std::is_same_v<T, Tensor>) {
    return v.tensor();
  } else if constexpr (std::is_same_v<T, Scalar>) {
    return v.scalar();
  } else if constexpr (std::is_same_v<T, bool>) {
    return v.to_bool();
  } else if constexpr (std::is_same_v<T, SymInt>) {
    return v.sym();
  } else if constexpr (std::is_same_v<T, Device>) {
    return v.device();
  } else if constexpr (std::is_enum_v<T>) {
    return static_cast<T>(v.to_int());
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(v.to_int());
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(v.to_double());
  } else if constexpr (details::is_optional<T>) {
    return v.is_none() ? T() : T(from_value<typename T::value_type>(v));
  } else if constexpr (std::is_same_v<T, std::string>) {
    return v.string();
  } else if constexpr (details::is_entries<T>) {
    T entries;
    for (auto& [key, item] : v.entries())
      entries.emplace_back(key.string(), from_value<typename T::value_type::second_type>(item));
    return entries;
  } else if constexpr (details::Map<T>) {
    T map;
    for (auto& [key, item] : v.entries())
      map.emplace(from_value<typename T::key_type>(key), from_value<typename T::mapped_type>(item));
    return map;
  } else if constexpr (details::is_vector<T>) {
    T items;
    for (const Value& item : sequence(v)) items.push_back(from_value<typename T::value_type>(item));
    return items;
  } else if constexpr (Struct<T>) {
    T x{};
    T::fields.each([&]<class M>(const Field<T, M>& f) { x.*f.member = from_value<M>(field(v, f.name)); });
    return x;
  } else if constexpr (details::TupleLike<T>) {
    const auto& items = sequence(v);
    if (items.size() != std::tuple_size_v<T>)
      wrong_length(details::is_array<T> ? "array" : "tuple", std::tuple_size_v<T>, items.size());
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return T{from_value<std::tuple_element_t<I, T>>(items[I])...};
    }
    (std::make_index_sequence<std::tuple_size_v<T>>());
  } else {
    static_assert(sizeof(T) == 0, "tree::from_value: give the struct a member list (tree::fields)");
  }
}

// Arguments of a call as one tuple.
template <class... A>
Value args_to_value(const A&... args) {
  return Value::tuple({to_value(args)...});
}

}  // namespace tern::tree
