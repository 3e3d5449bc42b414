"""How tensors print: the options; the text itself is made as the C++ library makes it."""

import math

from . import _tern

_PROFILES = {"default": (4, 1000, 3, 80), "short": (2, 1000, 2, 80), "full": (4, math.inf, 3, 80)}
_options = dict(zip(("precision", "threshold", "edgeitems", "linewidth"), _PROFILES["default"]), sci_mode=None)


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"set_printoptions: there is no profile {profile!r}; there are {', '.join(_PROFILES)}")
        _options.update(zip(("precision", "threshold", "edgeitems", "linewidth"), _PROFILES[profile]))
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    _options.update({key: value for key, value in given.items() if value is not None})
    _options["sci_mode"] = sci_mode


def tensor_repr(self):
    o = _options
    threshold = min(o["threshold"], (1 << 63) - 1)
    return _tern._tensor_text(self, o["precision"], int(threshold), o["edgeitems"], o["linewidth"], o["sci_mode"])
