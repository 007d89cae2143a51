import asyncio

import flowd


@flowd.step
async def measure(msg):
    await asyncio.sleep(0.001)
    msg.doc["size"] = len(msg.doc["text"])
    msg.meta["measured"] = True


@flowd.output
async def write(msg):
    await asyncio.sleep(0.001)
    assert msg.doc["text"]


@flowd.input
async def numbers(ctx):
    n = ctx.position or 0
    while True:
        n += 1
        yield flowd.Message({"n": n}, position=n)
