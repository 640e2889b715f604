"""skate.experimental.state.api: the older name of skate.util.state."""

from skate.util.state import *  # noqa: F403
