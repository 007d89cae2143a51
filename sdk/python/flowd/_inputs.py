"""Serves an input: sends what a generator yields, within flowd's credits, and hands back fates."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from ._link import Closed, Link, frame, to_json
from ._message import Error, Message, describe

SOON = 0.002  # seconds that a message waits for others
_MANY = 512  # messages that are worth a frame
_MAX_POSITION = 16_000  # characters; the protocol allows 64 KiB


class Input:
    """Runs a generator in the main thread, while another one reads frames. AsyncInput is for asynchronous generators."""

    def __init__(self, link: Link, generate: Callable[[], Any], settled: Any, limit: int) -> None:
        self.link, self.generate, self.settled, self.limit = link, generate, settled, limit
        self.most = min(limit, 1 << 20)
        self.lock = threading.Condition()  # guards the fields below, and keeps frames in order
        self.credits = self.number = self.size = 0
        self.pending: List[Tuple[bytes, str, str]] = []  # payloads, and metadata and positions as JSON
        self.unsettled: Dict[int, Message] = {}  # by number
        self.ended = self.failed = False  # no message follows
        self.interruptible = self.stopping = False  # interruptible: a signal may end the main thread where it is

    def put(self, msg: Message) -> bool:
        """Add a message, and return False if flowd must give a credit first. The lock is held."""
        if not self.credits:
            self.flush()
            return False
        meta = to_json(msg._meta if msg._edited is None else msg._edited)
        payload, position = msg.payload, to_json(msg.position)
        if len(payload) > self.limit:
            raise ValueError(f"message has {len(payload)} bytes, more than the limit of {self.limit}")
        if len(position) > _MAX_POSITION:
            raise ValueError(f"position has {len(position)} characters, more than {_MAX_POSITION}")
        if self.size + len(payload) > self.most or len(self.pending) >= _MANY:
            self.flush()
        self.credits -= 1
        self.number += 1
        self.size += len(payload)
        self.pending.append((payload, meta, position))
        if self.settled:
            self.unsettled[self.number] = msg
        return True

    def flush(self) -> None:
        """Send the messages that wait. The lock is held."""
        pending, self.pending, self.size = self.pending, [], 0
        if pending:
            payloads, meta, positions = zip(*pending)
            head = f'{{"type":"messages","sizes":{to_json([len(p) for p in payloads])}'
            head += f',"meta":[{",".join(meta)}],"positions":[{",".join(positions)}]}}'
            self.link.write(frame(head, payloads))

    def end(self, error: Optional[BaseException] = None) -> None:
        """Send what waits, and say that nothing follows, once."""
        with self.lock:
            if not self.ended or (error and not self.failed):
                self.ended, self.failed = True, error is not None
                self.flush()
                self.link.send({"type": "error", "error": describe(error)} if error else {"type": "end"})
            self.lock.notify_all()

    def handle(self, header: Dict[str, Any]) -> List[Tuple[Message, str, Optional[Error]]]:
        """Handle a frame, and return the fates in it."""
        kind = header.get("type")
        if kind == "credit":
            with self.lock:
                self.credits += header["messages"]
                self.lock.notify_all()
        elif kind == "drain":
            self.end()
        elif kind == "fates" and self.settled:
            numbers, errors = header["numbers"], header.get("errors")
            with self.lock:
                return [
                    (self.unsettled.pop(n), fate, _error(error))
                    for n, fate, error in zip(numbers, header["fates"], errors or [None] * len(numbers))
                    if n in self.unsettled
                ]
        return []

    def serve(self, ready: Dict[str, Any]) -> bool:
        """Run a generator until flowd closes its pipe. Return False if it fails."""
        signal.signal(signal.SIGTERM, self._terminate)
        self.link.send(ready)
        reader = threading.Thread(target=self._read, args=(threading.get_ident(),), daemon=True)
        reader.start()
        threading.Thread(target=self._flush_soon, daemon=True).start()
        try:
            self._generate()
            self.end()
        except Exception as e:
            self.interruptible = False
            self.end(e)
        if not self.failed:
            self.interruptible = True
            reader.join()
        return not self.failed

    def _generate(self) -> None:
        generator = iter(self.generate())
        self.interruptible = not self.stopping
        if self.stopping:
            raise Closed(0)
        for value in generator:
            self.interruptible = False
            for msg in messages(value):
                with self.lock:
                    while not (self.ended or self.stopping or self.put(msg)):
                        self.interruptible = True
                        self.lock.wait()
                        self.interruptible = False
                    if len(self.pending) == 1:
                        self.lock.notify_all()
            if self.ended or self.stopping:
                break
            self.interruptible = True
        self.interruptible = False
        if hasattr(generator, "close"):
            generator.close()
        if self.stopping and not self.ended:
            with self.lock:
                self.flush()
            raise Closed(0)

    def _terminate(self, *_: Any) -> None:
        self.stopping = True
        if self.interruptible:
            self.interruptible = False
            raise Closed(1 if self.failed else 0)

    def _read(self, main_thread: int) -> None:
        try:
            while True:
                header, _ = self.link.receive()
                for msg, fate, error in self.handle(header):
                    self.settled(msg, fate, error)
        except Closed:
            pass
        except Exception as e:
            self.end(e)
        with self.lock:
            self.ended = True
            self.lock.notify_all()
        signal.pthread_kill(main_thread, signal.SIGTERM)  # it may wait for a message that never comes
        time.sleep(2)
        os._exit(1 if self.failed else 0)

    def _flush_soon(self) -> None:
        while True:
            with self.lock:
                while not self.pending:
                    self.lock.wait()
            time.sleep(SOON)
            with self.lock:
                self.flush()


def messages(value: Any) -> List[Message]:
    """Return the messages that a generator has yielded at once."""
    if isinstance(value, list):
        return [m for item in value for m in messages(item)]
    return [] if value is None else [value if isinstance(value, Message) else Message(value)]


def _error(error: Optional[Dict[str, Any]]) -> Optional[Error]:
    return Error(error.get("text", ""), error.get("class"), error.get("after")) if error else None
