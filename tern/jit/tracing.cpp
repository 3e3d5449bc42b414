#include "tern/jit/tracing.h"

#include "tern/base/error.h"
#include "tern/capture/trace.h"

namespace tern::jit {

struct Future::State {
  tern::Value result;
  ir::Value* recorded = nullptr;  // in the trace of `tracer`
  capture::Tracer* tracer = nullptr;
};

Future fork_value(const tern::Function<tern::Value()>& task) {
  Future future;
  future.state_ = new_shared<Future::State>();
  Future::State& state = *future.state_;
  state.tracer = capture::Tracer::current();
  if (!state.tracer) {
    state.result = task();
    return future;
  }
  capture::Recorder& recorder = state.tracer->recorder();
  ir::Graph& graph = recorder.graph;
  ir::Node& node = graph.make("prim::fork", {}, {});
  node.set_origin(capture::Recorder::here());
  ir::Block& block = node.add_block();
  ir::Node& after = graph.insert_point();
  capture::Recorder::Known outside = recorder.known();
  graph.insert_at_end(block);
  const ir::Type* type = nullptr;
  try {
    state.result = task();
    ir::In out = state.tracer->operand(state.result);
    type = out.is_value() ? out.value()->type() : ir::Type::of(state.result);
    block.add_return(out);
  } catch (...) {
    graph.insert_at(after);
    graph.erase(node);
    throw;
  }
  graph.insert_at(after);
  recorder.forget_to(std::move(outside));
  state.recorded = &node.add_output(ir::Type::future(type), "future");
  return future;
}

tern::Value wait(const Future& future) {
  if (!future.state_) fail(ErrorKind::value, "wait: there is no task; make one with fork()");
  const Future::State& state = *future.state_;
  capture::Tracer* tracer = capture::Tracer::current();
  if (!tracer || tracer != state.tracer || !state.recorded) return state.result;
  ir::Graph& graph = tracer->recorder().graph;
  ir::In in[] = {ir::In(*state.recorded)};
  const ir::Type* types[] = {state.recorded->type()->element()};
  ir::Node& node = graph.make("aten::wait", in, types, "wait");
  node.set_origin(capture::Recorder::here());
  tracer->bind(state.result, node.output());
  return state.result;
}

}  // namespace tern::jit
