"""Write a step, an input or an output of flowd.

    import flowd

    @flowd.step
    def score(msg):
        msg.doc["score"] = len(msg.doc["text"])

The module serves flowd when the main program has been read to its end. In a test, or anywhere else, it does nothing.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import signal
import sys
import traceback
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, TypeVar, overload

from ._inputs import Input
from ._link import Link, frame
from ._message import DROP, Error, Message, SettingError, describe
from ._start import call_after_main, own_descriptors
from ._steps import Steps

__all__ = [
    "DROP", "Context", "Error", "Message", "SettingError",
    "input", "log", "metric", "output", "run", "settled", "setup", "state", "step",
]  # fmt: skip

H = TypeVar("H", bound=Callable[..., Any])


@dataclass
class Context:
    """What an input gets to know at the start."""

    config: Any  # of the component; None without one
    position: Any = None  # to continue after; None: from the start
    name: str = ""
    pipeline: str = ""
    instance: int = 0  # number of this process among those of the component
    instances: int = 1  # how many there are


@dataclass
class _Handler:
    target: Any
    batch: bool = False
    concurrency: int = 1


_handlers: Dict[str, _Handler] = {}
_setups: List[Callable[[Any], Any]] = []
_link: Optional[Link] = None


@overload
def step(handler: H) -> H: ...
@overload
def step(*, batch: bool = False, concurrency: int = 64) -> Callable[[H], H]: ...
def step(handler: Any = None, *, batch: bool = False, concurrency: int = 64) -> Any:
    """Make a function or a class the step of this program.

    It gets a message, or with batch a list of messages. It changes messages in place, or returns what replaces them.
    At most `concurrency` calls run at once if it is a coroutine function; a function runs once at a time.
    """
    return _register("step", handler, batch, concurrency)


@overload
def output(handler: H) -> H: ...
@overload
def output(*, batch: bool = False, concurrency: int = 64) -> Callable[[H], H]: ...
def output(handler: Any = None, *, batch: bool = False, concurrency: int = 64) -> Any:
    """Make a function or a class the output of this program. A message is written when it returns."""
    return _register("output", handler, batch, concurrency)


def input(handler: H) -> H:
    """Make a generator, or an asynchronous one, the input of this program. It gets a Context and yields messages."""
    return _register("input", handler, False, 1)


def settled(handler: H) -> H:
    """Make a function get the fate of each message of the input: (message, fate, error).

    With a generator, it is called in another thread, so that a generator that waits for messages doesn't delay it.
    """
    _handlers["settled"] = _Handler(handler)
    return handler


def setup(function: H) -> H:
    """Make a function prepare the work of functions. It gets the config, once, before the first message."""
    _setups.append(function)
    return function


def _register(kind: str, handler: Any, batch: bool, concurrency: int) -> Any:
    def register(target: Any) -> Any:
        _handlers[kind] = _Handler(target, batch, concurrency)
        _function(target)
        if getattr(target, "__module__", None) == "__main__":
            call_after_main(run)
        return target

    return register if handler is None else register(handler)


def _function(target: Any) -> Any:
    """Return what is called for messages: target itself, or the method of a class."""
    if not inspect.isclass(target):
        return target
    for name in ("process", "__call__"):
        if any(name in c.__dict__ for c in target.__mro__):
            return getattr(target, name)
    raise TypeError(f"class {target.__name__} needs a method named process or __call__")


# Serving


def run() -> None:
    """Serve flowd and exit. A main program whose handlers are in other modules calls it at its end."""
    if not os.environ.pop("FLOWD_PROGRAM_PROTOCOL", None):
        sys.exit(f"{sys.argv[0]} is a program for flowd. Try it with: python3 -m flowd.test {sys.argv[0]} < FILE")
    own_descriptors()
    sys.exit(_serve(Link(3, 4)))


def _serve(link: Link) -> int:
    """Serve until flowd closes the pipe, and return the exit status."""
    global _link
    _link = link
    os.register_at_fork(before=_block_signals, after_in_parent=_unblock_signals, after_in_child=_leave)
    hello = link.receive()[0]
    functions = [*_setups, *(_function(_handlers[k].target) for k in (hello["kind"], "settled") if k in _handlers)]
    if any(inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f) for f in functions):
        import asyncio  # takes longer to import than the rest

        return asyncio.run(_main(link, hello, True))
    try:
        _main(link, hello, False).send(None)  # it awaits nothing
    except StopIteration as e:
        return e.value
    raise AssertionError


async def _main(link: Link, hello: Dict[str, Any], asynchronous: bool) -> int:
    try:
        server = await _prepare(link, hello, asynchronous)
    except Exception as e:
        error = {"text": describe(e)["text"]}
        if isinstance(e, SettingError):
            error["setting"] = str(e.setting)
        else:
            traceback.print_exc()
        link.send({"type": "ready", "version": 1, "error": error})
        return 1
    ready = {"type": "ready", "version": 1}
    succeeded = await server.serve_async(ready) if asynchronous else server.serve(ready)
    return 1 if succeeded is False else 0


async def _prepare(link: Link, hello: Dict[str, Any], asynchronous: bool) -> Any:
    kind, config, limit = hello["kind"], hello.get("config"), hello["limits"]["body"]
    handler = _handlers.get(kind)
    if not handler:
        has = " and ".join(k for k in _handlers if k != "settled") or "nothing"
        raise Error(f"{sys.argv[0]} has no @flowd.{kind} (it has {has})")
    for function in _setups:
        prepared = function(config)
        if inspect.isawaitable(prepared):
            await prepared
    call = handler.target
    if inspect.isclass(call):
        instance: Any = call(config)  # type: ignore[call-arg]
        call = getattr(instance, "process", instance)
    steps: Any = Steps
    inputs: Any = Input
    if asynchronous:
        from ._async import AsyncInput as inputs, AsyncSteps as steps
    if kind != "input":
        return steps(link, call, kind == "output", handler.batch, handler.concurrency, limit)
    if asynchronous and not inspect.isasyncgenfunction(_function(handler.target)):
        raise Error("an input whose setup or settled is a coroutine function must be an asynchronous generator")
    known = ("position", "name", "pipeline", "instance", "instances")
    context = Context(config, **{name: hello[name] for name in known if name in hello})
    settled = getattr(getattr(call, "__self__", call), "settled", None)
    if "settled" in _handlers:
        settled = _handlers["settled"].target
    return inputs(link, lambda: call(context), settled, limit)


def _leave() -> None:
    """Leave pipes and signals to the parent, in a child made by fork."""
    global _link
    _link = None
    os.close(3)
    os.close(4)
    signal.set_wakeup_fd(-1)  # of asyncio, which the parent reads
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _unblock_signals()


def _block_signals() -> None:
    """Keep signals for a child until it has its own handlers."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))


def _unblock_signals() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))


# What a program can tell flowd at any time, from any thread


def _tell(header: Dict[str, Any]) -> None:
    if _link:
        _link.write(frame(json.dumps(header, default=str)))
    else:
        print(json.dumps(header, default=str), file=sys.stderr)


def state(ready: bool, reason: str = "") -> None:
    """Say whether the program can work. While it can't, the pipeline is not ready. It also shows that the program is alive."""
    _tell({"type": "state", "ready": bool(ready), "reason": str(reason)})


class log:
    """Log lines with fields. Outside of flowd they go to standard error."""

    @staticmethod
    def debug(text: str, /, **fields: Any) -> None:
        _log("debug", text, fields)

    @staticmethod
    def info(text: str, /, **fields: Any) -> None:
        _log("info", text, fields)

    @staticmethod
    def warn(text: str, /, **fields: Any) -> None:
        _log("warn", text, fields)

    @staticmethod
    def error(text: str, /, **fields: Any) -> None:
        _log("error", text, fields)


def _log(level: str, text: str, fields: Dict[str, Any]) -> None:
    try:
        json.dumps(fields, default=str, allow_nan=False)
    except (TypeError, ValueError):  # NaN, or an object that contains itself
        fields = {name: str(value) for name, value in fields.items()}
    _tell({"type": "log", "level": level, "text": str(text), "fields": fields})


class metric:
    """Metrics, which flowd exports. Outside of flowd they go nowhere."""

    @staticmethod
    def count(name: str, value: float = 1, /, **labels: Any) -> None:
        """Add to a counter."""
        if _link:
            _link.count(name, value, _texts(labels))

    @staticmethod
    def gauge(name: str, value: float, /, **labels: Any) -> None:
        """Set a gauge."""
        _observe("gauge", name, value, labels)

    @staticmethod
    def observe(name: str, value: float, /, **labels: Any) -> None:
        """Add a value to a histogram."""
        _observe("histogram", name, value, labels)


def _observe(kind: str, name: str, value: float, labels: Dict[str, Any]) -> None:
    if not math.isfinite(value):
        raise ValueError(f"metric {name}: {value} is not a number")
    if _link:
        _tell({"type": "metric", "name": name, "kind": kind, "value": value, "labels": _texts(labels)})


def _texts(labels: Dict[str, Any]) -> Dict[str, str]:
    return {name: str(value).encode("utf-8", "replace").decode() for name, value in labels.items()}
