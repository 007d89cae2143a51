"""Serves with coroutine functions and asynchronous generators, all in one thread."""

from __future__ import annotations

import asyncio
import inspect
import signal
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from ._inputs import SOON, Input, messages
from ._link import Closed
from ._steps import FLUSH, Batch, Steps


class AsyncSteps(Steps):
    """Runs calls of a coroutine function side by side."""

    async def serve_async(self, ready: Dict[str, Any]) -> None:
        """Serve until flowd closes its pipe."""
        loop = asyncio.get_running_loop()
        self.done = loop.create_future()
        self.tasks: Dict[asyncio.Future, Tuple[Batch, List[int]]] = {}  # and the messages that they work on
        self.timer: Optional[asyncio.TimerHandle] = None
        loop.add_reader(self.link.read_fd, self._readable)
        loop.add_signal_handler(signal.SIGTERM, self._end)
        self.link.send(ready)
        await self.done

    def _readable(self) -> None:
        self._read_ahead()
        if self.ending:
            self._end()
        else:
            self._start_tasks()

    def _cancel(self, batch: Batch, indices: Optional[List[int]]) -> None:
        super()._cancel(batch, indices)
        for task, (working_on, its) in self.tasks.items():
            if working_on is batch and all(batch.messages[i].cancelled for i in its):
                task.cancel()

    def _end(self) -> None:
        self.ending = True
        asyncio.get_running_loop().remove_reader(self.link.read_fd)
        self._start_tasks()

    def _start_tasks(self) -> None:
        while self.queue and len(self.tasks) < self.concurrency:
            batch = self.queue[0]
            indices = list(batch.waiting) if self.batchwise else [batch.waiting.popleft()]
            if self.batchwise or not batch.waiting:
                self.queue.popleft()
            messages = [batch.messages[i] for i in indices]
            if all(msg.cancelled for msg in messages):
                self._keep(batch, indices, None)
                continue
            task = asyncio.ensure_future(_await(self.call, messages if self.batchwise else messages[0]))
            self.tasks[task] = batch, indices
            task.add_done_callback(self._task_done)
        if self.ending and not self.tasks and not self.done.done():
            self.done.set_result(None)

    def _task_done(self, task: asyncio.Future) -> None:
        batch, indices = self.tasks.pop(task)
        if task.cancelled():
            if not all(batch.messages[i].cancelled for i in indices):
                return  # the program ends
            self._keep(batch, indices, None)
        else:
            self._keep(batch, indices, task.exception() or task.result())
        self._start_tasks()

    def _keep(self, batch: Batch, indices: List[int], value: Any) -> None:
        self._settle(batch, indices, value)
        wait = self.written + FLUSH - time.monotonic()
        if len(batch.results) == batch.unanswered or wait <= 0:
            self.flush(batch)
        elif self.timer is None:
            self.timer = asyncio.get_running_loop().call_later(wait, self._flush_all)

    def _flush_all(self) -> None:
        self.timer = None
        for batch in list(self.batches.values()):
            self.flush(batch)


async def _await(call: Callable[[Any], Any], argument: Any) -> Any:
    value = call(argument)
    return await value if inspect.isawaitable(value) else value


class AsyncInput(Input):
    """Runs an asynchronous generator."""

    async def serve_async(self, ready: Dict[str, Any]) -> bool:
        """Run the generator until flowd closes its pipe. Return False if it fails."""
        loop = asyncio.get_running_loop()
        self.done, self.credit, self.fates = loop.create_future(), asyncio.Event(), asyncio.Queue()
        self.generator = asyncio.ensure_future(self._run_generator())
        self.generator.add_done_callback(self._generated)
        settler = asyncio.ensure_future(self._settle_fates())
        loop.add_reader(self.link.read_fd, self._readable)
        loop.add_signal_handler(signal.SIGTERM, self.generator.cancel)
        self.link.send(ready)
        await self.done
        settler.cancel()
        return not self.failed

    def _finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def _readable(self) -> None:
        try:
            received_frame = self.link.poll()
            while received_frame is not None:
                for fate in self.handle(received_frame[0]):
                    self.fates.put_nowait(fate)
                received_frame = self.link.poll()
        except Closed:
            asyncio.get_running_loop().remove_reader(self.link.read_fd)
            self.ended = True
            self.fates.put_nowait(None)
        self.credit.set()
        if self.ended:
            self.generator.cancel()

    async def _run_generator(self) -> None:
        loop, rested = asyncio.get_running_loop(), time.monotonic()
        async for value in self.generate():
            for msg in messages(value):
                while not self.put(msg):
                    self.credit.clear()
                    await self.credit.wait()
                if len(self.pending) == 1:
                    loop.call_later(SOON, self.flush)
            if time.monotonic() > rested + SOON:
                await asyncio.sleep(0)  # a generator that never waits must not keep frames from being read
                rested = time.monotonic()

    def _generated(self, task: asyncio.Future) -> None:
        if not task.cancelled():
            self.end(task.exception())
        elif not self.ended:  # SIGTERM
            self.flush()
            self._finish()
        if self.failed:
            self._finish()

    async def _settle_fates(self) -> None:
        try:
            while True:
                fate = await self.fates.get()
                if fate is None:
                    return self._finish()
                result = self.settled(*fate)
                if inspect.isawaitable(result):
                    await result
        except Exception as e:
            self.end(e)
            self._finish()
