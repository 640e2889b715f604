"""ray.logger: the logger of skate's own messages."""

import logging

logger = logging.getLogger("skate")
