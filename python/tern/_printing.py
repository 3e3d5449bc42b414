"""How a tensor prints: PyTorch's rules for precision, width, summaries and scientific notation."""

import math

from . import _tern


class _Options:
    precision = 4
    threshold = 1000
    edgeitems = 3
    linewidth = 80
    sci_mode = None


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    defaults = {"default": (4, 1000, 3, 80), "short": (2, 1000, 2, 80), "full": (4, math.inf, 3, 80)}
    if profile is not None:
        _Options.precision, _Options.threshold, _Options.edgeitems, _Options.linewidth = defaults[profile]
    for key, value in (("precision", precision), ("threshold", threshold), ("edgeitems", edgeitems), ("linewidth", linewidth)):
        if value is not None:
            setattr(_Options, key, value)
    _Options.sci_mode = sci_mode


class _Formatter:
    def __init__(self, values, is_float):
        self.is_float = is_float
        self.int_mode, self.sci_mode, self.width = True, False, 1
        if not is_float:
            self.width = max([1] + [len(str(v)) for v in values])
            return
        finite = [abs(v) for v in values if math.isfinite(v) and v != 0]
        if not finite:
            self.width = max([1] + [len(self.format(v)) for v in values]) if values else 1
            self.int_mode = True
            if any(math.isfinite(v) for v in values):
                self.width = max(self.width, 2)
            return
        low, high = min(finite), max(finite)
        self.int_mode = all(v == math.ceil(v) for v in finite)
        if self.int_mode:
            self.sci_mode = high / low > 1000.0 or high > 1.0e8
        else:
            self.sci_mode = high / low > 1000.0 or high > 1.0e8 or low < 1.0e-4
        if self.int_mode and not (high / low > 1000.0 or high > 1.0e8):
            self.sci_mode = False
        if _Options.sci_mode is not None:
            self.sci_mode = _Options.sci_mode
        self.width = max(len(self.format(v)) for v in values)

    def format(self, value):
        if not self.is_float:
            return str(value)
        if self.sci_mode:
            return f"{{:.{_Options.precision}e}}".format(value)
        if self.int_mode:
            text = f"{value:.0f}"
            return text if math.isinf(value) or math.isnan(value) else text + "."
        return f"{{:.{_Options.precision}f}}".format(value)

    def __call__(self, value):
        return self.format(value).rjust(self.width)


class _ComplexFormatter:
    def __init__(self, values):
        self.real = _Formatter([v.real for v in values], True)
        self.imag = _Formatter([v.imag for v in values], True)
        self.width = self.real.width + self.imag.width + 1

    def __call__(self, value):
        imag = self.imag(value.imag).lstrip()
        sign = "" if imag.startswith("-") else "+"
        return self.real(value.real) + sign + imag + "j"


def _lines(items, depth, indent, form, summarize, sizes):
    """The text of nested lists; None stands for what a summary leaves out."""
    if depth == 0:
        return form(items)
    if depth == 1:
        width = form.width + 2
        per_line = max(1, (_Options.linewidth - indent) // width)
        cells = ["..." if v is _GAP else form(v) for v in items]
        rows = [cells[i : i + per_line] for i in range(0, len(cells), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(", ".join(r) for r in rows) + "]"
    parts = ["..." if v is _GAP else _lines(v, depth - 1, indent + 1, form, summarize, sizes) for v in items]
    return "[" + ("," + "\n" * (depth - 1) + " " * (indent + 1)).join(parts) + "]"


_GAP = object()


def _shown(t, summarize):
    """The elements to print as nested lists."""
    if t.dim() == 0:
        return t.item()
    n, edge = t.shape[0], _Options.edgeitems
    if summarize and n > 2 * edge:
        head, tail = t[:edge], t[n - edge :]
        if t.dim() == 1:
            return head.tolist() + [_GAP] + tail.tolist()
        return [_shown(x, True) for x in head] + [_GAP] + [_shown(x, True) for x in tail]
    if t.dim() == 1 or not summarize:
        return t.tolist()
    return [_shown(x, True) for x in t]


def _flat(items):
    if isinstance(items, list):
        return [v for item in items for v in _flat(item)]
    return [] if items is _GAP else [items]


def _values(t):
    """The elements as text, aligned."""
    summarize = t.numel() > _Options.threshold
    items = _shown(t, summarize)
    flat = _flat(items)
    form = _ComplexFormatter(flat) if t.dtype.is_complex else _Formatter(flat, t.dtype.is_floating_point)
    return _lines(items, t.dim(), len("tensor("), form, summarize, t.shape)


def _quantizer(t):
    """What makes real numbers of the integers."""
    parts = [f"size={tuple(t.shape)}", f"dtype={t.dtype}", f"quantization_scheme={t.qscheme()}"]
    if t.qscheme() == 0:
        return parts + [f"scale={t.q_scale()}", f"zero_point={t.q_zero_point()}"]
    return parts + [f"scale={t.q_per_channel_scales()}", f"zero_point={t.q_per_channel_zero_points()}", f"axis={t.q_per_channel_axis()}"]


def tensor_repr(self):
    """As PyTorch prints: the values, and of dtype, device and history what they do not show."""
    prefix = "tensor("
    if type(self).__name__ == "Parameter":
        prefix = "Parameter containing:\ntensor("
    suffixes = []
    default = {_tern.get_default_dtype(), _tern.int64, _tern.bool, _tern.complex64}
    if not self.is_quantized and (self.is_meta or self.device.type != "cpu"):
        suffixes.append(f"device='{self.device}'")
    if self.is_quantized:
        suffixes += _quantizer(self)
        body = "..." if self.is_meta else _values(self.dequantize()) if self.numel() else "[]"
    elif self.is_meta or any(type(d) is not int for d in self.shape):
        body = "..."
        suffixes.append(f"size={tuple(self.shape)}")
        if self.dtype is not _tern.get_default_dtype():
            suffixes.append(f"dtype={self.dtype}")
    elif self.numel() == 0:
        body = "[]"
        if self.dim() != 1:
            suffixes.append(f"size={tuple(self.shape)}")
        if self.dtype is not _tern.get_default_dtype():
            suffixes.append(f"dtype={self.dtype}")
    else:
        body = _values(self.detach() if self.requires_grad else self)
        if self.dtype not in default:
            suffixes.append(f"dtype={self.dtype}")
    name = self._grad_fn_name
    if name:
        suffixes.append(f"grad_fn=<{name}>")
    elif self.requires_grad:
        suffixes.append("requires_grad=True")
    text = prefix + body
    for s in suffixes:
        last = len(text) - text.rfind("\n") - 1
        if last + len(s) + 2 > _Options.linewidth:
            text += ",\n" + " " * len("tensor(") + s
        else:
            text += ", " + s
    return text + ")"
