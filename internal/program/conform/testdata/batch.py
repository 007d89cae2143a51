import flowd


@flowd.step(batch=True)
def measure(msgs):
    for msg in msgs:
        msg.doc["size"] = len(msg.doc["text"])


@flowd.output(batch=True)
def write(msgs):
    for msg in msgs:
        assert msg.doc["text"]


@flowd.input
def numbers(ctx):
    n = ctx.position or 0
    yield [flowd.Message({"n": i}, position=i) for i in range(n + 1, 3000)]
