"""Ray's microbenchmark calls this for its client, a connection to an engine in another process.
skate's engine is in the program: there is nothing to measure."""


def main(results=None):
    """Says that these sections are left out; the results as they are."""
    print("client sections: left out, skate has no client and no server")
    return results
