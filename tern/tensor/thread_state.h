// What a thread is doing: which rungs of the dispatch ladder are active, whether gradients are recorded.
#pragma once
#include <cstdint>

#include "tern/base/location.h"

namespace tern {

// A rung of the ladder is a bit: set in a tensor (autograd, functional, fake), in the thread (record, core, a
// mode that is mounted), or both.
enum Rung : uint8_t {
  rung_record = 1,
  rung_autograd = 2,
  rung_functional = 4,
  rung_core = 8,
  rung_fake = 16,
  rung_meaning = 32,  // of tensors only: the operator's rule for quantized tensors, or for nested ones
};

class Mode;
struct Scope;

struct ThreadState {
  uint8_t active = 0;    // rungs that every call climbs
  uint8_t excluded = 0;  // rungs that are passed by, whatever the tensors say
  bool grad_enabled = true;
  bool sizes_recorded = false;   // Tensor::size() asks the mode on the record rung
  Mode* modes[5] = {};           // what is mounted on each rung; a mode links to the one below it
  const Scope* scope = nullptr;  // the module whose forward is running
  Loc loc;                       // where the user called the operator that is being recorded
};

// Initial-exec keeps the hot path to one fs-relative load also in the shared library.
extern constinit thread_local ThreadState thread_state __attribute__((tls_model("initial-exec")));

}  // namespace tern
