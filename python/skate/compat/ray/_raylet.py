"""Public names of Ray's compiled core."""

from skate import ObjectID, ObjectRef, ObjectRefGenerator  # noqa: F401
from skate.ids import *  # noqa: F403
from skate.ref import DynamicObjectRefGenerator  # noqa: F401

StreamingObjectRefGenerator = ObjectRefGenerator
OPTIMIZED = True  # the build of the core
