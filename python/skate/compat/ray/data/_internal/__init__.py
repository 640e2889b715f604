"""Names of Ray Data's internals that its documents tell users to write datasources with."""
