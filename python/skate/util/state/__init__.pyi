# The public names, each with where it is defined: for type checkers, and read by _lazy.Names.

from skate.util.state.api import get_actor as get_actor
from skate.util.state.api import get_job as get_job
from skate.util.state.api import get_node as get_node
from skate.util.state.api import get_objects as get_objects
from skate.util.state.api import get_placement_group as get_placement_group
from skate.util.state.api import get_task as get_task
from skate.util.state.api import get_worker as get_worker
from skate.util.state.api import list_actors as list_actors
from skate.util.state.api import list_jobs as list_jobs
from skate.util.state.api import list_nodes as list_nodes
from skate.util.state.api import list_objects as list_objects
from skate.util.state.api import list_placement_groups as list_placement_groups
from skate.util.state.api import list_runtime_envs as list_runtime_envs
from skate.util.state.api import list_tasks as list_tasks
from skate.util.state.api import list_workers as list_workers
from skate.util.state.api import summarize_actors as summarize_actors
from skate.util.state.api import summarize_objects as summarize_objects
from skate.util.state.api import summarize_tasks as summarize_tasks
