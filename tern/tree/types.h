// The serialised names of the containers every Python has, as PyTorch writes them into specs.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tern::tree {

namespace types {
inline constexpr const char* tuple = "builtins.tuple";
inline constexpr const char* list = "builtins.list";
inline constexpr const char* dict = "builtins.dict";
inline constexpr const char* ordered_dict = "collections.OrderedDict";
inline constexpr const char* default_dict = "collections.defaultdict";
inline constexpr const char* deque = "collections.deque";
inline constexpr const char* named_tuple = "collections.namedtuple";
}  // namespace types

std::vector<std::string> named_tuple_fields(std::string_view type);  // empty if nobody registered it

}  // namespace tern::tree
