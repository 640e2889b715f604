"""python -m skate: the command `skate`."""

import sys

from skate.cli import main

sys.exit(main())
