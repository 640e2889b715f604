"""python -m skate: the command `skate`."""

import sys

from skate._private.cli import main

sys.exit(main())
