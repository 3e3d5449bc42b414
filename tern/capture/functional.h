// Functional: mutation becomes new values. Every tensor it hands out is an outer one: a fake strided view
// whose Storage carries an AliasRecord with the current value of the memory, an inner tensor that is never
// written to. A write makes a new inner value of the base, through the inverses of the views in between; a
// view that was overtaken is computed anew from the base when it is used next.
#pragma once
#include "tern/base/function.h"
#include "tern/dispatch/ladder.h"

namespace tern {

// How one view comes from its parent: the operator and its arguments (the first, the parent, left out).
struct ViewStep {
  const Op* op;
  std::vector<Value> args;
};

struct AliasRecord {
  Tensor value;          // what the memory holds, as a value of the base's shape
  Tensor initial;        // what it held first
  uint32_t version = 0;  // counts writes
  uint64_t serial = 0;   // later memory has a larger number
  bool grown = false;    // resize_ made it larger
};
struct AliasView {
  Tensor inner;  // this tensor's value when the memory was at `version`
  uint32_t version = 0;
  std::vector<ViewStep> chain;
};

namespace capture {

class Functional : public Mode {
 public:
  Tensor wrap(const Tensor& inner);    // a new outer tensor with memory of its own
  Tensor unwrap(const Tensor& outer);  // its current value, brought up to date; a plain tensor is itself
  static bool is_wrapped(const Tensor& t) { return t.defined() && t->alias; }
  static bool was_written(const Tensor& outer) {
    return !outer->storage->alias->value.is_same(outer->storage->alias->initial);
  }
  // Whether sizes or strides of this tensor itself were changed in place (t_, resize_).
  static bool was_reshaped(const Tensor& outer) {
    return !outer->alias->chain.empty() || outer->storage->alias->grown;
  }
  Value wrap(const Value& v);  // tensors inside containers too
  Value unwrap(const Value& v);
  void call(const Op& op, const Arg* args, Value* results) override;

  // Records a call of an operator that has no functional form, on copies of what it writes to: gets the
  // arguments of auto_functionalized_v2 and their names, gives the results and the copies after it.
  Function<std::vector<Value>(const Op& op, const Value& names, const std::vector<Value>& inputs)> on_copies;

  // Blocks that may or may not run: a journal notes which memory was written inside, so that the caller can
  // make those values results of the block.
  struct Write {
    Storage storage;
    Tensor before;
    uint32_t version;
  };
  void begin_block();
  std::vector<Write>
  end_block();  // puts the values from before the block back; `before` then holds the new ones
  void set_value(const Storage& storage, Tensor value);  // after the block: what the memory holds now

 private:
  void call_on_copies(const Op& op, const Arg* args, Value* results);
  void change_geometry(const Op& op, const Arg* args, Value* results);
  void write(const Tensor& outer, Tensor value);
  Tensor replay(const ViewStep& step, const Tensor& parent);
  struct Journal {
    uint64_t first_serial;  // memory made inside the block is nobody else's business
    std::vector<Write> writes;
    std::vector<Tensor>
        refreshed;  // views that were computed anew inside: outside, those values do not exist
  };
  std::vector<Journal> journals_;
  uint64_t next_serial_ = 0;
};

}  // namespace capture
}  // namespace tern
