"""The options of tasks and actors, under the module name that packages import from Ray."""

from skate.calls import options

task_options = {name: None for name in options.TASK}
actor_options = {name: None for name in options.ACTOR}
valid_options = {**task_options, **actor_options}
