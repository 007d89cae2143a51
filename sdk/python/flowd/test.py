"""Run a program for flowd without flowd.

    python -m flowd.test score.py < sample

Each line of standard input is a message. The payloads that leave are printed, one per line, and errors go to standard
error. The exit status is 1 if a message failed, or the program.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from itertools import islice
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from ._link import Closed, Link

BODY = 64 << 20


class Host:
    """A program, and flowd's side of its pipes."""

    def __init__(self, command: Sequence[str], kind: str = "step", config: Any = None, **hello: Any) -> None:
        (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, 2, 1),  # what it prints is no result
            (os.POSIX_SPAWN_DUP2, theirs_out, 100),  # it may be 3, which the next line overwrites
            (os.POSIX_SPAWN_DUP2, theirs_in, 3),
            (os.POSIX_SPAWN_DUP2, 100, 4),
            (os.POSIX_SPAWN_CLOSE, 100),
        ]
        env = {**os.environ, "FLOWD_PROGRAM_PROTOCOL": "1"}
        self.closed = False
        self.pid = os.posix_spawnp(command[0], list(command), env, file_actions=actions)
        os.close(theirs_in)
        os.close(theirs_out)
        self.link, self._out = Link(ours_in, ours_out), ours_out
        first = {"type": "hello", "version": 1, "kind": kind, "name": "test", "pipeline": "test", "instance": 0}
        self.link.send({**first, "config": config, "limits": {"body": BODY, "window": 1024}, "position": None, **hello})

    def receive(self) -> Tuple[Dict[str, Any], bytes]:
        """Return the next frame of the program."""
        return self.link.receive()

    def close(self) -> int:
        """Close the pipe, and return the exit status of the program."""
        self.closed = True
        os.close(self._out)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def results(header: Dict[str, Any], body: bytes) -> Iterator[Tuple[int, Dict[str, Any], Optional[List[bytes]]]]:
    """Return index, result and payloads of each result in a frame. The payloads are None if they are unchanged."""
    at = 0
    for i, result in enumerate(header["results"], header.get("first", 0)):
        if not isinstance(result, dict):
            result = {} if result is None else {"size": result}
        payloads = [] if "drop" in result or "error" in result else None
        if "size" in result or "parts" in result:
            payloads = []
            for size in result.get("parts", [result.get("size")]):
                payloads.append(body[at : at + size])
                at += size
        yield i, result, payloads


def _run(host: Host, args: argparse.Namespace) -> bool:
    """Send the lines of standard input, and print what becomes of them. Return False if a message fails."""
    succeeded, line, number = True, 0, 0
    while True:
        payloads = [text.rstrip(b"\r\n") for text in islice(sys.stdin.buffer, args.batch)]
        if not payloads:
            return succeeded
        number, n = number + 1, len(payloads)
        header = {"type": "batch", "batch": number, "sizes": [len(p) for p in payloads], "attempts": [1] * n}
        host.link.send({**header, "meta": [args.meta] * n} if args.meta else header, payloads)
        done: Dict[int, Tuple[Dict[str, Any], List[bytes]]] = {}
        while len(done) < n:
            frame = host.receive()
            if frame[0]["type"] == "error":
                sys.exit(f"the program can't go on: {frame[0]['error']['text']}")
            _tell(frame[0])
            for i, result, changed in results(*frame) if frame[0]["type"] == "results" else ():
                done[i] = result, [payloads[i]] if changed is None else changed
        for i in range(n):
            result, leaving = done[i]
            sys.stdout.buffer.writelines(payload + b"\n" for payload in leaving)
            if "error" in result:
                succeeded = False
                error = result["error"]
                print(f"line {line + i + 1}: {error.get('class', args.default)}: {error['text']}", file=sys.stderr)
                print(error.get("detail", ""), end="", file=sys.stderr)
        line += n


def _receive(host: Host, args: argparse.Namespace) -> bool:
    """Print the messages of an input. All of them are delivered."""
    host.link.send({"type": "credit", "messages": args.limit})
    number = 0
    while number < args.limit:
        header, body = host.receive()
        if header["type"] == "end":
            break
        if header["type"] == "error":
            sys.exit(f"the program can't go on: {header['error']['text']}")
        _tell(header)
        if header["type"] == "messages":
            at, n = 0, len(header["sizes"])
            for size in header["sizes"]:
                sys.stdout.buffer.write(body[at : at + size] + b"\n")
                at += size
            host.link.send({"type": "fates", "numbers": [number + i + 1 for i in range(n)], "fates": ["delivered"] * n})
            number += n
    return True


def _tell(header: Dict[str, Any]) -> None:
    if header["type"] in ("log", "metric", "state"):
        print(json.dumps(header), file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m flowd.test", description="Run a program for flowd without flowd.")
    parser.add_argument("program", help="file with the program")
    parser.add_argument("--kind", choices=["step", "input", "output"], default="step", help="what to run it as (default: step)")
    parser.add_argument("--config", type=json.loads, help="config of the component as JSON")
    parser.add_argument("--meta", type=json.loads, help="metadata of each message as a JSON object")
    parser.add_argument("--batch", type=int, default=256, metavar="N", help="messages in a batch (default: 256)")
    parser.add_argument("--limit", type=int, default=1000, metavar="N", help="messages to take from an input (default: 1000)")
    args = parser.parse_args()
    args.default = "transient" if args.kind == "output" else "permanent"
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    host = Host([sys.executable, args.program], args.kind, args.config)
    try:
        ready = host.receive()[0]
        if "error" in ready:
            setting = ready["error"].get("setting")
            sys.exit(f"not ready: {f'config.{setting}: ' if setting else ''}{ready['error']['text']}")
        succeeded = (_receive if args.kind == "input" else _run)(host, args)
        sys.stdout.flush()
        status = host.close()
    except Closed:
        sys.exit(f"the program has ended with status {host.close()}")
    sys.exit(0 if succeeded and not status else 1)


if __name__ == "__main__":
    main()
