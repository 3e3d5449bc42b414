// Parts of a program that were captured under another gradient mode or under autocast, as nodes of their own.
#pragma once
#include "tern/capture/recorder.h"

namespace tern {

// Moves runs of nodes whose modes differ from those the capture began with (`outside`) into the blocks of
// higher_order::wrap_with_autocast and higher_order::wrap_with_set_grad_enabled.
void wrap_regions(ir::Graph& graph, const capture::Recorder& recorder,
                  const capture::Recorder::Region& outside);

}  // namespace tern
