"""Constants of Ray that programs use: names of environment variables, lists of processes."""

# JSON: resources of the node; they take precedence over those of init()
RESOURCES_ENVIRONMENT_VARIABLE = "RAY_OVERRIDE_RESOURCES"
# JSON: labels of the node; they take precedence over those of init()
LABELS_ENVIRONMENT_VARIABLE = "RAY_OVERRIDE_LABELS"
DEFAULT_RESOURCES = {"CPU", "GPU", "memory", "object_store_memory"}
AGENT_PROCESS_LIST = []  # processes besides the workers: skate has none
