#include "tern/runtime/layout.h"

#include <algorithm>

namespace tern::runtime {
namespace {

struct Hole {
  size_t offset, bytes;
};

// Holes in the order of their offsets; neighbours are one.
class Holes {
 public:
  // The offset of a block; `end` grows where no hole holds it.
  size_t take(size_t bytes, size_t& end) {
    auto best = holes_.end();
    for (auto it = holes_.begin(); it != holes_.end(); ++it)
      if (it->bytes >= bytes && (best == holes_.end() || it->bytes < best->bytes)) best = it;
    if (best == holes_.end()) {
      end += bytes;
      return end - bytes;
    }
    const size_t at = best->offset;
    best->offset += bytes;
    best->bytes -= bytes;
    if (!best->bytes) holes_.erase(best);
    return at;
  }
  void give(Hole freed) {
    auto at = std::lower_bound(holes_.begin(), holes_.end(), freed,
                               [](const Hole& a, const Hole& b) { return a.offset < b.offset; });
    at = holes_.insert(at, freed);
    if (auto next = at + 1; next != holes_.end() && at->offset + at->bytes == next->offset) {
      at->bytes += next->bytes;
      holes_.erase(next);
    }
    if (at != holes_.begin() && (at - 1)->offset + (at - 1)->bytes == at->offset) {
      (at - 1)->bytes += at->bytes;
      holes_.erase(at);
    }
  }

 private:
  std::vector<Hole> holes_;
};

size_t rounded(size_t n) { return (std::max<size_t>(n, 1) + 63) & ~size_t{63}; }

}  // namespace

Layout lay_out(Span<const Life> lives) {
  size_t steps = 0;
  for (const Life& l : lives) steps = std::max(steps, l.last + 1);
  std::vector<std::vector<size_t>> begins(steps), ends(steps);
  for (size_t i = 0; i < lives.size(); ++i) {
    begins[lives[i].first].push_back(i);
    ends[lives[i].last].push_back(i);
  }
  Layout layout;
  layout.offsets.resize(lives.size());
  Holes holes;
  for (size_t step = 0; step < steps; ++step) {
    for (size_t i : begins[step]) layout.offsets[i] = holes.take(rounded(lives[i].bytes), layout.bytes);
    for (size_t i : ends[step]) holes.give({layout.offsets[i], rounded(lives[i].bytes)});
  }
  return layout;
}

}  // namespace tern::runtime
