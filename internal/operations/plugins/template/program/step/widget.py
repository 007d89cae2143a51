import flowd


@flowd.setup
def prepare(config):  # called once: load a model, or connect to a database
    global field
    field = config["field"]


@flowd.step
def process(msg):
    msg.doc["length"] = len(msg.doc[field])
