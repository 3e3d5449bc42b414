"""Nested tensors: tensors of different sizes in one. Names are those of ``torch.nested``; the layout is strided."""

from . import _tern
from ._tern import Tensor


def nested_tensor(tensor_list, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """A nested tensor of copies: of tensors, or of lists of numbers. It is a leaf."""
    if not isinstance(tensor_list, (list, tuple)):
        raise TypeError("Only lists (List[Tensor] and List[List...[Scalar]]) are accepted in nested_tensor")
    parts = [t.detach() if isinstance(t, Tensor) else _tern._from_data(t, None) for t in tensor_list]
    return _from_list(parts, dtype, layout, device).requires_grad_(requires_grad)


def as_nested_tensor(ts, dtype=None, device=None, layout=None):
    """A nested tensor of tensors, or of the rows of one; gradients flow back to them."""
    if isinstance(ts, Tensor):
        if ts.is_nested:
            raise RuntimeError("as_nested_tensor(): Converting between nested tensor layouts is not supported")
        ts = ts.unbind(0)
    elif not (isinstance(ts, (list, tuple)) and all(isinstance(t, Tensor) for t in ts)):
        raise TypeError("as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of tensors ")
    return _from_list(list(ts), dtype, layout, device)


def to_padded_tensor(input, padding, output_size=None, out=None):
    """A tensor as large as the largest in each dimension, ``padding`` where others have nothing."""
    if out is not None:
        raise NotImplementedError("to_padded_tensor: out= is not supported")
    return input.to_padded_tensor(padding, output_size)


def _from_list(parts, dtype, layout, device):
    if layout is not None and layout != _tern.strided:
        raise RuntimeError(f"Specified layout is unsupported for nested tensors: {layout}")
    return _tern._packet("aten::_nested_tensor_from_tensor_list")(parts, dtype, None, device, None)
