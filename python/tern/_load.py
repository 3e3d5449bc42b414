"""``tern.load`` and ``tern.save``: the one place where file formats meet Python."""

import os

from . import _tern


def load(path, **options):
    """What the file holds, ready to be called: ``tern.load("model.pt2")(x)``.

    The extension registers a reader per format as ``_tern._readers[".pt2"]``.
    """
    return _reader(path, "_readers", "load")(os.fspath(path), **options)


def save(obj, path, **options):
    """Writes ``obj`` in the format that the file's name says."""
    return _reader(path, "_writers", "save")(obj, os.fspath(path), **options)


def _reader(path, table, what):
    formats = getattr(_tern, table, {})
    extension = os.path.splitext(os.fspath(path))[1]
    if extension not in formats:
        known = ", ".join(sorted(formats)) or "none in this build"
        raise NotImplementedError(f"tern.{what}: no format for '{extension}' files (known: {known})")
    return formats[extension]
