"""Runs programs over pipes, as flowd does."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)

import flowd  # noqa: E402
from flowd._link import Closed, frame, to_json  # noqa: E402
from flowd.test import Host, results  # noqa: E402


class ProgramCase(unittest.TestCase):
    def start(self, code, kind="step", ready=True, **hello):
        """Start a program, and read its ready."""
        file = tempfile.NamedTemporaryFile("w", suffix=".py", dir=self.dir, delete=False)
        with file:
            file.write("import flowd, sys, time, asyncio, os\n" + textwrap.dedent(code))
        os.environ["PYTHONPATH"] = ROOT
        self.host = Host([sys.executable, file.name], kind, **hello)
        self.hosts.append(self.host)
        if ready:
            self.assertEqual(self.host.receive()[0], {"type": "ready", "version": 1})
        return self.host

    def setUp(self):
        dir = tempfile.TemporaryDirectory()
        self.addCleanup(dir.cleanup)
        self.dir, self.number = dir.name, 0
        self.hosts = []
        self.addCleanup(self.kill)
        signal.signal(signal.SIGALRM, self.give_up)
        signal.alarm(60)
        self.addCleanup(signal.alarm, 0)

    def give_up(self, *_):
        self.fail("the program hangs")

    def kill(self):
        """Kill what a failed test has left behind."""
        for host in self.hosts:
            if not host.closed:
                os.kill(host.pid, signal.SIGKILL)
                os.waitpid(host.pid, 0)

    def batch(self, *payloads, **fields):
        self.number += 1
        payloads = [p if isinstance(p, bytes) else json.dumps(p).encode() for p in payloads]
        self.host.link.send(
            {"type": "batch", "batch": self.number, "sizes": [len(p) for p in payloads], **fields}, payloads
        )

    def answers(self, n, batch=None):
        """Return what becomes of the n messages of a batch: a result without sizes, and payloads."""
        found = {}
        while len(found) < n:
            header, body = self.host.receive()
            if header["type"] != "results" or header["batch"] != (batch or self.number):
                self.other.append(header)
                continue
            for i, result, payloads in results(header, body):
                self.assertNotIn(i, found, "answered twice")
                result.pop("size", None), result.pop("parts", None)
                found[i] = result, payloads
        return [found[i] for i in range(n)]

    @property
    def other(self):
        self.__dict__.setdefault("_other", [])
        return self._other

    def finish(self, status=0):
        self.host.link.send({"type": "drain", "timeout": 5})
        self.assertEqual(self.host.close(), status)


class Step(ProgramCase):
    def test_documents_payloads_and_metadata(self):
        self.start("""
            @flowd.step
            def f(msg):
                case = msg.meta.get("case")
                if case == "doc": msg.doc["n"] += 1
                if case == "read": msg.doc["n"], msg.payload
                if case == "bytes": msg.payload = b"\\xff\\x00"
                if case == "both":
                    msg.payload = '{"n": 5}'
                    msg.doc["n"] = 6
                    msg.meta["new"] = msg.attempt
                    del msg.meta["case"]
                if case == "return": return {"é": "\\ud800"}
                if case == "text": return "é"
                if case == "drop": return flowd.DROP
                if case == "split": return [1, "x", b"\\xff", {"a": None}]
                if case == "none": return []
                if case == "array": msg.doc = [1, 2]
                if case == "message": return flowd.Message({"a": 1}, meta={"m": [1]})
        """)
        cases = "doc read bytes both return text drop split none array message".split()
        original = b'{"n": 9007199254740993, "f": 1.10}'
        self.batch(
            *[original] * len(cases), b"\xff", b"", meta=[{"case": c} for c in cases] + [{}, {}], attempts=[7] * (len(cases) + 2)
        )
        got = dict(zip([*cases, "not JSON", "empty"], self.answers(len(cases) + 2)))
        want = {
            "doc": ({}, [b'{"n":9007199254740994,"f":1.1}']),
            "read": ({}, None),
            "bytes": ({}, [b"\xff\x00"]),
            "both": ({"meta": {"case": None, "new": 7}}, [b'{"n":6}']),
            "return": ({}, [b'{"\\u00e9":"\\ud800"}']),
            "text": ({}, ["é".encode()]),
            "drop": ({"drop": True}, []),
            "split": ({}, [b"1", b"x", b"\xff", b'{"a":null}']),
            "none": ({"drop": True}, []),
            "array": ({}, [b"[1,2]"]),
            "message": ({"meta": {"m": [1]}}, [b'{"a":1}']),
            "not JSON": ({}, None),
            "empty": ({}, None),
        }
        self.assertEqual(got, want)
        self.finish()

    def test_errors_fail_one_message(self):
        self.start("""
            def inner(): raise KeyError("no such thing")
            @flowd.step
            def f(msg):
                if msg.doc == 1: raise flowd.Error("busy", kind="transient", after=1.5)
                if msg.doc == 2: inner()
                if msg.doc == 3: return {"x": object()}
                if msg.doc == 4: return float("nan")
                if msg.doc == 5:
                    try: inner()
                    except KeyError as e: raise flowd.Error("wrapped") from e
                if msg.doc == 6: return "x" * 2000
                if msg.doc == 7: return flowd.Error("returned", "rejected", detail="d")
                return os.getpid()
        """, limits={"body": 1000, "window": 100})  # fmt: skip
        self.batch(0, 1, 2, 3, 4, 5, 6, 7, b"{", b"NaN", 0)
        got = [r["error"] if "error" in r else payloads[0] for r, payloads in self.answers(11)]
        self.assertEqual(got[0], str(self.host.pid).encode())
        self.assertEqual(got[0], got[10], "the program was not restarted")
        self.assertEqual(got[1], {"text": "busy", "class": "transient", "after": 1.5})
        self.assertEqual(got[2]["text"], "KeyError: 'no such thing'")
        self.assertIn("in inner", got[2]["detail"])
        self.assertNotIn("_steps.py", got[2]["detail"])
        self.assertIn("not JSON serializable", got[3]["text"])
        self.assertIn("Out of range float", got[4]["text"])
        self.assertEqual(got[5]["text"], "wrapped")
        self.assertIn("in inner", got[5]["detail"])
        self.assertIn("too large: 2004 bytes", got[6]["text"])
        self.assertEqual(got[7], {"text": "returned", "class": "rejected", "detail": "d"})
        self.assertEqual([got[8]["class"], got[9]["class"]], ["decode", "decode"])
        self.finish()

    def test_nothing_that_a_handler_gives_breaks_a_header(self):
        self.start("""
            loop = []
            loop.append(loop)
            @flowd.step
            def f(msg):
                if msg.doc == 1: msg.meta["x"] = "\\udc80"
                if msg.doc == 2: msg.meta["\\udc80"] = 1
                if msg.doc == 3: msg.meta["x"] = float("inf")
                if msg.doc == 4: raise ValueError("a \\udc80 b")
                if msg.doc == 5: raise flowd.Error(5, kind=flowd, after="1.5", detail=6)
                if msg.doc == 6: flowd.metric.count("c", float("nan"))
                if msg.doc == 7: flowd.metric.gauge("g", float("nan"))
                if msg.doc == 8: flowd.metric.count("c", name=1, value="\\udc80")
                if msg.doc == 9: flowd.log.info(1, text="\\udc80", nan=float("nan"), loop=loop, level=b"")
                if msg.doc == 10: flowd.state(1, None)
        """)
        self.batch(*range(11))
        got = [answer[0].get("error", {}).get("text") for answer in self.answers(11)]
        for i, text in (1, "surrogates not allowed"), (2, "surrogates"), (3, "Out of range"), (6, "Out of range"), (7, "not a number"):
            self.assertIn(text, got[i])
        self.assertEqual([got[i] for i in (0, 4, 5, 8, 9, 10)], [None, "ValueError: a ? b", "5", None, None, None])
        others = {h["type"]: h for h in self.other}
        self.assertEqual(others["metric"]["labels"], {"name": "1", "value": "?"})
        self.assertEqual((others["log"]["text"], others["log"]["fields"]["nan"]), ("1", "nan"))
        self.assertEqual(others["state"], {"type": "state", "ready": True, "reason": "None"})
        self.finish()

    def test_split_frames_and_large_bodies(self):
        host = self.start("""
            @flowd.step
            def f(msg): return msg.payload[::-1]
        """)
        large = os.urandom(8 << 20)
        self.number = 1
        whole = frame(to_json({"type": "batch", "batch": 1, "sizes": [3, len(large)]}), [b"abc", large])
        for part in (whole[:3], whole[3:9], whole[9:100], whole[100:]):
            host.link.write(part)
        self.assertEqual(self.answers(2), [({}, [b"cba"]), ({}, [large[::-1]])])
        self.finish()

    def test_results_are_cut_to_the_limit(self):
        self.start("""
            @flowd.step
            def f(msg): return b"x" * 60
        """, limits={"body": 100, "window": 100})  # fmt: skip
        self.batch(1, 2, 3)
        for i in range(3):
            header, body = self.host.receive()
            self.assertEqual((header["first"], header["results"], len(body)), (i, [60], 60))
        self.finish()

    def test_slow_results_leave_early_and_cancel_is_seen_between_messages(self):
        go = os.path.join(self.dir, "go")
        self.start("""
            @flowd.step
            def f(msg):
                time.sleep(0.06)
                while msg.doc == 1 and not os.path.exists(msg.meta["go"]): time.sleep(0.001)
                return "seen"
        """)
        self.batch(*range(100), meta=[{"go": go}] * 100)
        found = self.host.receive()[0]["results"]
        self.assertEqual(len(found), 1)
        self.host.link.send({"type": "cancel", "batch": 1, "indices": list(range(2, 100))})
        self.host.link.send({"type": "cancel", "batch": 99})
        open(go, "w").close()
        while len(found) < 100:
            found += self.host.receive()[0]["results"]
        self.assertEqual(found, [4, 4] + [None] * 98)
        self.finish()

    def test_batches(self):
        self.start("""
            @flowd.step(batch=True)
            def f(msgs):
                if len(msgs) == 1: raise ValueError("all")
                if len(msgs) == 2: return [1]
                if len(msgs) == 3: return "x"
                if len(msgs) == 4: return
                msgs[0].doc["a"] = 1
                msgs[1].fail("bad", kind="rejected", after=2)
                msgs[2].fail(KeyError("k"))
                return [None, None, None, [1, 2], flowd.Error("e"), flowd.DROP, {"b": 2}]
        """)
        doc = b'{"id": 1}'
        self.batch(*[doc] * 7)
        got = self.answers(7)
        self.assertEqual(got[0], ({}, [b'{"id":1,"a":1}']))
        self.assertEqual(got[1][0]["error"], {"text": "bad", "class": "rejected", "after": 2})
        self.assertEqual(got[2][0]["error"]["text"], "KeyError: 'k'")
        self.assertEqual(got[3:], [
            ({}, [b"1", b"2"]), ({"error": {"text": "e"}}, []), ({"drop": True}, []), ({}, [b'{"b":2}'])
        ])  # fmt: skip
        for n, text in (1, "ValueError: all"), (2, "result for each of 2 messages"), (3, "result for each of 3 messages"):
            self.batch(*[doc] * n)
            for result, _ in self.answers(n):
                self.assertIn(text, result["error"]["text"])
        self.batch(*[doc] * 4)
        self.assertEqual(self.answers(4), [({}, None)] * 4)
        self.finish()

    def test_coroutines_run_side_by_side_and_are_cancelled(self):
        self.start("""
            running = most = 0
            @flowd.step(concurrency=3)
            async def f(msg):
                global running, most
                running += 1
                most = max(most, running)
                try:
                    if msg.doc == "hang": await asyncio.sleep(100)
                    if msg.doc == "raise": raise ValueError("no")
                    if msg.doc == "most": return most
                    await asyncio.sleep(0.01)
                finally:
                    running -= 1
        """)
        self.batch("hang", *["x"] * 10, "raise", "most")
        self.assertFalse(any(0 == h.get("first") for h in [self.host.receive()[0]]), "results don't wait for the slow one")
        self.host.link.send({"type": "cancel", "batch": 1, "indices": [0]})
        self.batch("hang", "most", "hang")
        self.host.link.send({"type": "cancel", "batch": 2})
        self.assertEqual(self.answers(3), [({}, None)] * 3)
        self.batch("most")
        self.assertEqual(self.answers(1), [({}, [b"3"])])
        self.finish()

    def test_coroutines_of_batches(self):
        self.start("""
            @flowd.step(batch=True)
            async def f(msgs):
                await asyncio.sleep(0.001)
                return [m.doc + 1 for m in msgs]
        """)
        self.batch(1, 2)
        self.batch(3, b"x")
        self.assertEqual(self.answers(2, batch=1), [({}, [b"2"]), ({}, [b"3"])])
        self.assertEqual([r["error"]["class"] for r, _ in self.answers(2)], ["decode"] * 2)
        self.finish()

    def test_a_class_is_built_once(self):
        self.start("""
            print("noise")
            @flowd.step
            class Score:
                def __init__(self, config): self.factor = config["factor"]
                def __call__(self, msg): return msg.doc * self.factor
        """, config={"factor": 3})  # fmt: skip
        self.batch(2, "x")
        self.assertEqual(self.answers(2), [({}, [b"6"]), ({}, [b"xxx"])])
        self.finish()

    def test_setup_and_asynchronous_setup(self):
        for prefix in "", "async ":
            self.start(f"""
                @flowd.setup
                {prefix}def load(config):
                    global model
                    model = config
                @flowd.step
                class Score:
                    def __init__(self, config): pass
                    {prefix}def process(self, msg): return model
            """, config=[1])  # fmt: skip
            self.batch(2)
            self.assertEqual(self.answers(1), [({}, [b"1"])])
            self.finish()

    def test_key_deadline_and_errors(self):
        self.start("""
            @flowd.step
            def f(msg): return {"key": msg.key, "left": 25 < msg.deadline - time.monotonic() <= 30, "error": msg.error}
        """)
        self.batch(1, 2, key=["a"], timeout=30, errors=[None, {"text": "t"}])
        self.assertEqual(
            [json.loads(p[0]) for _, p in self.answers(2)],
            [{"key": ["a"], "left": True, "error": None}, {"key": ["a"], "left": True, "error": {"text": "t"}}],
        )
        self.finish()

    def test_logs_metrics_and_states(self):
        self.start("""
            @flowd.step
            def f(msg):
                flowd.log.warn("hé", n=msg.doc, o=object)
                flowd.metric.count("hits", model="a")
                flowd.metric.count("hits", 2, model="a")
                flowd.metric.gauge("depth", 3.5)
                flowd.metric.observe("seconds", 0.1, x="y")
                flowd.state(False, "no disk")
        """)
        self.batch(1)
        self.assertEqual(self.answers(1), [({}, None)])
        hits = sum(h["value"] for h in self.other if h.get("name") == "hits" and h["labels"] == {"model": "a"})
        self.assertEqual(hits, 3)
        others = [h for h in self.other if h.get("name") != "hits"]
        self.assertEqual(others[0], {
            "type": "log", "level": "warn", "text": "hé", "fields": {"n": 1, "o": "<class 'object'>"}
        })  # fmt: skip
        self.assertEqual([h.get("kind") for h in others], [None, "gauge", "histogram", None])
        self.assertEqual(others[3], {"type": "state", "ready": False, "reason": "no disk"})
        self.finish()

    def test_threads_write_whole_frames(self):
        self.start("""
            import threading
            def chatter():
                for i in range(200): flowd.log.info("x" * 3000)
            @flowd.step
            def f(msg):
                threads = [threading.Thread(target=chatter) for _ in range(4)]
                for t in threads: t.start()
                for t in threads: t.join()
        """)
        self.batch(1)
        self.answers(1)
        self.assertEqual(len(self.other), 800)
        self.finish()


class Start(ProgramCase):
    def failure(self, code, kind="step", **hello):
        error = self.start(code, kind, ready=False, **hello).receive()[0]["error"]
        self.assertEqual(self.host.close(), 1)
        return error

    def test_what_is_wrong_is_in_ready(self):
        with self.quiet():
            step = "\n@flowd.step\ndef f(msg): pass\n"
            load = "@flowd.setup\ndef load(config): "
            self.assertEqual(
                self.failure(load + "raise flowd.SettingError('model', 'no such model')" + step),
                {"text": "no such model", "setting": "model"},
            )
            self.assertEqual(self.failure(load + "1/0" + step), {"text": "ZeroDivisionError: division by zero"})
            self.assertIn("has no @flowd.input (it has step)", self.failure(step, kind="input")["text"])

    def test_a_program_that_does_not_load_exits(self):
        for last, status in ("raise ValueError", 1), ("sys.exit(3)", 3), ("raise SystemExit", 0), ("def", 1), ("os._exit(4)", 4):
            with self.quiet():
                self.start("@flowd.step\ndef f(msg): pass\n" + last, ready=False)
                with self.assertRaises(Closed):
                    self.host.receive()
                self.assertEqual(self.host.close(), status)

    def test_children_made_by_fork_are_left_alone(self):
        for prefix in "", "async ":
            self.start(f"""
                import multiprocessing
                fork = multiprocessing.get_context("fork").Process
                @flowd.step
                {prefix}def f(msg):
                    children = [fork(target=lambda: None), fork(target=time.sleep, args=(100,))]
                    for child in children: child.start()
                    children[1].terminate()
                    for child in children: child.join()
                    msg.doc = [child.exitcode for child in children]
            """)
            for _ in range(2):
                self.batch(1)
                self.assertEqual(self.answers(1), [({}, [b"[0,-15]"])])
            self.finish()

    def test_imports_do_not_serve(self):
        env = {**os.environ, "FLOWD_PROGRAM_PROTOCOL": "1"}
        with open(os.path.join(self.dir, "score.py"), "w") as f:
            f.write("import flowd\n@flowd.step\ndef f(msg): msg.doc['a'] = 1\n")
        code = "import flowd, score; m = flowd.Message({}); score.f(m); print(m.payload)"
        out = subprocess.run([sys.executable, "-c", code], cwd=self.dir, env=env, stdout=subprocess.PIPE, check=True)
        self.assertEqual(out.stdout, b"b'{\"a\":1}'\n")

    def test_run_serves_handlers_of_other_modules(self):
        with open(os.path.join(self.dir, "score.py"), "w") as f:
            f.write("import flowd\n@flowd.step\ndef f(msg): return 1\n")
        self.start("import score\nflowd.run()")
        self.batch(0)
        self.assertEqual(self.answers(1), [({}, [b"1"])])
        self.finish()

    def test_descriptors_are_not_inherited(self):
        self.start("""
            import subprocess
            @flowd.step
            def f(msg): return subprocess.run(["sh", "-c", "true >&4"], close_fds=False, stderr=subprocess.DEVNULL).returncode
        """)
        self.batch(1)
        self.assertNotEqual(self.answers(1), [({}, [b"0"])])
        self.finish()

    def quiet(self):
        """Hide standard error of programs, which is inherited."""
        saved, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)

        class Quiet:
            def __enter__(self):
                os.dup2(null, 2)

            def __exit__(self, *_):
                os.dup2(saved, 2)
                os.close(saved), os.close(null)

        return Quiet()


class End(ProgramCase):
    def test_frames_after_drain_are_answered(self):
        for prefix in "", "async ":
            self.start(f"@flowd.step\n{prefix}def f(msg): time.sleep(0.01)")
            self.batch(1, 2, 3)
            self.host.link.send({"type": "drain", "timeout": 5})
            self.assertEqual(self.answers(3), [({}, None)] * 3)
            self.assertEqual(self.host.close(), 0)

    def test_the_pipe_closes_without_drain(self):
        for code in (
            "@flowd.step\ndef f(msg): time.sleep(0.1)",
            "@flowd.step\nasync def f(msg): await asyncio.sleep(100)",
        ):
            self.start(code)
            self.batch(*range(1000))
            began = time.monotonic()
            self.assertEqual(self.host.close(), 0)
            self.assertLess(time.monotonic() - began, 20)

    def test_sigterm_finishes_what_is_there_and_sigint_is_ignored(self):
        for code in (
            "@flowd.step\ndef f(msg): time.sleep(0.01)",
            "@flowd.step\nasync def f(msg): await asyncio.sleep(0.01)",
        ):
            self.start(code)
            os.kill(self.host.pid, signal.SIGINT)
            self.batch(*range(20))
            self.host.receive()
            os.kill(self.host.pid, signal.SIGTERM)
            with self.assertRaises(Closed):
                while True:
                    self.host.receive()
            self.assertEqual(self.host.close(), 0)

    def test_sigterm_ends_an_idle_program(self):
        for prefix in "", "async ":
            self.start(f"@flowd.step\n{prefix}def f(msg): pass")
            os.kill(self.host.pid, signal.SIGTERM)
            with self.assertRaises(Closed):
                self.host.receive()
            self.assertEqual(self.host.close(), 0)


class Output(ProgramCase):
    def test_returning_means_written(self):
        for prefix in "", "async ":
            self.start(f"""
                @flowd.output
                {prefix}def f(msg):
                    if msg.doc == 1: raise OSError("disk")
                    if msg.doc == 2: return flowd.Error("full", kind="transient", after=3)
                    return "ignored"
            """, kind="output")  # fmt: skip
            self.batch(0, 1, 2)
            got = self.answers(3)
            self.assertEqual(got[0], ({}, None))
            self.assertEqual(got[1][0]["error"]["text"], "OSError: disk")
            self.assertNotIn("class", got[1][0]["error"], "flowd knows the default of outputs")
            self.assertEqual(got[2][0]["error"], {"text": "full", "class": "transient", "after": 3})
            self.finish()

    def test_batches(self):
        self.start("""
            @flowd.output(batch=True)
            def f(msgs):
                msgs[0].fail("no")
                return [None, flowd.Error("too")] if len(msgs) == 2 else 17
        """, kind="output")  # fmt: skip
        self.batch(0, 1)
        self.assertEqual([r["error"]["text"] for r, _ in self.answers(2)], ["no", "too"])
        self.batch(0, 1, 2)
        self.assertEqual([r.get("error", {}).get("text") for r, _ in self.answers(3)], ["no", None, None])
        self.finish()


class Input(ProgramCase):
    def messages(self, n):
        """Return payload, metadata and position of the next n messages."""
        found = []
        while len(found) < n:
            header, body = self.host.receive()
            self.assertEqual(header["type"], "messages")
            at, sizes = 0, header["sizes"]
            none = [None] * len(sizes)
            for size, meta, position in zip(sizes, header.get("meta", none), header.get("positions", none)):
                found.append((body[at : at + size], meta, position))
                at += size
        self.assertEqual(len(found), n, "more messages than credits")
        return found

    FORMS = [("def", "time.sleep", "def"), ("async def", "await asyncio.sleep", "def"), ("async def", "await asyncio.sleep", "async def")]

    def credit(self, n):
        self.host.link.send({"type": "credit", "messages": n})

    def test_positions_credits_and_the_end(self):
        for form, _, _ in self.FORMS[:2]:
            self.start(f"""
                @flowd.input
                {form} numbers(ctx):
                    for n in range(ctx.position + 1, ctx.config["to"]): yield flowd.Message(n, meta={{"n": n}}, position=n)
                    yield "é"
                    yield [b"\\xff", {{"a": 1}}]
                    yield None
            """, kind="input", config={"to": 1000}, position=9)  # fmt: skip
            self.credit(3)
            self.assertEqual(self.messages(3), [(b"%d" % n, {"n": n}, n) for n in (10, 11, 12)])
            self.credit(1)
            self.credit(1000)
            self.assertEqual(
                self.messages(990)[-4:],
                [(b"999", {"n": 999}, 999), ("é".encode(), None, None), (b"\xff", None, None), (b'{"a":1}', None, None)],
            )
            self.assertEqual(self.host.receive()[0], {"type": "end"})
            self.assertEqual(self.host.close(), 0)

    def test_fates_come_back_in_order(self):
        for form, sleep, settled in self.FORMS:
            self.start(f"""
                @flowd.input
                {form} queue(ctx):
                    for i in range(3): yield flowd.Message(i, tag=object())
                    {sleep}(100)
                @flowd.settled
                {settled} done(msg, fate, error):
                    flowd.log.info(fate, doc=msg.doc, tag=type(msg.tag).__name__,
                                   error=error and [error.text, error.kind, error.after])
            """, kind="input")  # fmt: skip
            self.credit(10)
            self.messages(3)
            error = {"text": "t", "class": "transient", "after": 5}
            self.host.link.send(
                {"type": "fates", "numbers": [3, 1], "fates": ["returned", "delivered"], "errors": [error, None]}
            )
            self.host.link.send({"type": "drain", "timeout": 5})
            self.host.link.send({"type": "fates", "numbers": [2, 77], "fates": ["dropped", "delivered"]})
            headers = [self.host.receive()[0] for _ in range(4)]
            self.assertEqual([h["fields"] for h in headers if h["type"] == "log"], [
                {"doc": 2, "tag": "object", "error": ["t", "transient", 5]},
                {"doc": 0, "tag": "object", "error": None},
                {"doc": 1, "tag": "object", "error": None},
            ])  # fmt: skip
            self.assertEqual([h for h in headers if h["type"] != "log"], [{"type": "end"}])
            began = time.monotonic()
            self.assertEqual(self.host.close(), 0)
            self.assertLess(time.monotonic() - began, 20, "a generator that waits doesn't delay the end")

    def test_a_generator_that_raises(self):
        for form, _, _ in self.FORMS[:2]:
            self.start(f"@flowd.input\n{form} f(ctx):\n  yield 1\n  raise OSError('gone')", kind="input")
            self.credit(10)
            self.messages(1)
            header = self.host.receive()[0]
            self.assertEqual((header["type"], header["error"]["text"]), ("error", "OSError: gone"))
            self.assertEqual(self.host.close(), 1)

    def test_messages_that_flowd_would_refuse(self):
        for value, text in (
            ({"meta": {"a": "\udc80"}}, "surrogates"),
            ({"position": "x" * 70000}, "position has 70002"),
            ({"value": "x" * 2000}, "message has 2000 bytes"),
        ):
            self.start(f"@flowd.input\ndef f(ctx): yield flowd.Message(**{value!r})", kind="input", limits={"body": 1000})
            self.credit(10)
            self.assertIn(text, self.host.receive()[0]["error"]["text"])
            self.assertEqual(self.host.close(), 1)

    def test_settled_that_raises(self):
        for form, sleep, settled in self.FORMS:
            self.start(f"""
                @flowd.input
                {form} f(ctx):
                    yield 1
                    {sleep}(100)
                @flowd.settled
                {settled} done(msg, fate, error): raise OSError("gone")
            """, kind="input")  # fmt: skip
            self.credit(10)
            self.messages(1)
            self.host.link.send({"type": "fates", "numbers": [1], "fates": ["delivered"]})
            self.assertEqual(self.host.receive()[0]["error"]["text"], "OSError: gone")
            self.assertEqual(self.host.close(), 1)

    def test_the_generator_is_closed(self):
        for form, sleep, _ in self.FORMS[:2]:
            for how in "drain", "close", "sigterm":
                path = os.path.join(self.dir, how + form[:1])
                self.start(f"""
                    @flowd.input
                    class Endless:
                        def __init__(self, config): self.path = config
                        {form} __call__(self, ctx):
                            try:
                                while True:
                                    yield 1
                                    {sleep}(0.001)
                            finally:
                                open(self.path, "w").close()
                """, kind="input", config=path)  # fmt: skip
                self.credit(2)
                self.messages(2)
                if how == "sigterm":
                    os.kill(self.host.pid, signal.SIGTERM)
                if how == "drain":
                    self.host.link.send({"type": "drain", "timeout": 5})
                    self.assertEqual(self.host.receive()[0], {"type": "end"})
                self.assertEqual(self.host.close(), 0)
                self.assertTrue(os.path.exists(path), (form, how))


class Runner(ProgramCase):
    def run_file(self, code, *args, stdin=b""):
        path = os.path.join(self.dir, "p.py")
        with open(path, "w") as f:
            f.write("import flowd\n" + textwrap.dedent(code))
        command = [sys.executable, "-m", "flowd.test", path, *args]
        done = subprocess.run(command, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def test_steps(self):
        code = """
            @flowd.step
            def f(msg):
                print("noise")
                return [msg.doc * 2, msg.meta["m"]] if msg.doc else flowd.DROP
        """
        self.assertEqual(self.run_file(code, "--meta", '{"m": 1}', stdin=b"2\n0\n3\n")[:2], (0, "4\n1\n6\n1\n"))
        status, out, err = self.run_file(code, "--batch", "1", stdin=b'1\n2\n"x\n')
        self.assertEqual((status, out), (1, ""))
        self.assertIn("line 2: permanent: KeyError: 'm'", err)
        self.assertIn("line 3: decode: payload is not valid JSON", err)

    def test_inputs_and_what_is_wrong(self):
        code = "@flowd.input\ndef f(ctx):\n  for i in range(ctx.config): yield i"
        self.assertEqual(self.run_file(code, "--kind", "input", "--config", "3"), (0, "0\n1\n2\n", ""))
        self.assertEqual(self.run_file(code, "--kind", "input", "--config", "3", "--limit", "2")[:2], (0, "0\n1\n"))
        self.assertIn("it has input", self.run_file(code)[2])
        self.assertIn("has ended with status 1", self.run_file("raise ValueError")[2])


if __name__ == "__main__":
    unittest.main()
