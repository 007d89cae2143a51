"""Starts a program: without a call at its end, and with pipes that belong to it alone."""

from __future__ import annotations

import dis
import io
import os
import signal
import sys
import threading
import traceback
from types import FrameType
from typing import Any, Callable

_called = False


def own_descriptors() -> None:
    """Keep the pipes from child processes, and leave the terminal's signal to flowd."""
    for fd in (3, 4):
        os.set_inheritable(fd, False)
        os.set_blocking(fd, True)
    signal.signal(signal.SIGINT, lambda *_: None)  # SIG_IGN would be inherited
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # flowd logs each line


def call_after_main(run: Callable[[], None]) -> None:
    """Call run in the main thread once the main program has been read to its end, but not if it raises or exits."""
    global _called
    if _called:
        return
    _called = True
    if os.environ.get("FLOWD_PROGRAM_PROTOCOL"):
        own_descriptors()
    main, pid = _main_program(), os.getpid()

    def start(*_: Any) -> None:
        if os.getpid() == pid:  # a child made by fork returns from the main program, too
            run()

    if sys.version_info >= (3, 12):
        monitoring = sys.monitoring
        tool = next(i for i in range(5, -1, -1) if monitoring.get_tool(i) is None)
        monitoring.use_tool_id(tool, "flowd")
        monitoring.register_callback(tool, monitoring.events.PY_RETURN, start)
        monitoring.set_local_events(tool, main.f_code, monitoring.events.PY_RETURN)
    else:
        _call_at_shutdown(main, start)


def _main_program() -> FrameType:
    frame = sys._getframe()
    while frame.f_back and not (frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == "__main__"):
        frame = frame.f_back
    return frame


def _call_at_shutdown(main: FrameType, start: Callable[[], None]) -> None:
    """Call start when Python shuts down its threads.

    Hooks of atexit come too late: no thread can start there, and asyncio needs threads. The hooks of the module threading
    come before. Those of concurrent.futures must run after this one, so they are registered first.
    """
    import concurrent.futures.process
    import concurrent.futures.thread  # noqa: F401

    def hook() -> None:
        if not dis.opname[main.f_code.co_code[main.f_lasti]].startswith("RETURN"):
            return  # an exception, or sys.exit
        status: Any = 0
        try:
            start()
        except SystemExit as e:
            status = e.code
            if isinstance(status, str):
                print(status, file=sys.stderr)
                status = 1
        except BaseException:
            traceback.print_exc()
            status = 1
        if status:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    threading._register_atexit(hook)  # type: ignore[attr-defined]
