"""The default random generator: PyTorch's engine, so the same seed gives the same numbers."""

import os

from . import _tern
from ._tern import get_rng_state, initial_seed, set_rng_state  # noqa: F401

default_generator = _tern._default_generator()


def manual_seed(seed):
    """Seeds the default generator and gives it back."""
    return default_generator.manual_seed(int(seed))


def seed():
    """Seeds the default generator from the system and gives the seed."""
    value = int.from_bytes(os.urandom(8), "little") >> 1
    manual_seed(value)
    return value


class fork_rng:
    """Gives the generator's state back at the end of the block."""

    def __init__(self, devices=(), enabled=True):
        self.enabled = enabled

    def __enter__(self):
        if self.enabled:
            self.state = get_rng_state()

    def __exit__(self, *_):
        if self.enabled:
            set_rng_state(self.state)
