# The public names, each with where it is defined: for type checkers, and read by _lazy.Names.

from skate.util.actor_pool import ActorPool as ActorPool
from skate.util.check_serialize import inspect_serializability as inspect_serializability
from skate.util.debug import disable_log_once_globally as disable_log_once_globally
from skate.util.debug import enable_periodic_logging as enable_periodic_logging
from skate.util.debug import log_once as log_once
from skate.util.helpers import as_completed as as_completed
from skate.util.helpers import get_node_ip_address as get_node_ip_address
from skate.util.helpers import list_named_actors as list_named_actors
from skate.util.helpers import map_unordered as map_unordered
from skate.util.placement_group import get_current_placement_group as get_current_placement_group
from skate.util.placement_group import get_placement_group as get_placement_group
from skate.util.placement_group import placement_group as placement_group
from skate.util.placement_group import placement_group_table as placement_group_table
from skate.util.placement_group import remove_placement_group as remove_placement_group
from skate.util.serialization import deregister_serializer as deregister_serializer
from skate.util.serialization import register_serializer as register_serializer
