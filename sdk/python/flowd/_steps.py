"""Serves the batches of a step or an output."""

from __future__ import annotations

import signal
import time
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

from ._link import Closed, Link, frame
from ._message import UNCHANGED, Result, outcome, received

FLUSH = 0.05  # seconds that a result waits for others of its batch
_PASSED: Result = (UNCHANGED, ())
_LARGE = 4 << 20  # bytes of results that are worth a frame


class Batch:
    """A batch frame, and those of its results that have not been written yet."""

    def __init__(self, header: Dict[str, Any], body: bytes) -> None:
        self.number = header["batch"]
        self.messages = received(header, body)
        self.results: Dict[int, Result] = {}
        self.unanswered = len(self.messages)
        self.waiting = deque(range(len(self.messages)))  # messages that no handler has seen, by index

    def take_results(self, limit: int) -> bytes:
        """Return frames with the results so far, none of which is larger than limit unless one result is."""
        frames, texts, bodies, size, first = [], [], [], 0, 0

        def cut() -> None:
            head = '{"type":"results","batch":%d,"first":%d,"results":[%s]}' % (self.number, first, ",".join(texts))
            frames.append(frame(head, bodies))

        for i in sorted(self.results):
            text, body = self.results[i]
            n = len(text) + (sum(map(len, body)) if body else 0)
            if texts and (i != first + len(texts) or size + n > limit):
                cut()
                texts, bodies, size = [], [], 0
            if not texts:
                first = i
            texts.append(text)
            bodies.extend(body)
            size += n
        if texts:
            cut()
        self.results.clear()
        return b"".join(frames)


class Steps:
    """Runs a function, one call after the other. AsyncSteps is for coroutine functions."""

    def __init__(
        self, link: Link, call: Callable[[Any], Any], writes: bool, batchwise: bool, concurrency: int, limit: int
    ) -> None:
        self.link, self.call, self.writes, self.batchwise = link, call, writes, batchwise
        self.concurrency, self.limit, self.most = concurrency, limit, min(limit, _LARGE)
        self.batches: Dict[int, Batch] = {}  # that have unanswered messages
        self.queue: Deque[Batch] = deque()  # those of them that have messages which no handler has seen
        self.written = time.monotonic()
        self.reading = self.draining = self.ending = False

    def read(self, wait: bool = False) -> bool:
        """Take in the next frame. Without wait, return False if none has arrived."""
        try:
            received_frame = self.link.receive() if wait else self.link.poll()
        except Closed:
            if not self.draining:
                raise  # flowd was killed: nobody needs the results
            self.ending, received_frame = True, None
        if received_frame is None:
            return False
        header, body = received_frame
        kind = header.get("type")
        if kind == "batch":
            batch = self.batches[header["batch"]] = Batch(header, body)
            self.queue.append(batch)
        elif kind == "cancel" and header["batch"] in self.batches:
            self._cancel(self.batches[header["batch"]], header.get("indices"))
        elif kind == "drain":
            self.draining = True
        return True

    def _cancel(self, batch: Batch, indices: Optional[List[int]]) -> None:
        for i in range(len(batch.messages)) if indices is None else indices:
            batch.messages[i].cancelled = True

    def _settle(self, batch: Batch, indices: List[int], value: Any) -> None:
        """Keep what a handler has returned for messages, or its exception."""
        n, values = len(indices), [value] * len(indices)
        if self.batchwise and isinstance(value, list) and len(value) == n:
            values = value
        elif self.batchwise and value is not None and not self.writes and not isinstance(value, Exception):
            values = [TypeError(f"a handler of batches returns None or a list with a result for each of {n} messages")] * n
        for i, value in zip(indices, values):
            msg = batch.messages[i]
            unchanged = value is None and not msg._used
            batch.results[i] = _PASSED if unchanged else outcome(msg, value, self.writes, self.limit)

    def flush(self, batch: Batch) -> None:
        """Write the results of a batch that have not been written."""
        batch.unanswered -= len(batch.results)
        if not batch.unanswered:
            del self.batches[batch.number]
        if batch.results:
            self.link.write(batch.take_results(self.most))
            self.written = time.monotonic()

    def serve(self, ready: Dict[str, Any]) -> None:
        """Serve with a function. Between its calls, frames are read that have arrived meanwhile."""
        signal.signal(signal.SIGTERM, self._terminate)
        self.link.send(ready)
        while self.queue or not self.ending:
            if not self.queue:
                self.reading = True
                if not self.ending:
                    self.read(wait=True)
                self.reading = False
            self._read_ahead()
            if self.queue:
                self._run(self.queue.popleft())

    def _terminate(self, *_: Any) -> None:
        self.ending = True
        if self.reading:
            raise Closed(0)

    def _read_ahead(self) -> None:
        while not self.ending and self.read():
            pass

    def _run(self, batch: Batch) -> None:
        messages, results, call, clock = batch.messages, batch.results, self.call, time.monotonic
        if self.batchwise:
            every = list(batch.waiting)
            if not all(msg.cancelled for msg in messages):
                self._settle(batch, every, _call(call, messages))
            else:
                self._settle(batch, every, None)
            return self.flush(batch)
        self.written = clock()
        for i in batch.waiting:
            msg = messages[i]
            try:
                value = None if msg.cancelled else call(msg)
            except Exception as e:
                value = e
            if value is None and not msg._used:
                results[i] = _PASSED
            else:
                results[i] = outcome(msg, value, self.writes, self.limit)
            if clock() - self.written > FLUSH:
                self.flush(batch)
                self._read_ahead()
        if results:
            self.flush(batch)


def _call(call: Callable[[Any], Any], argument: Any) -> Any:
    try:
        return call(argument)
    except Exception as e:
        return e
