// What a trace hears of besides operators: data that leaves for the host language, where nothing can be
// recorded, and sizes that are asked for by name.
#pragma once
#include <string_view>

#include "tern/tensor/tensor.h"

namespace tern {

class TraceListener {
 public:
  virtual ~TraceListener() = default;
  virtual void left(const Tensor& t, std::string_view as) = 0;  // "a Python integer", "a NumPy array", "rows"
  virtual SymInt numel(const Tensor& t, Loc loc) = 0;
};
TraceListener* listen_to_trace(TraceListener* listener);  // this thread's; gives the one before

// Tells the listener, while calls are recorded.
void note_left(const Tensor& t, std::string_view as);

// The sizes and the number of elements, as a trace records them: zeros(shape(x)) fits other inputs. The
// numbers of Tensor::sizes() and numel() are those of the example.
Dims shape(const Tensor& t, Loc loc = Loc::here());
SymInt numel(const Tensor& t, Loc loc = Loc::here());

}  // namespace tern
