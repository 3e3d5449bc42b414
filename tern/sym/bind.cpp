// Dims → symbols: which roots there are, what the example says of them, and what does not fit.
#include <algorithm>

#include "tern/base/format.h"
#include "tern/sym/solver.h"

namespace tern {

DynamicDims::DynamicDims(ShapeEnv& env, std::vector<InputDim> inputs, Loc loc)
    : env_(&env), inputs_(std::move(inputs)) {
  find_roots();
  create_symbols(loc);
}

DynamicDims::Root& DynamicDims::root_of(const Dim& dim) { return roots_[root_index_.at(dim.root_name())]; }

void DynamicDims::find_roots() {
  for (const InputDim& in : inputs_) {
    if (in.hint < 0) failf(ErrorKind::value, "{} = {} is no size", in.source, in.hint);
    if (in.spec.kind() != Dim::Kind::named) continue;
    Dim root = in.spec.root();
    auto [at, is_new] = root_index_.emplace(root.root_name(), roots_.size());
    if (is_new) roots_.push_back({root, {}, 0, 0});
    Root& known = roots_[at->second];
    if (!(known.dim == root))
      failf(ErrorKind::value, "Found different definitions {} and {} for the same symbolic dimension {}!",
            known.dim.str(), root.str(), root.str());
    Range range = in.spec.range();
    Range assumed = in.hint < 2 ? range : intersect(range, {2});
    if (!assumed.contains(in.hint))
      failf(ErrorKind::value, "{} not in range {}, for {}", in.hint, assumed.str(), in.source);
    if (!in.spec.is_derived() && known.source.empty()) {
      known.source = in.source;
      known.hint = in.hint;
    }
  }
  // A root that no input dim is: its value follows from the first dim derived from it.
  for (Root& root : roots_) {
    if (!root.source.empty()) continue;
    for (const InputDim& in : inputs_) {
      if (in.spec.kind() != Dim::Kind::named || in.spec.root_name() != root.dim.root_name()) continue;
      int64_t rest = in.hint - in.spec.offset();
      if (rest % in.spec.scale() != 0)
        failf(ErrorKind::value,
              "Expected shape[{}] = {} of input Tensor to be of the form {}, where {} is an integer ({})",
              in.dim, in.hint, in.spec.name(), root.dim.root_name(), in.source);
      root.hint = rest / in.spec.scale();
      break;
    }
  }
  for (const InputDim& in : inputs_) {
    if (in.spec.kind() != Dim::Kind::named) continue;
    const Root& root = root_of(in.spec);
    if (in.hint == root.hint * in.spec.scale() + in.spec.offset()) continue;
    if (!in.spec.is_derived())
      failf(ErrorKind::value, "{} = {} is not equal to {} = {}, but both are {}", in.source, in.hint,
            root.source, root.hint, in.spec.name());
    failf(ErrorKind::value, "Expected input {} to be equal to {}, where {} = {}, but got {}", in.source,
          in.spec.name(), in.spec.root_name(), root.hint, in.hint);
  }
}

// Names by order of the input dims; a derived dim takes a number too, roots that stand in no input come last.
void DynamicDims::create_symbols(Loc loc) {
  auto create = [&](Root& root, bool bound) {
    SymbolOptions options;
    options.display_name = root.dim.root_name();
    options.declared = root.dim.root_range();
    options.specialize_zero_one = bound || root.hint >= 2;
    root.value = env_->create_symbol(root.hint, root.source, std::move(options), loc);
  };
  std::vector<bool> made(roots_.size(), false);
  for (InputDim& in : inputs_) {
    switch (in.spec.kind()) {
      case Dim::Kind::fixed:
        if (in.spec.size() && *in.spec.size() != in.hint)
          failf(ErrorKind::value, "Static shape constraint of {} does not match input size of {}, for {}",
                *in.spec.size(), in.hint, in.source);
        in.size = in.hint;
        break;
      case Dim::Kind::automatic:
      case Dim::Kind::dynamic: {
        SymbolOptions options;
        options.declared = in.spec.root_range();
        in.size = env_->create_symbol(in.hint, in.source, std::move(options), loc);
        break;
      }
      case Dim::Kind::named: {
        size_t index = root_index_.at(in.spec.root_name());
        if (in.spec.is_derived()) {
          if (in.hint > 1) env_->skip_symbol_name();
        } else if (!made[index]) {
          create(roots_[index], true);
          made[index] = true;
        }
        break;
      }
    }
  }
  for (size_t i = 0; i < roots_.size(); ++i)
    if (!made[i]) create(roots_[i], false);
  for (InputDim& in : inputs_)
    if (in.spec.kind() == Dim::Kind::named)
      in.size = root_of(in.spec).value * in.spec.scale() + in.spec.offset();
}

}  // namespace tern
