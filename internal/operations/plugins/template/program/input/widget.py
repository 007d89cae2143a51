import flowd


@flowd.input
def read(ctx):
    for n in range((ctx.position or 0) + 1, ctx.config["to"] + 1):
        yield flowd.Message({"n": n}, position=n)
