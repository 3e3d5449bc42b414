"""The package is found in the build tree (PYTHONPATH, or build/release/python) or installed."""

import os
import pathlib
import sys

import pytest

try:
    import tern  # noqa: F401
except ImportError:
    root = pathlib.Path(__file__).resolve().parents[2]
    sys.path.insert(0, os.environ.get("TERN_PYTHON_PATH", str(root / "build" / "release" / "python")))


@pytest.fixture(autouse=True)
def _seeded():
    import tern

    tern.manual_seed(0)
    if torch := sys.modules.get("torch"):  # whoever compares with it has imported it
        torch.manual_seed(0)
