"""ray.util.list_named_actors."""

from skate.actor import list_named_actors  # noqa: F401
