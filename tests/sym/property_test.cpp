// Random expressions, seeded: the canonical form keeps the value, bounds hold, answers are never wrong.
#include <gtest/gtest.h>

#include <random>

#include "tern/base/error.h"
#include "tern/sym/shape_env.h"

namespace tern {
namespace {

// The same expression twice: symbolic, and as numbers at several points.
struct Twin {
  SymInt symbolic;
  std::vector<int64_t> values;
};

class RandomExpressions {
 public:
  RandomExpressions(ShapeEnv& env, unsigned seed) : env_(env), random_(seed) {
    for (int s = 0; s < 3; ++s) {
      int64_t low = pick(2, 6), high = low + pick(1, 12);
      Twin t{env.create_symbol(pick(low, high), "x", {.declared = {low, high}}), {}};
      symbols_.push_back(t);
    }
    for (int p = 0; p < 8; ++p) {
      SymValues v;
      for (Twin& t : symbols_) {
        Range r = env.range(t.symbolic);
        int64_t value = pick(r.min, r.max);
        v.set(t.symbolic, value);
        t.values.push_back(value);
      }
      points_.push_back(v);
    }
  }
  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  const std::vector<SymValues>& points() const { return points_; }

  Twin make(int depth) {
    if (depth == 0 || pick(0, 4) == 0) {
      if (pick(0, 2)) return symbols_[static_cast<size_t>(pick(0, 2))];
      int64_t c = pick(-6, 9);
      return {c, std::vector<int64_t>(points_.size(), c)};
    }
    Twin a = make(depth - 1), b = make(depth - 1);
    switch (pick(0, 6)) {
      case 0:
        return combine(a, b, a.symbolic + b.symbolic, [](int64_t x, int64_t y) { return x + y; });
      case 1:
        return combine(a, b, a.symbolic - b.symbolic, [](int64_t x, int64_t y) { return x - y; });
      case 2:
        return combine(a, b, a.symbolic * b.symbolic, [](int64_t x, int64_t y) { return x * y; });
      case 3:
        return combine(a, b, sym_min(a.symbolic, b.symbolic),
                       [](int64_t x, int64_t y) { return std::min(x, y); });
      case 4:
        return combine(a, b, sym_max(a.symbolic, b.symbolic),
                       [](int64_t x, int64_t y) { return std::max(x, y); });
      default: {
        bool by_symbol = pick(0, 3) == 0;  // symbols are never zero
        int64_t k = pick(1, 8) * (pick(0, 3) ? 1 : -1);
        Twin d = by_symbol ? symbols_[static_cast<size_t>(pick(0, 2))]
                           : Twin{k, std::vector<int64_t>(points_.size(), k)};
        if (pick(0, 1)) return combine(a, d, floor_div(a.symbolic, d.symbolic), floor_div_int);
        return combine(a, d, mod(a.symbolic, d.symbolic), mod_int);
      }
    }
  }

 private:
  template <class F>
  Twin combine(const Twin& a, const Twin& b, SymInt symbolic, F&& f) {
    Twin out{symbolic, {}};
    for (size_t i = 0; i < points_.size(); ++i) out.values.push_back(f(a.values[i], b.values[i]));
    return out;
  }
  ShapeEnv& env_;
  std::mt19937_64 random_;
  std::vector<Twin> symbols_;
  std::vector<SymValues> points_;
};

TEST(SymProperty, canonical_form_ranges_and_answers_hold_at_every_point) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    ShapeEnv env;
    RandomExpressions random(env, seed);
    for (int n = 0; n < 20; ++n) {
      Twin a = random.make(3), b = random.make(2);
      Range range = env.range(a.symbolic);
      SymInt simple = env.simplify(a.symbolic);
      SymInt parsed = env.parse(env.str_as_asked(a.symbolic));
      EXPECT_EQ(parsed.bits(), a.symbolic.bits())
          << env.str_as_asked(a.symbolic) << " became " << env.str_as_asked(parsed);
      std::optional<bool> equal = env.decide(sym::Op::eq, a.symbolic, b.symbolic);
      std::optional<bool> less = env.decide(sym::Op::lt, a.symbolic, b.symbolic);
      for (size_t i = 0; i < a.values.size(); ++i) {
        const SymValues& at = random.points()[i];
        ASSERT_EQ(env.evaluate(a.symbolic, at), a.values[i])
            << "seed " << seed << ": " << env.str_as_asked(a.symbolic);
        ASSERT_EQ(env.evaluate(simple, at), a.values[i])
            << "seed " << seed << ": " << env.str_as_asked(a.symbolic) << " -> " << simple.str();
        ASSERT_TRUE(range.contains(a.values[i]))
            << "seed " << seed << ": " << a.symbolic.str() << " in " << range.str();
        if (equal) {
          ASSERT_EQ(*equal, a.values[i] == b.values[i])
              << "seed " << seed << ": " << a.symbolic.str() << " == " << b.symbolic.str();
        }
        if (less) {
          ASSERT_EQ(*less, a.values[i] < b.values[i])
              << "seed " << seed << ": " << a.symbolic.str() << " < " << b.symbolic.str();
        }
      }
    }
  }
}

// After guards, what the env says must hold at every point that satisfies the guards.
TEST(SymProperty, knowledge_from_guards_is_sound) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    ShapeEnv env;
    RandomExpressions random(env, seed + 1000);
    constexpr sym::Op ops[] = {sym::Op::eq, sym::Op::ne, sym::Op::lt, sym::Op::le, sym::Op::gt, sym::Op::ge};
    for (int g = 0; g < 3; ++g) {
      Twin a = random.make(2), b = random.make(1);
      sym::compare(ops[random.pick(0, 5)], a.symbolic, b.symbolic, Loc::here());
    }
    for (int n = 0; n < 10; ++n) {
      Twin a = random.make(2), b = random.make(2);
      Range range = env.range(a.symbolic);
      SymInt simple = env.simplify(a.symbolic);
      std::optional<bool> less = env.decide(sym::Op::le, a.symbolic, b.symbolic);
      for (size_t i = 0; i < a.values.size(); ++i) {
        const SymValues& at = random.points()[i];
        bool allowed = true;
        for (const Guard& g : env.guards()) allowed = allowed && env.evaluate(g.condition.as_expr(), at);
        if (!allowed) continue;
        ASSERT_EQ(env.evaluate(simple, at), a.values[i]) << "seed " << seed << ": " << simple.str();
        ASSERT_TRUE(range.contains(a.values[i]))
            << "seed " << seed << ": " << a.symbolic.str() << " in " << range.str();
        if (less) {
          ASSERT_EQ(*less, a.values[i] <= b.values[i]) << "seed " << seed;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tern
