// What an entry of a table is in C++: types, signatures, the variants derived from it.
#pragma once
#include "table.h"

namespace opgen {

string cpp_type(const Family& f, const Entry& e, const string& type);
string cpp_return(const Family& f, const Entry& e);
string signature(const Family& f, const Entry& e, const string& name, bool defaults, bool out_first);
// Whether a formula names an argument; `only_meta` stays true if only for its sizes, dtype and the like.
bool uses(const string& expression, const string& name, bool* only_meta = nullptr);

// x_ and x.out.
Entry derive_inplace(const Entry& e);
Entry derive_out(const Entry& e);
string out_overload(const Entry& e);
vector<string> out_names(const Entry& e);

bool has_kernel(const Entry& e);
bool wants_out(const Entry& e);
bool is_composite(const Entry& e);

}  // namespace opgen
