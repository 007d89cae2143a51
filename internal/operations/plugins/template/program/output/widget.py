import flowd


@flowd.setup
def prepare(config):  # called once: open a file, or connect to a database
    global file
    file = open(config["path"], "ab")


@flowd.output(batch=True)
def write(msgs):
    for msg in msgs:
        file.write(msg.payload + b"\n")
    file.flush()
