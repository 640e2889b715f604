# What `import ray` means behind skate.as_ray(), which docs/from/ray_core.md shows.
from skate import *
from skate import data as data
from skate import util as util
