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

// t with a dim for every label of `all`, in that order; one that it does not have gets size one.
Tensor arrange(Tensor t, Labels labels, const Labels& all) {
  SmallVector<int64_t, 6> order;
  for (int label : all) {
    auto at = std::find(labels.begin(), labels.end(), label);
    order.push_back(at - labels.begin());
    if (at != labels.end()) continue;
    t = unsqueeze(t, t.dim());
    labels.push_back(label);
  }
  return permute(t, Ints(order));
}

bool is_one(const Tensor& t, int64_t d) { return surely_eq(t.sizes()[static_cast<size_t>(d)], 1); }

// The product of two arranged operands, summed over the dims that are `done`, which stay with size one: one
// product of matrices. Dims of size one meet any size. The first `outputs` dims are those of the result.
Tensor contract(Tensor x, Tensor y, const std::vector<bool>& done, int64_t outputs) {
  SmallVector<int64_t, 6> of_x, of_y, both, left, right, summed;
  for (int64_t d = 0; d < x.dim(); ++d) {
    bool in_x = !is_one(x, d), in_y = !is_one(y, d), gone = done[static_cast<size_t>(d)];
    if (in_x && in_y && x.sizes()[d] != y.sizes()[d])
      failf("einsum(): operands do not broadcast with remapped shapes [original->remapped]: {} {}",
            str(x.sizes()), str(y.sizes()));
    if (gone && in_x && in_y) summed.push_back(d);
    if (gone && in_x != in_y) (in_x ? of_x : of_y).push_back(d);
  }
  if (!of_x.empty()) x = sum(x, Ints(of_x), true);
  if (!of_y.empty()) y = sum(y, Ints(of_y), true);
  if (x.dtype() != y.dtype()) {  // a sum of small integers is int64
    DType common = promote(x.dtype(), y.dtype());
    x = to(x, common);
    y = to(y, common);
  }
  if (summed.empty()) return x * y;
  // The operand with the result's first dim is the left one.
  for (int64_t d = 0; d < outputs; ++d) {
    if (is_one(x, d) == is_one(y, d)) continue;
    if (is_one(x, d)) std::swap(x, y);
    break;
  }
  SymInt batch = 1, rows = 1, inside = 1, columns = 1;
  for (int64_t d = 0; d < x.dim(); ++d) {
    SymInt m = x.sizes()[d], n = y.sizes()[d];
    if (std::find(summed.begin(), summed.end(), d) != summed.end()) {
      inside *= m;
    } else if (is_one(x, d)) {
      right.push_back(d);
      columns *= n;
    } else if (is_one(y, d)) {
      left.push_back(d);
      rows *= m;
    } else {
      both.push_back(d);
      batch *= m;
    }
  }
  SmallVector<int64_t, 6> order_x, order_y, back(static_cast<size_t>(x.dim()), 0);
  for (const auto* part : {&both, &left, &summed, &right})
    for (int64_t d : *part) order_x.push_back(d);
  for (const auto* part : {&both, &summed, &right, &left})
    for (int64_t d : *part) order_y.push_back(d);
  Dims sizes;
  for (size_t i = 0; i < order_x.size(); ++i) {
    int64_t d = order_x[i];
    back[static_cast<size_t>(d)] = static_cast<int64_t>(i);
    bool gone = std::find(summed.begin(), summed.end(), d) != summed.end();
    sizes.push_back(gone ? SymInt(1) : is_one(x, d) ? y.sizes()[d] : x.sizes()[d]);
  }
  Tensor flat_x = reshape(permute(x, Ints(order_x)), {batch, rows, inside}),
         flat_y = reshape(permute(y, Ints(order_y)), {batch, inside, columns});
  return permute(view(bmm(flat_x, flat_y), sizes), Ints(back));
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
  // The result's labels, then those to be summed over: an ellipsis and letters in their order.
  Labels all = output;
  for (int k = most; k-- > 0;)
    if (!has(all, first_ellipsis + k)) all.push_back(first_ellipsis + k);
  for (int c = 'A'; c <= 'z'; ++c)
    if (!has(all, c) && std::any_of(labels.begin(), labels.end(), [&](const Labels& l) { return has(l, c); }))
      all.push_back(c);
  int64_t outputs = static_cast<int64_t>(output.size()), dims = static_cast<int64_t>(all.size());
  for (size_t i = 0; i < operands.size(); ++i) operands[i] = arrange(operands[i], labels[i], all);
  Tensor result = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    std::vector<bool> done(all.size());
    for (size_t d = output.size(); d < all.size(); ++d)
      done[d] = std::none_of(labels.begin() + static_cast<int64_t>(i) + 1, labels.end(),
                             [&](const Labels& l) { return has(l, all[d]); });
    result = contract(result, operands[i], done, outputs);
  }
  if (outputs == dims) return result;
  if (operands.size() > 1)
    return view(result, Dims(Span<const SymInt>(result.sizes().data(), output.size())));
  SmallVector<int64_t, 6> rest;
  for (int64_t d = outputs; d < dims; ++d) rest.push_back(d);
  return sum(result, Ints(rest));
}

}  // namespace tern
