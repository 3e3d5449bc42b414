"""Finding the operation whose gradient goes wrong: backward names it, and shows where it was recorded."""

import warnings

from .. import _tern


class set_detect_anomaly:
    """Takes effect when it is made; as a context manager it gives the mode back."""

    def __init__(self, mode, check_nan=True):
        self._before = (_tern.is_anomaly_enabled(), _tern.is_anomaly_check_nan_enabled())
        _tern._set_anomaly(bool(mode), bool(check_nan))

    def __enter__(self):
        pass

    def __exit__(self, *_):
        _tern._set_anomaly(*self._before)


class detect_anomaly:
    """The mode for a block."""

    def __init__(self, check_nan=True):
        self._check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for debugging.",
            stacklevel=2,
        )

    def __enter__(self):
        self._before = (_tern.is_anomaly_enabled(), _tern.is_anomaly_check_nan_enabled())
        _tern._set_anomaly(True, bool(self._check_nan))

    def __exit__(self, *_):
        _tern._set_anomaly(*self._before)
