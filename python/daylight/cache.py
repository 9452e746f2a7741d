"""The folder of what is compiled here, beside that of the command."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from pathlib import Path
from typing import Callable, Iterable

from .errors import DeviceError


def folder() -> Path:
    """`$XDG_CACHE_HOME/daylight/python`, `~/.cache/daylight/python`, or without a home one in the temporary folder."""
    cache, home = os.environ.get("XDG_CACHE_HOME", ""), os.environ.get("HOME", "")
    if os.path.isabs(cache):
        return Path(cache, "daylight", "python")
    if os.path.isabs(home):
        return Path(home, ".cache", "daylight", "python")
    return Path(tempfile.gettempdir(), f"daylight-{os.getuid()}", "python")


def made(of: Iterable[bytes | str], suffix: str, make: Callable[[Path], None]) -> Path:
    """The file that is made of something, by its hash: made aside and renamed, where it is not there yet."""
    digest = hashlib.sha256()
    for part in of:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    path = _own(folder()) / (digest.hexdigest()[:32] + suffix)
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=path.parent) as aside:
            out = Path(aside, "out")
            make(out)
            os.replace(out, path)
    return path


def _own(place: Path) -> Path:
    """The folder, which is ours alone to write: what lies in it is loaded."""
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = place.stat()
    if about.st_uid != os.getuid() or about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise DeviceError(f"others may write to {place}, whose files are loaded: remove it, or set XDG_CACHE_HOME")
    return place
