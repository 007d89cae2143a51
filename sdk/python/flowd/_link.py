"""Frames on two file descriptors, as docs/programs.md of flowd specifies them."""

from __future__ import annotations

import json
import os
import select
import struct
import threading
import time
from typing import Any, Iterable, Optional, Tuple

_LENGTHS = struct.Struct(">II")
_MAX_HEADER = 16 << 20

Frame = Tuple[dict, bytes]


class Closed(SystemExit):
    """The other side has closed its pipe. An `except Exception` in a handler doesn't catch it."""


compact = json.JSONEncoder(separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode


def to_json(value: Any) -> str:
    """Return JSON for a header. NaN, infinity and half of a surrogate pair raise a ValueError."""
    text = compact(value)
    text.encode()
    return text


def frame(header: str, bodies: Iterable[bytes] = ()) -> bytes:
    """Return the bytes of a frame whose header is JSON text already."""
    head, body = header.encode(), b"".join(bodies)
    return b"".join((_LENGTHS.pack(len(head), len(body)), head, body))


class Link:
    """Reads and writes frames. Any thread may write; only one may receive."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.read_fd, self._write_fd = read_fd, write_fd
        self._received = bytearray()
        self._lock = threading.Lock()  # guards the fields below and keeps frames whole
        self._counts: dict[tuple, float] = {}
        self._counts_due = 0.0

    def receive(self) -> Frame:
        """Wait for the next frame, and return it."""
        found = self._cut()
        while found is None:
            self._fill()
            found = self._cut()
        return found

    def poll(self) -> Optional[Frame]:
        """Return the next frame, or None if none has arrived."""
        found = self._cut()
        while found is None and select.select([self.read_fd], [], [], 0)[0]:
            self._fill()
            found = self._cut()
        return found

    def _fill(self) -> None:
        data = os.read(self.read_fd, 1 << 18)
        if not data:
            raise Closed(0)
        self._received += data

    def _cut(self) -> Optional[Frame]:
        received = self._received
        if len(received) < 8:
            return None
        head, size = _LENGTHS.unpack_from(received)
        if head > _MAX_HEADER:
            raise ValueError(f"flowd has sent a header of {head} bytes")
        end = 8 + head + size
        if len(received) < end:
            return None
        with memoryview(received) as view:
            header, body = str(view[8 : 8 + head], "utf-8"), bytes(view[8 + head : end])
        del received[:end]
        return json.loads(header), body

    def send(self, header: dict, bodies: Iterable[bytes] = ()) -> None:
        """Write one frame."""
        self.write(frame(to_json(header), bodies))

    def write(self, frames: bytes) -> None:
        """Write whole frames, after the counters that wait for the next frame."""
        with self._lock:
            counts, self._counts = self._counts, {}
            for (name, labels), value in counts.items():
                head = {"type": "metric", "name": name, "kind": "counter", "value": value, "labels": dict(labels)}
                frames = frame(to_json(head)) + frames
            if counts:
                self._counts_due = time.monotonic() + 1
            left = memoryview(frames)
            while left:
                try:
                    left = left[os.write(self._write_fd, left) :]
                except BrokenPipeError:
                    raise Closed(0) from None

    def count(self, name: str, value: float, labels: dict) -> None:
        """Add to a counter, which goes out with the next frame, or at once if none went out for a second."""
        to_json([name, value, labels])  # raises here, rather than when it goes out
        key = (name, tuple(labels.items()))
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + value
        if time.monotonic() > self._counts_due:
            self.write(b"")
