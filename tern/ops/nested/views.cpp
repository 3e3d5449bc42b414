// Views of nested tensors: the same buffer under other sizes and strides, or a part of it as a plain tensor.
#include <algorithm>

#include "tern/base/format.h"
#include "tern/ops.h"
#include "tern/ops/nested/nested.h"
#include "tern/ops/nested/rules.h"

namespace tern::nested {
namespace {

constexpr const char* please =
    " if you need this feature, please open an issue on github describing your use case.";

// The same tensors with other rows of sizes, strides and offsets: `change` gets each.
template <class F>
Tensor changed(const Tensor& self, F&& change) {
  const Nesting& n = nesting_of(self);
  Nesting to;
  to.count = n.count;
  to.buffer = n.buffer;
  to.rank = n.rank;
  for (int64_t i = 0; i < n.count; ++i) {
    std::vector<int64_t> sizes = n.sizes_of(i).vec(), strides = n.strides_of(i).vec();
    int64_t offset = n.offsets[static_cast<size_t>(i)];
    change(i, sizes, strides, offset);
    to.rank = static_cast<int64_t>(sizes.size());
    to.sizes.insert(to.sizes.end(), sizes.begin(), sizes.end());
    to.strides.insert(to.strides.end(), strides.begin(), strides.end());
    to.offsets.push_back(offset);
  }
  return view(self, checked_nesting(std::move(to)));
}
template <class T>
auto at(T& list, int64_t d) {
  return list.begin() + static_cast<std::ptrdiff_t>(d);
}

void transpose_rule(const Op&, const Arg* args, Value* results) {
  const Tensor& self = args[0].tensor();
  int64_t a = wrap_dim(args[1].to_int(), self.dim()), b = wrap_dim(args[2].to_int(), self.dim());
  if (a == b) {
    results[0] = Value(self);
    return;
  }
  if (a == 0 || b == 0) fail("Nested tensor dimension 0 cannot be transposed");
  results[0] = Value(changed(self, [&](int64_t, auto& sizes, auto& strides, int64_t&) {
    std::iter_swap(at(sizes, a - 1), at(sizes, b - 1));
    std::iter_swap(at(strides, a - 1), at(strides, b - 1));
  }));
}

void unsqueeze_rule(const Op&, const Arg* args, Value* results) {
  const Tensor& self = args[0].tensor();
  int64_t d = wrap_dim(args[1].to_int(), self.dim() + 1);
  if (d == 0)
    failf("unsqueeze(): For nested tensors, unsqueezing dimension 0 is not supported at the moment{}",
          please);
  results[0] = Value(changed(self, [&](int64_t, auto& sizes, auto& strides, int64_t&) {
    const auto rank = static_cast<int64_t>(sizes.size());
    int64_t stride = d - 1 < rank ? *at(sizes, d - 1) * *at(strides, d - 1) : 1;
    sizes.insert(at(sizes, d - 1), 1);
    strides.insert(at(strides, d - 1), stride);
  }));
}

void squeeze_rule(const Op& op, const Arg* args, Value* results) {
  const Tensor& self = args[0].tensor();
  if (op.arity == 1)
    failf(
        "squeeze(): For nested tensors, squeeze without the dim argument is not supported at the moment, "
        "however "
        "you can use squeeze(Tensor self, int dim) instead{}",
        please);
  if (args[1].kind == ArgKind::ints) refuse(op);
  int64_t d = wrap_dim(args[1].to_int(), self.dim());
  if (d == 0)
    failf("squeeze(): For nested tensors, squeezing dimension 0 is not supported at the moment{}", please);
  if (common_size(self, d) != 1) {
    results[0] = Value(self);
    return;
  }
  if (self.dim() == 2)
    fail(
        "squeeze(): For nested tensors, squeezing a nested tensor of singleton tensors is not supported at "
        "the "
        "moment, if you need this feature, please open an issue on githubdescribing your use case.");
  results[0] = Value(changed(self, [&](int64_t, auto& sizes, auto& strides, int64_t&) {
    sizes.erase(at(sizes, d - 1));
    strides.erase(at(strides, d - 1));
  }));
}

void select_rule(const Op&, const Arg* args, Value* results) {
  const Tensor& self = args[0].tensor();
  int64_t d = wrap_dim(args[1].to_int(), self.dim()), index = args[2].sym().guard_int();
  auto wrapped = [&](int64_t size, const std::string& where) {
    if (index < -size || index >= size)
      failf(ErrorKind::index, "index {} is out of bounds for dimension {} with size {}", index, where, size);
    return index < 0 ? index + size : index;
  };
  if (d == 0) {
    results[0] = Value(part(self, wrapped(nesting_of(self).count, "0")));
    return;
  }
  results[0] = Value(changed(self, [&](int64_t i, auto& sizes, auto& strides, int64_t& offset) {
    offset += wrapped(*at(sizes, d - 1), fmt::format("{} of the {}th constituent tensor", d - 1, i)) *
              *at(strides, d - 1);
    sizes.erase(at(sizes, d - 1));
    strides.erase(at(strides, d - 1));
  }));
}

void unbind_rule(const Op&, const Arg* args, Value* results) {
  const Tensor& self = args[0].tensor();
  int64_t d = wrap_dim(args[1].to_int(), self.dim());
  if (d != 0) failf("NestedTensor can only be unbound along dimension 0 got dimension {} instead.", d);
  results[0] = Value(parts(self));
}

void narrow_rule(const Op& op, const Arg* args, Value* results) {
  const Tensor& self = args[0].tensor();
  if (args[2].kind != ArgKind::int_) refuse(op);
  int64_t d = wrap_dim(args[1].to_int(), self.dim());
  if (d != 0) failf("narrow(): only dim=0 supported for nested tensors, but got: {}", d);
  const Nesting& n = nesting_of(self);
  int64_t start = args[2].sym().guard_int(), length = args[3].sym().guard_int();
  if (length < 0) fail("narrow(): length must be non-negative.");
  if (start < -n.count || start > n.count)
    failf(ErrorKind::index, "start out of range (expected to be in range of [{}, {}], but got {})", -n.count,
          n.count, start);
  if (start < 0) start += n.count;
  if (start + length > n.count)
    failf("start ({}) + length ({}) exceeds dimension size ({}).", start, length, n.count);
  Nesting to;
  to.count = length;
  to.rank = n.rank;
  to.buffer = n.buffer;
  to.sizes.assign(at(n.sizes, start * n.rank), at(n.sizes, (start + length) * n.rank));
  to.strides.assign(at(n.strides, start * n.rank), at(n.strides, (start + length) * n.rank));
  to.offsets.assign(at(n.offsets, start), at(n.offsets, start + length));
  results[0] = Value(view(self, checked_nesting(std::move(to))));
}

// ---- other sizes for the same elements ----

// What `asked` means for each tensor: -1 is the size that dimension had; nothing is inferred.
std::vector<std::vector<int64_t>> sizes_asked(const Tensor& self, Span<const SymInt> asked, const char* op) {
  const Nesting& n = nesting_of(self);
  if (asked.size() == 0) failf("shape '{}' is invalid for a nested tensor", str(asked));
  if (!n.count) fail("empty nested tensor cannot be reshaped");
  if (asked[0].guard_int() != n.count)
    failf("{}: For now nested {} cannot change or infer the implicit batch dimension", op, op);
  const auto rank = static_cast<int64_t>(asked.size()) - 1;
  std::vector<std::vector<int64_t>> all;
  for (int64_t i = 0; i < n.count; ++i) {
    std::vector<int64_t> sizes;
    int64_t total = 1, kept = 0;
    for (int64_t d = 0; d < rank; ++d) {
      int64_t size = asked[static_cast<size_t>(d + 1)].guard_int();
      if (size < -1) failf("invalid shape dimension {}", size);
      if (size == -1) {
        if (d >= n.rank) fail("nested tensor does not infer shape");
        if (++kept > 1 && rank > n.rank) fail("only one dimension can be inferred");
        size = n.sizes_of(i)[static_cast<size_t>(d)];
      }
      if (__builtin_mul_overflow(total, size, &total)) total = -1;
      sizes.push_back(size);
    }
    if (total != n.numel_of(i))
      failf("shape '{}' is invalid for input of size {}", str(asked), n.numel_of(i));
    all.push_back(std::move(sizes));
  }
  return all;
}

// The strides under which the same memory has other sizes; empty: there are none.
std::optional<std::vector<int64_t>> strides_for(Span<const int64_t> sizes, Span<const int64_t> strides,
                                                const std::vector<int64_t>& wanted) {
  Dims s, st;
  int64_t numel = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    s.push_back(sizes[d]);
    st.push_back(strides[d]);
    numel *= sizes[d];
  }
  std::vector<int64_t> out(wanted.size());
  if (numel == 0) {
    int64_t step = 1;
    for (size_t d = wanted.size(); d-- > 0; step *= std::max<int64_t>(wanted[d], 1)) out[d] = step;
    return out;
  }
  // Old dimensions in runs that lie one inside the other; each run is a product of new dimensions.
  auto d = static_cast<std::ptrdiff_t>(wanted.size()) - 1;
  int64_t step = sizes.size() ? strides[sizes.size() - 1] : 1, have = 1, used = 1;
  for (size_t k = sizes.size(); k-- > 0;) {
    have *= sizes[k];
    if (k == 0 || (sizes[k - 1] != 1 && strides[k - 1] != have * step)) {
      while (d >= 0 && (used < have || wanted[static_cast<size_t>(d)] == 1)) {
        out[static_cast<size_t>(d)] = used * step;
        used *= wanted[static_cast<size_t>(d)];
        --d;
      }
      if (used != have) return std::nullopt;
      if (k > 0) {
        step = strides[k - 1];
        have = used = 1;
      }
    }
  }
  for (; d >= 0; --d) out[static_cast<size_t>(d)] = 1;
  return out;
}

std::optional<Tensor> viewed(const Tensor& self, const std::vector<std::vector<int64_t>>& wanted) {
  const Nesting& n = nesting_of(self);
  std::vector<std::vector<int64_t>> strides;
  for (int64_t i = 0; i < n.count; ++i) {
    auto found = strides_for(n.sizes_of(i), n.strides_of(i), wanted[static_cast<size_t>(i)]);
    if (!found) return std::nullopt;
    strides.push_back(std::move(*found));
  }
  return changed(self, [&](int64_t i, auto& sizes, auto& st, int64_t&) {
    sizes = wanted[static_cast<size_t>(i)];
    st = strides[static_cast<size_t>(i)];
  });
}

void view_rule(const Op& op, const Arg* args, Value* results) {
  if (args[1].kind != ArgKind::ints) refuse(op);  // view.dtype
  const Tensor& self = args[0].tensor();
  std::optional<Tensor> found = viewed(self, sizes_asked(self, args[1].syms(), "view"));
  if (!found)
    fail(
        "view size is not compatible with input tensor's size and stride (at least one dimension spans "
        "across two "
        "contiguous subspaces). Use .reshape(...) instead.");
  results[0] = Value(std::move(*found));
}
Tensor reshaped(const Tensor& self, const std::vector<std::vector<int64_t>>& wanted) {
  if (std::optional<Tensor> found = viewed(self, wanted)) return *found;
  return *viewed(clone(self, MemoryFormat::contiguous), wanted);
}
void reshape_rule(const Op&, const Arg* args, Value* results) {
  const Tensor& self = args[0].tensor();
  results[0] = Value(reshaped(self, sizes_asked(self, args[1].syms(), "reshape")));
}
void reshape_as_rule(const Op&, const Arg* args, Value* results) {
  const Tensor &self = args[0].tensor(), &other = args[1].tensor();
  if (!self.is_nested() || !other.is_nested()) fail("reshape_as: both tensors must be nested, or none");
  const Nesting &n = nesting_of(self), &to = nesting_of(other);
  if (n.count != to.count)
    fail("reshape: For now nested reshape cannot change or infer the implicit batch dimension");
  std::vector<std::vector<int64_t>> wanted;
  for (int64_t i = 0; i < n.count; ++i) {
    if (n.numel_of(i) != to.numel_of(i))
      failf("reshape_as: tensor {} has {} elements, and the other's has {}", i, n.numel_of(i),
            to.numel_of(i));
    wanted.push_back(to.sizes_of(i).vec());
  }
  results[0] = Value(reshaped(self, wanted));
}

// ---- pieces of the last dimension ----

std::vector<Tensor> pieces(const Tensor& self, const std::vector<int64_t>& lengths) {
  std::vector<Tensor> all;
  int64_t start = 0;
  for (int64_t length : lengths) {
    all.push_back(changed(self, [&](int64_t, auto& sizes, auto& strides, int64_t& offset) {
      offset += start * strides.back();
      sizes.back() = length;
    }));
    start += length;
  }
  return all;
}

void chunk_rule(const Op&, const Arg* args, Value* results) {
  const Tensor& self = args[0].tensor();
  int64_t chunks = args[1].to_int(), d = wrap_dim(args[2].to_int(), self.dim());
  if (d != self.dim() - 1 || d == 0)
    fail("Chunk for nested tensors is currently only supported for the last dimension.");
  if (chunks <= 0) failf("chunk expects `chunks` to be greater than 0, got: {}", chunks);
  if (!self.is_contiguous()) fail("chunk expects `self` to be contiguous.");
  int64_t last = self.size(d).as_int();
  if (last % chunks)
    failf(
        "Chunk for nested tensors is only supported for nested tensors with trailing dimension divisible by "
        "chunks, got: {} % {} != 0",
        last, chunks);
  results[0] = Value(pieces(self, std::vector<int64_t>(static_cast<size_t>(chunks), last / chunks)));
}
void split_with_sizes_rule(const Op&, const Arg* args, Value* results) {
  const Tensor& self = args[0].tensor();
  int64_t d = wrap_dim(args[2].to_int(), self.dim()), total = 0;
  if (d != self.dim() - 1 || d == 0)
    fail("split_with_sizes for nested tensors is currently only supported for the last dimension.");
  if (!self.is_contiguous()) fail("split_with_sizes expects `self` to be contiguous.");
  std::vector<int64_t> lengths;
  for (SymInt s : args[1].syms()) {
    lengths.push_back(s.guard_int());
    if (lengths.back() < 0)
      failf("split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={}",
            str(args[1].syms()));
    total += lengths.back();
  }
  int64_t last = self.size(d).as_int();
  if (total != last)
    failf(
        "split_with_sizes expects split_sizes to sum exactly to {} (input tensor's size at dimension {}), "
        "but got "
        "split_sizes={}",
        last, d, str(args[1].syms()));
  results[0] = Value(pieces(self, lengths));
}

}  // namespace

Rules view_rules() {
  return {{"transpose", transpose_rule}, {"unsqueeze", unsqueeze_rule},
          {"squeeze", squeeze_rule},     {"select", select_rule},
          {"unbind", unbind_rule},       {"narrow", narrow_rule},
          {"view", view_rule},           {"_unsafe_view", view_rule},
          {"reshape", reshape_rule},     {"reshape_as", reshape_as_rule},
          {"chunk", chunk_rule},         {"split_with_sizes", split_with_sizes_rule}};
}

}  // namespace tern::nested
