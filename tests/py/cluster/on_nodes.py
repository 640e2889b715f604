"""A pytest plugin: `-p on_nodes` runs tests that were written for the local engine over the engine
`cluster` of two nodes on this machine."""

import os

os.environ["SKATE_NODES"] = "2"
