// Autocast: for a scope, operators that gain from it run in half precision, those that need it in float32.
#pragma once
#include "tern/dispatch/ladder.h"

namespace tern {

struct AutocastSetting {
  DType dtype = kBFloat16;
  bool enabled = true;
  bool scripted = false;  // a scope that a TorchScript program opens: PyTorch casts other operators there
  friend bool operator==(const AutocastSetting&, const AutocastSetting&) = default;
};

// Which operators are cast and how is PyTorch's list for the CPU. Under a trace the casts are recorded; an
// export records the calls as they are and remembers the setting (wrap_with_autocast). In a scripted scope
// the list is that of TorchScript, and casts are always recorded. Throws for a dtype other than bfloat16 and
// float16.
class Autocast : public Mode {
 public:
  explicit Autocast(DType dtype = kBFloat16, bool enabled = true)
      : Autocast(AutocastSetting{dtype, enabled}) {}
  explicit Autocast(AutocastSetting setting);
  ~Autocast() override;
  Autocast(const Autocast&) = delete;

  static const AutocastSetting* current();  // nullptr outside of any scope

  // While it lives, scopes that begin cast below this mode: it sees the calls as they are written, and hands
  // them on with pass_below().
  class Below {
   public:
    explicit Below(Mode& mode);
    ~Below();
    Below(const Below&) = delete;

   private:
    Mode* saved_;
  };
  // Goes on below a mode of the record rung: through the casts if there are any.
  static void pass_below(Mode& mode, const Op& op, const Arg* args, Value* results);

 private:
  void call(const Op& op, const Arg* args, Value* results) override;
  SymInt size(const Tensor& t, int64_t d, Loc loc) override;
  std::optional<Scalar> item(const Tensor& t, Loc loc) override;
  std::optional<SymInt> unknown_size(Loc loc) override;

  AutocastSetting setting_;
  const Autocast* outer_;
  Mode* next() const;
  ThreadState saved_;
  Mode* holder_ = nullptr;  // the mode that this one was put below
};

}  // namespace tern
