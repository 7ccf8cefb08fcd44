"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path


def is_special(path: str | os.PathLike[str]) -> bool:
    """Whether a device or pipe is there, such as /dev/stdout: to be written to, not replaced."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def replace_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Put a file in place at once: whoever looks sees the old file or the new one, also after a crash."""
    if is_special(path):
        with open(path, "wb") as device:
            device.write(data)
        return
    # A link stays a link: what it points to is replaced.
    place = Path(os.path.realpath(path))
    if place.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a directory", str(path))
    temporary = place.parent / f".scoreprior-{secrets.token_hex(8)}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, place)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    # The new name lasts once the directory is on disk; not every system lets one open a directory.
    with suppress(OSError):
        directory = os.open(place.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
