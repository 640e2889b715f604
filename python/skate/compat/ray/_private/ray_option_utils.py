"""The options of tasks and actors, at the place where packages look for them."""

from skate.calls import options

task_options = {name: None for name in options.TASK}
actor_options = {name: None for name in options.ACTOR}
valid_options = {**task_options, **actor_options}
