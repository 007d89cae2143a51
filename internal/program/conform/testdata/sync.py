import flowd

print("prints do no harm")


@flowd.step
def measure(msg):
    print("measure")
    msg.doc["size"] = len(msg.doc["text"])
    msg.meta["measured"] = True


@flowd.output
def write(msg):
    flowd.log.debug("write", begin=msg.doc["text"][:10])


@flowd.input
def numbers(ctx):
    n = ctx.position or 0
    while True:
        n += 1
        yield flowd.Message({"n": n}, position=n)


@flowd.settled
def settle(msg, fate, error):
    flowd.metric.count("settled_total", fate=fate)
