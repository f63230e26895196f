# Copyright: (c) 2026, the inferops.sglang authors
# BSD 2-clause license (see LICENSES/BSD-2-Clause.txt)
"""Wake up when a folder's files change: Linux's inotify, through the C library that Python runs on."""

from __future__ import annotations

import ctypes
import os

_MODIFY = 0x002
_CREATE = 0x100
_MOVED_TO = 0x080
_NONBLOCK = os.O_NONBLOCK
_CLOEXEC = os.O_CLOEXEC


class FolderWatch:
    """A file descriptor that becomes readable when something in a folder is written, created or moved in.

    ``fd`` is ``None`` where the kernel refuses (no watch left, no such folder): the caller must look by itself.
    """

    def __init__(self, folder: str) -> None:
        self.fd: int | None = None
        library = ctypes.CDLL(None, use_errno=True)
        fd = int(library.inotify_init1(_NONBLOCK | _CLOEXEC))
        if fd < 0:
            return
        if library.inotify_add_watch(fd, os.fsencode(folder), _MODIFY | _CREATE | _MOVED_TO) < 0:
            os.close(fd)
            return
        self.fd = fd

    def drain(self) -> None:
        """Forget the events that have come: what changed is read from the files."""
        if self.fd is None:
            return
        try:
            while os.read(self.fd, 65536):
                pass
        except BlockingIOError:
            return

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None
