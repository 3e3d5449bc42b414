"""Looking into recorded graphs: their nodes, what they save for backward, hooks over several tensors."""

from .. import _tern
from .._tensor import RemovableHandle
from .._tern import Node, Tensor

__all__ = (
    "Node saved_tensors_hooks save_on_cpu disable_saved_tensors_hooks register_multi_grad_hook allow_mutation_on_saved_tensors "
    "increment_version"
).split()


def _register_hook(self, fn):
    """fn(grad_inputs, grad_outputs) is called when the node has run; what it gives replaces grad_inputs."""
    number = self._add_post_hook(fn)
    return RemovableHandle(lambda: self._remove_hook(number))


def _register_prehook(self, fn):
    """fn(grad_outputs) is called before the node runs; what it gives replaces grad_outputs."""
    number = self._add_pre_hook(fn)
    return RemovableHandle(lambda: self._remove_hook(number))


Node.register_hook, Node.register_prehook = _register_hook, _register_prehook


class saved_tensors_hooks:
    """In the block, what is saved for backward is kept as ``pack_hook(tensor)``, and read by ``unpack_hook``."""

    def __init__(self, pack_hook, unpack_hook):
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self):
        _tern._push_saved_tensor_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *_):
        _tern._pop_saved_tensor_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Tensors are saved for backward as copies in main memory, where Tern's are anyway."""

    def __init__(self, pin_memory=False, device_type="cuda"):
        super().__init__(lambda t: (t.device, t.clone()), lambda kept: kept[1].to(kept[0]))


class disable_saved_tensors_hooks:
    """In the block, setting hooks is an error with this message."""

    def __init__(self, error_message):
        self._message = error_message or "saved tensor hooks are disabled here"

    def __enter__(self):
        self._before = _tern._forbid_saved_tensor_hooks(self._message)

    def __exit__(self, *_):
        _tern._forbid_saved_tensor_hooks(self._before)


class allow_mutation_on_saved_tensors(saved_tensors_hooks):
    """In the block, tensors are saved as copies, so that they may be changed before backward."""

    def __init__(self):
        super().__init__(lambda t: t.clone(), lambda kept: kept)

    def __enter__(self):
        super().__enter__()
        return self

    def clear(self):
        """For PyTorch's programs: the copies go with the graph."""


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """Calls fn in each backward pass: with mode "all" once, with the gradients of all tensors (None where there is
    none) when they are there; with "any" with the first gradient that is."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    if not tensors or not all(isinstance(t, Tensor) and t.requires_grad for t in tensors):
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    state = {"pass": None}

    def begin():
        if state["pass"] != _tern._current_pass():
            waiting = sum(node is not None and node._will_run() for node in nodes)
            state.update({"pass": _tern._current_pass(), "grads": [None] * len(tensors), "waiting": waiting})

    def hook_of(i):
        def one_of_all(grad):
            begin()
            state["grads"][i] = grad
            state["waiting"] -= 1
            if state["waiting"] == 0:
                grads, state["grads"] = state["grads"], None
                fn(grads)

        def first(grad):
            if state["pass"] != _tern._current_pass():
                state["pass"] = _tern._current_pass()
                fn(grad)

        return one_of_all if mode == "all" else first

    nodes = [_tern._gradient_edge(t)[0] for t in tensors]
    handles = [t.register_hook(hook_of(i)) for i, t in enumerate(tensors)]
    return RemovableHandle(lambda: [handle.remove() for handle in handles])


def increment_version(tensor):
    """Says that the tensors have been changed where Tern did not see it."""
    for t in [tensor] if isinstance(tensor, Tensor) else tensor:
        _tern._increment_version(t)

