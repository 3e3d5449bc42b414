#include "tern/tensor/nesting.h"

#include "tern/base/format.h"

namespace tern {

int64_t Nesting::numel_of(int64_t i) const {
  int64_t n = 1;
  for (int64_t s : sizes_of(i)) n *= s;
  return n;
}
int64_t Nesting::numel() const {
  int64_t n = 0;
  for (int64_t i = 0; i < count; ++i) n += numel_of(i);
  return n;
}

namespace {

// Row-major strides of each tensor; false when a product overflows.
bool fill_strides(Nesting& n) {
  n.strides.resize(n.sizes.size());
  for (int64_t i = 0; i < n.count; ++i) {
    int64_t step = 1;
    for (int64_t d = n.rank; d-- > 0;) {
      auto at = static_cast<size_t>(i * n.rank + d);
      n.strides[at] = step;
      if (__builtin_mul_overflow(step, std::max<int64_t>(n.sizes[at], 1), &step)) return false;
    }
  }
  return true;
}

// A dimension of size one may have any stride, a tensor without elements any place.
bool is_packed(const Nesting& n) {
  int64_t at = 0;
  for (int64_t i = 0; i < n.count; ++i) {
    if (n.offsets[static_cast<size_t>(i)] != at && n.numel_of(i)) return false;
    int64_t step = 1;
    for (int64_t d = n.rank; d-- > 0;) {
      int64_t size = n.sizes_of(i)[static_cast<size_t>(d)];
      if (size > 1 && n.strides_of(i)[static_cast<size_t>(d)] != step && n.numel_of(i)) return false;
      step *= size;
    }
    at += step;
  }
  return at == n.buffer;
}

}  // namespace

NestingPtr packed_nesting(int64_t count, int64_t rank, std::vector<int64_t> sizes) {
  auto n = new_shared<Nesting>();
  n->count = count;
  n->rank = rank;
  n->sizes = std::move(sizes);
  if (!fill_strides(*n)) fail("a nested tensor: the number of elements overflows");
  for (int64_t i = 0; i < count; ++i) {
    n->offsets.push_back(n->buffer);
    n->buffer += n->numel_of(i);
  }
  return n;
}

NestingPtr checked_nesting(Nesting n) {
  if (n.sizes.size() != static_cast<size_t>(n.count * n.rank) || n.strides.size() != n.sizes.size() ||
      n.offsets.size() != static_cast<size_t>(n.count))
    failf("a nested tensor of {} tensors has {} sizes, {} strides and {} offsets for {} dimensions each",
          n.count, n.sizes.size(), n.strides.size(), n.offsets.size(), n.rank);
  int64_t total = 0;
  for (int64_t i = 0; i < n.count; ++i) {
    int64_t last = n.offsets[static_cast<size_t>(i)], elements = 1;
    bool fits = last >= 0;
    for (int64_t d = 0; d < n.rank && fits; ++d) {
      int64_t size = n.sizes_of(i)[static_cast<size_t>(d)], stride = n.strides_of(i)[static_cast<size_t>(d)],
              step;
      fits = size >= 0 && stride >= 0 && !__builtin_mul_overflow(elements, size, &elements) &&
             (size == 0 || (!__builtin_mul_overflow(size - 1, stride, &step) &&
                            !__builtin_add_overflow(last, step, &last)));
    }
    if (!fits || (elements && last >= n.buffer) || __builtin_add_overflow(total, elements, &total))
      failf("a nested tensor: tensor {} reaches out of its buffer of {} elements", i, n.buffer);
  }
  n.contiguous = is_packed(n);
  return new_shared<const Nesting>(std::move(n));
}

const Nesting& nesting_of(const Tensor& t) {
  if (!t.defined() || !t.is_nested()) fail("get_nested_tensor_impl requires a NestedTensor.");
  return static_cast<const Nesting&>(*t->meaning);
}
NestingPtr nesting_ptr(const Tensor& t) { return {t->meaning, &nesting_of(t)}; }

Tensor nested_over(const Tensor& buffer, const NestingPtr& nesting) {
  const Nesting& n = *nesting;
  // What all have in common, and -1 where they differ.
  Dims sizes{SymInt(n.count)};
  if (n.count)
    for (int64_t d = 0; d < n.rank; ++d) {
      int64_t size = n.sizes[static_cast<size_t>(d)];
      for (int64_t i = 1; i < n.count; ++i)
        if (n.sizes_of(i)[static_cast<size_t>(d)] != size) size = -1;
      sizes.push_back(size);
    }
  Dims strides(sizes.size(), SymInt(0));
  Tensor t = buffer.as_view(Dims{SymInt(0)}, Dims{SymInt(1)});
  Tensor::adopt(std::exchange(t->base, nullptr));
  t->sizes = std::move(sizes);
  t->strides = std::move(strides);
  t->numel = n.numel();
  t->contiguous = n.contiguous;
  t->meaning = nesting;
  t->rungs |= rung_meaning;
  return t;
}

Tensor buffer_of(const Tensor& t) {
  const Nesting& n = nesting_of(t);
  Tensor buffer = t.shallow_copy();
  buffer->meaning.reset();
  buffer->rungs &= static_cast<uint8_t>(~rung_meaning);
  return buffer.as_view(Dims{SymInt(n.buffer)}, Dims{SymInt(1)}).shallow_copy();
}

Tensor part_of(const Tensor& t, int64_t i) {
  const Nesting& n = nesting_of(t);
  Dims sizes, strides;
  for (int64_t s : n.sizes_of(i)) sizes.push_back(s);
  for (int64_t s : n.strides_of(i)) strides.push_back(s);
  return buffer_of(t)
      .as_view(std::move(sizes), std::move(strides), t.offset() + SymInt(n.offsets[static_cast<size_t>(i)]))
      .shallow_copy();
}

void check_not_nested(const Tensor& t, std::string_view who) {
  if (t.defined() && t.is_nested())
    failf(ErrorKind::not_supported,
          "{}: a nested tensor is not supported here: use to_padded_tensor(), or its tensors one by one "
          "(unbind())",
          who);
}
void refuse_sizes() { fail("Internal error: NestedTensorImpl doesn't support sizes. Please file an issue."); }

}  // namespace tern
