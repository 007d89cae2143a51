"""Messages, and what a handler can make of them."""

from __future__ import annotations

import copy
import json
import marshal
import math
import os
import time
import traceback
from typing import Any, Dict, List, Optional, Tuple

from ._link import compact, to_json

Result = Tuple[str, Tuple[bytes, ...]]  # a result as JSON text, and its part of the body

UNCHANGED = "null"  # the result of a message that passes as it is
_UNREAD = object()
_MAX_TEXT = 8 << 20  # bytes of a result in the header of a frame, which may have 16 MiB
_PACKAGE = os.path.dirname(__file__)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not valid JSON")


_parse = json.JSONDecoder(parse_constant=_refuse).decode


class Error(Exception):
    """Fails a message.

    kind says whether a retry makes sense: "permanent" (the default of a step), "transient" (the default of an output),
    "rejected", "decode", "timeout" or "auth". after is the least number of seconds before a retry. detail is for the dead
    letter; if it is missing, the traceback of the exception's cause is used.
    """

    def __init__(
        self, text: str, kind: Optional[str] = None, after: Optional[float] = None, detail: Optional[str] = None
    ) -> None:
        super().__init__(text)
        self.text, self.kind, self.detail = str(text), kind, detail
        self.after = None if after is None else float(after)


class SettingError(Exception):
    """Says at the start that a field of the component's config is wrong: SettingError("model", "no such model")."""

    def __init__(self, setting: str, text: str) -> None:
        super().__init__(text)
        self.setting, self.text = setting, text


class _Drop:
    def __repr__(self) -> str:
        return "flowd.DROP"


DROP = _Drop()


class Message:
    """A message that flowd has sent, or one that an input or a test has made.

    value is bytes, text, or anything that JSON can represent. position and tag are for inputs: flowd keeps the position
    (any JSON value), and the program keeps the tag (any object) until it has the fate of the message.
    """

    __slots__ = (
        "attempt", "position", "tag", "error", "cancelled",
        "_sent", "_payload", "_doc", "_mark", "_meta", "_edited", "_terms", "_failure", "_used",
    )  # fmt: skip

    attempt: int  # how often the source has delivered the message, from 1; 0: unknown
    error: Optional[Dict[str, Any]]  # for an output that is a dead letter: why the message failed
    cancelled: bool  # whether flowd has stopped waiting for it

    def __init__(
        self,
        value: Any = b"",
        meta: Optional[Dict[str, Any]] = None,
        attempt: int = 1,
        position: Any = None,
        tag: Any = None,
        _terms: Tuple[Optional[float], Any] = (None, None),
    ) -> None:
        self._sent = self._payload = value if type(value) is bytes else encode(value)
        self._meta, self.attempt, self.position, self.tag, self._terms = meta, attempt, position, tag, _terms
        self.error = self._edited = self._failure = None
        self.cancelled = self._used = False
        self._doc = _UNREAD

    @property
    def payload(self) -> bytes:
        """The payload, with all changes of doc. A new payload replaces the document."""
        if self._doc is not _UNREAD:
            mark = _mark(self._doc)
            if mark is None or mark != self._mark:
                self._payload, self._mark = encode_json(self._doc), mark
        return self._payload

    @payload.setter
    def payload(self, payload: Any) -> None:
        self._payload, self._doc, self._used = encode(payload), _UNREAD, True

    @property
    def doc(self) -> Any:
        """The payload as a JSON document, parsed at the first use. Changes in place are sent back."""
        if self._doc is _UNREAD:
            try:
                self._doc = _parse(self._payload.decode())
            except (ValueError, RecursionError) as e:
                raise Error(f"payload is not valid JSON: {e}", kind="decode") from None
            self._mark, self._used = _mark(self._doc), True
        return self._doc

    @doc.setter
    def doc(self, doc: Any) -> None:
        self._doc, self._mark, self._used = doc, None, True

    @property
    def meta(self) -> Dict[str, Any]:
        """The metadata. Changes in place are sent back."""
        if self._edited is None:
            meta = self._meta or {}
            nested = any(isinstance(value, (dict, list)) for value in meta.values())
            self._edited, self._used = copy.deepcopy(meta) if nested else dict(meta), True
        return self._edited

    @property
    def deadline(self) -> Optional[float]:
        """When flowd gives up the message, as a value of time.monotonic(), or None."""
        return self._terms[0]

    @property
    def key(self) -> Any:
        """The key of the batch, if a batcher with a key has made it."""
        return self._terms[1]

    def fail(self, error: Any, kind: Optional[str] = None, after: Optional[float] = None) -> None:
        """Fail this message of a batch with a text or an exception. The other messages go on."""
        self._failure, self._used = error if isinstance(error, Exception) else Error(error, kind, after), True

    def _meta_changes(self) -> Dict[str, Any]:
        if self._edited is None:
            return {}
        old, new = self._meta or {}, self._edited
        changes = {k: v for k, v in new.items() if k not in old or old[k] != v or type(old[k]) is not type(v)}
        changes.update((k, None) for k in old if k not in new)
        return changes


def _mark(doc: Any) -> Optional[bytes]:
    """Return bytes that change with the document. They are several times cheaper than JSON. None: doc has other types."""
    try:
        return marshal.dumps(doc, 2)
    except ValueError:
        return None


def encode(value: Any) -> bytes:
    """Return a payload: bytes as they are, text in UTF-8, and anything else as JSON."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, str):
        return value.encode()
    return value.payload if isinstance(value, Message) else encode_json(value)


def encode_json(value: Any) -> bytes:
    text = compact(value)
    try:
        return text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can represent
        return json.dumps(value, separators=(",", ":")).encode()


def outcome(msg: Message, value: Any, writes: bool, limit: int) -> Result:
    """Return the result of a message whose handler has returned value. writes: the handler is an output."""
    try:
        text, bodies = _failed(msg._failure) if msg._failure else _outcome(msg, value, writes)
        size = sum(map(len, bodies))
        if size <= limit and len(text) <= _MAX_TEXT:
            return text, bodies
        return _failed(Error(f"result is too large: {size + len(text)} bytes", kind="permanent"))
    except Exception as e:
        return _failed(e)


def _outcome(msg: Message, value: Any, writes: bool) -> Result:
    if isinstance(value, Exception):
        return _failed(value)
    if writes:
        return UNCHANGED, ()
    if value is DROP:
        return '{"drop":true}', ()
    changes, bodies = msg._meta_changes(), ()
    result: Dict[str, Any] = {"meta": changes} if changes else {}
    if isinstance(value, list):
        bodies = tuple(map(encode, value))
        result["parts"] = [len(b) for b in bodies]
        return to_json(result) if bodies else '{"drop":true}', bodies
    if isinstance(value, Message) and value is not msg:
        changes.update(value.meta)
        result = {"meta": changes} if changes else {}
    payload = msg.payload if value is None else encode(value)
    if payload is not msg._sent:
        bodies = (payload,)
        if not result:
            return str(len(payload)), bodies
        result["size"] = len(payload)
    return to_json(result) if result else UNCHANGED, bodies


def _failed(e: BaseException) -> Result:
    return '{"error":' + to_json(describe(e)) + "}", ()


def describe(e: BaseException) -> Dict[str, Any]:
    """Return an exception as the protocol's error, with the part of the traceback that is not of this module."""
    error: Dict[str, Any] = {"text": str(e) or type(e).__name__}
    cause: Optional[BaseException] = e
    if isinstance(e, Error):
        cause = e.__cause__
        if e.kind:
            error["class"] = str(e.kind)
        if e.after is not None and math.isfinite(e.after):
            error["after"] = e.after
        if e.detail:
            error["detail"] = str(e.detail)
    elif not isinstance(e, SettingError):
        error["text"] = "".join(traceback.format_exception_only(type(e), e)).strip()
    if cause and "detail" not in error:
        trace = cause.__traceback__
        while trace and trace.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            trace = trace.tb_next
        error["detail"] = "".join(traceback.format_exception(type(cause), cause, trace))
    error["text"], error["detail"] = error["text"][:4_000], error.get("detail", "")[-8_000:]
    return {name: v.encode("utf-8", "replace").decode() if isinstance(v, str) else v for name, v in error.items() if v != ""}


def received(header: Dict[str, Any], body: bytes) -> List[Message]:
    """Return the messages of a batch frame."""
    sizes: List[int] = header["sizes"]
    none = [None] * len(sizes)
    timeout = header.get("timeout")
    terms = None if timeout is None else time.monotonic() + timeout, header.get("key")
    messages, start = [], 0
    for size, meta, attempt in zip(sizes, header.get("meta") or none, header.get("attempts") or [0] * len(sizes)):
        end = start + size
        messages.append(Message(body[start:end], meta, attempt, None, None, terms))
        start = end
    for msg, error in zip(messages, header.get("errors") or ()):
        msg.error = error
    return messages
