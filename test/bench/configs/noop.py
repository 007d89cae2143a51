import flowd


@flowd.step(batch=True)
def noop(messages):
    pass
