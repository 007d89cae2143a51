import flowd


@flowd.step
def noop(message):
    pass
