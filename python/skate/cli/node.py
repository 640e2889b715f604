"""`skate node`: this machine as one node of a program that runs on several."""

import argparse
import os
from typing import Any

from skate import config
from skate._deps import json
from skate.cli import out
from skate.engine import hosts

EXAMPLES = """
skate node --listen 10.0.0.7:7400                        # the program says skate.init("skate://10.0.0.7:7400,...")
srun --ntasks-per-node=1 skate node --listen 0.0.0.0:7400
skate node --connect 10.0.0.1:7400                       # the program says skate.init("skate://10.0.0.1:7400?nodes=4")
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Lets this machine work for one program that runs on several, and ends with it. The program "
        "and all nodes need the same skate, the same Python, and a secret that they share: a random "
        "text in a file (SKATE_SECRET_FILE), or in SKATE_SECRET. SKATE_OBJECT_STORE_MEMORY, "
        "SKATE_SPILL_DIR and the like set what the node takes of the machine."
    )
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument(
        "--listen",
        metavar="HOST:PORT",
        type=_place,
        help="an address of this machine, at which the program finds it; port 0: a free one, which is printed",
    )
    way.add_argument(
        "--connect",
        metavar="HOST:PORT",
        type=_place,
        help="where the program listens, or will; the node tries until it is there",
    )
    parser.add_argument(
        "--secret-file",
        metavar="FILE",
        help="a file with the secret (default: SKATE_SECRET_FILE, or the text of SKATE_SECRET)",
    )
    parser.add_argument(
        "--num-cpus", type=out.number, metavar="N", help="CPUs to give to tasks (default: all)"
    )
    parser.add_argument(
        "--num-gpus", type=int, metavar="N", help="GPUs to give to tasks (default: all)"
    )
    parser.add_argument(
        "--resources",
        type=_resources,
        default={},
        metavar="JSON",
        help="custom resources that tasks can ask for, such as '{\"disk\": 2}'",
    )
    parser.add_argument(
        "--wait",
        type=out.number,
        default=600.0,
        metavar="S",
        help="seconds to wait for the program (default: 600)",
    )


def run(args: argparse.Namespace) -> int:
    try:
        secret = hosts.secret_of(args.secret_file)
        os.environ.pop("SKATE_SECRET", None)  # workers need not know it
        conf = config.resolve({"num_cpus": args.num_cpus, "num_gpus": args.num_gpus})
        said = hosts.run_node(
            secret,
            {name: conf[name] for name in hosts.OWN},
            args.resources,
            args.listen,
            args.connect,
            args.wait,
        )
    except (ConnectionError, RuntimeError, ValueError) as e:
        raise out.Refused(str(e)) from None
    if said:
        raise out.Refused(said)
    return 0


def _place(text: str) -> str:
    try:
        hosts.host_port(text)
    except ValueError as e:
        raise argparse.ArgumentTypeError(str(e)) from None
    return text


def _resources(text: str) -> dict[str, float]:
    try:
        said: Any = json.loads(text)
        found = {str(name): float(n) for name, n in said.items()}
    except (ValueError, TypeError, AttributeError):
        found = {"": -1.0}
    if not all(0 <= n < float("inf") for n in found.values()):
        raise argparse.ArgumentTypeError(
            f"a JSON object of numbers that are not below 0 is wanted, not {text!r}"
        )
    return found
