"""skate.experimental.state: the older name of skate.util.state."""
