// einsum: each operand's letters become dims of one common order; then operands are contracted two by two,
// each pair as one batched product.
#include <algorithm>
#include <string>

#include "tern/base/format.h"
#include "tern/ops.h"
#include "tern/ops/formulas.h"
#include "tern/ops/linear.args.h"

namespace tern {
namespace {

// A letter is its own label; the dims that "..." stands for are labelled 256, 257, ... counted from the
// right.
using Labels = std::vector<int>;
constexpr int first_ellipsis = 256;

struct Equation {
  std::vector<std::string> inputs;
  std::string output;
  bool explicit_output = false;
};

Equation parse(std::string_view text) {
  Equation e;
  std::string clean;
  for (char c : text)
    if (c != ' ') clean += c;
  size_t arrow = clean.find("->");
  e.explicit_output = arrow != std::string::npos;
  if (e.explicit_output) e.output = clean.substr(arrow + 2);
  std::string left = clean.substr(0, arrow), part;
  for (char c : left) {
    if (c == ',') {
      e.inputs.push_back(part);
      part.clear();
    } else {
      part += c;
    }
  }
  e.inputs.push_back(part);
  return e;
}

// The labels of a subscript for `ndim` dims (-1: as many as the ellipsis dims say).
Labels labels_of(const std::string& subscript, int64_t ndim, int64_t ellipsis_dims, const char* what) {
  int64_t letters = 0;
  bool dots = false;
  for (size_t i = 0; i < subscript.size(); ++i) {
    if (subscript[i] == '.') {
      if (dots || subscript.compare(i, 3, "...") != 0)
        failf("einsum(): found '.' for {} that is not part of any ellipsis", what);
      dots = true;
      i += 2;
    } else if (!isalpha(static_cast<unsigned char>(subscript[i]))) {
      failf("einsum(): invalid subscript given for {}, subscripts must be in [a-zA-Z]", what);
    } else {
      ++letters;
    }
  }
  int64_t count = ndim >= 0 ? ndim - letters : dots ? ellipsis_dims : 0;
  if (ndim >= 0 && (dots ? count < 0 : count != 0))
    failf(
        "einsum(): the number of subscripts in the equation ({}) does not match the number of dimensions "
        "({}) for {}{}",
        letters, ndim, what, dots ? "" : " and no ellipsis was given");
  Labels labels;
  for (size_t i = 0; i < subscript.size(); ++i) {
    if (subscript[i] != '.') {
      labels.push_back(static_cast<unsigned char>(subscript[i]));
      continue;
    }
    for (int64_t k = count; k-- > 0;) labels.push_back(first_ellipsis + static_cast<int>(k));
    i += 2;
  }
  return labels;
}

bool has(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

// Repeated letters become their diagonal.
Tensor without_repeats(Tensor t, Labels& labels) {
  for (size_t i = 0; i < labels.size(); ++i)
    for (size_t k = i + 1; k < labels.size();) {
      if (labels[k] != labels[i]) {
        ++k;
        continue;
      }
      if (t.sizes()[i] != t.sizes()[k])
        failf("einsum(): subscript {} is repeated for an operand but the sizes don't match, {} != {}",
              std::string(1, static_cast<char>(labels[i])), t.sizes()[k].str(), t.sizes()[i].str());
      t = movedim(diagonal(t, 0, static_cast<int64_t>(i), static_cast<int64_t>(k)), -1,
                  static_cast<int64_t>(i));
      labels.erase(labels.begin() + static_cast<std::ptrdiff_t>(k));
    }
  return t;
}

Tensor sum_out(Tensor t, Labels& labels, const Labels& kept) {
  SmallVector<int64_t, 6> dims;
  Labels rest;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (has(kept, labels[i]))
      rest.push_back(labels[i]);
    else
      dims.push_back(static_cast<int64_t>(i));
  }
  if (!dims.empty()) t = sum(t, Ints(dims));
  labels = rest;
  return t;
}

// t's dims in the order of `wanted`; a label it does not have becomes a dim of size one.
Tensor arrange(const Tensor& t, const Labels& labels, const Labels& wanted) {
  SmallVector<int64_t, 6> order;
  for (int label : wanted)
    for (size_t i = 0; i < labels.size(); ++i)
      if (labels[i] == label) order.push_back(static_cast<int64_t>(i));
  Tensor result = permute(t, Ints(order));
  for (size_t i = 0; i < wanted.size(); ++i)
    if (!has(labels, wanted[i])) result = unsqueeze(result, static_cast<int64_t>(i));
  return result;
}

// One product of two operands; labels in neither `kept` are summed over.
Tensor contract(const Tensor& a, Labels la, const Tensor& b, Labels lb, const Labels& kept, Labels& result) {
  Tensor x = a, y = b;
  Labels kept_a = kept, kept_b = kept;
  kept_a.insert(kept_a.end(), lb.begin(), lb.end());
  kept_b.insert(kept_b.end(), la.begin(), la.end());
  x = sum_out(x, la, kept_a);
  y = sum_out(y, lb, kept_b);
  if (x.dtype() != y.dtype()) {  // a sum of small integers is int64
    DType common = promote(x.dtype(), y.dtype());
    x = to(x, common);
    y = to(y, common);
  }
  Labels both, left, right, summed;
  for (int label : la) (!has(lb, label) ? left : has(kept, label) ? both : summed).push_back(label);
  for (int label : lb)
    if (!has(la, label)) right.push_back(label);
  Labels order_a = both, order_b = both;
  for (const Labels* part : {&left, &summed}) order_a.insert(order_a.end(), part->begin(), part->end());
  for (const Labels* part : {&summed, &right}) order_b.insert(order_b.end(), part->begin(), part->end());
  x = arrange(x, la, order_a);
  y = arrange(y, lb, order_b);
  auto size = [](const Tensor& t, size_t from, size_t count) {
    return product(Span<const SymInt>(t.sizes().data() + from, count));
  };
  // A dim of size one meets any size.
  Dims wide_a(x.sizes()), wide_b(y.sizes());
  size_t nb = both.size(), nl = left.size(), ns = summed.size();
  auto agree = [&](size_t i, size_t k) {
    if (surely_eq(wide_a[i], 1))
      wide_a[i] = wide_b[k];
    else if (surely_eq(wide_b[k], 1))
      wide_b[k] = wide_a[i];
    else if (wide_a[i] != wide_b[k])
      failf("einsum(): operands do not broadcast with remapped shapes [original->remapped]: {} {}",
            str(a.sizes()), str(b.sizes()));
  };
  for (size_t i = 0; i < nb; ++i) agree(i, i);
  for (size_t i = 0; i < ns; ++i) agree(nb + nl + i, nb + i);
  x = expand(x, wide_a);
  y = expand(y, wide_b);
  Dims shape(Span<const SymInt>(wide_a.data(), nb + nl));
  for (size_t i = 0; i < right.size(); ++i) shape.push_back(wide_b[nb + ns + i]);
  SymInt batch = size(x, 0, nb), rows = size(x, nb, nl), inside = size(x, nb + nl, ns),
         columns = size(y, nb + ns, right.size());
  Tensor flat_x = reshape(x, {batch, rows, inside}), flat_y = reshape(y, {batch, inside, columns});
  // Where nothing is summed every type can be multiplied, bool included.
  Tensor product = ns == 0 ? mul(flat_x, flat_y) : bmm(flat_x, flat_y);
  result = both;
  result.insert(result.end(), left.begin(), left.end());
  result.insert(result.end(), right.begin(), right.end());
  return view(product, shape);
}

}  // namespace

Tensor body_einsum(const args::einsum& a) {
  if (a.tensors.empty()) fail("einsum(): must provide at least one operand");
  Equation e = parse(a.equation);
  if (e.inputs.size() != a.tensors.size())
    failf("einsum(): {} operands were provided than specified in the equation",
          e.inputs.size() > a.tensors.size() ? "fewer" : "more");
  std::vector<Labels> labels;
  std::vector<Tensor> operands;
  int most = 0;
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    std::string what = "operand " + std::to_string(i);
    Labels l = labels_of(e.inputs[i], a.tensors[i].dim(), 0, what.c_str());
    for (int label : l) most = std::max(most, label - first_ellipsis + 1);
    operands.push_back(without_repeats(a.tensors[i], l));
    labels.push_back(std::move(l));
  }
  Labels output;
  if (e.explicit_output) {
    output = labels_of(e.output, -1, most, "the output");
    for (size_t i = 0; i < output.size(); ++i) {
      bool known =
          std::any_of(labels.begin(), labels.end(), [&](const Labels& l) { return has(l, output[i]); });
      std::string letter(1, static_cast<char>(output[i]));
      if (!known)
        failf("einsum(): output subscript {} does not appear in the equation for any input operand", letter);
      if (std::count(output.begin(), output.end(), output[i]) > 1)
        failf("einsum(): output subscript {} appears more than once in the output", letter);
    }
  } else {
    for (int k = most; k-- > 0;) output.push_back(first_ellipsis + k);
    for (int c = 'A'; c <= 'z'; ++c) {
      int64_t times = 0;
      for (const std::string& s : e.inputs) times += std::count(s.begin(), s.end(), static_cast<char>(c));
      if (isalpha(c) && times == 1) output.push_back(c);
    }
  }
  Tensor result = operands[0];
  Labels current = labels[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    Labels kept = output;
    for (size_t k = i + 1; k < operands.size(); ++k)
      kept.insert(kept.end(), labels[k].begin(), labels[k].end());
    Labels next;
    result = contract(result, current, operands[i], labels[i], kept, next);
    current = next;
  }
  result = sum_out(result, current, output);
  return arrange(result, current, output);
}

}  // namespace tern
