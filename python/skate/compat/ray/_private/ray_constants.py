"""Constants for Ray's environment variables and processes that programs use."""

# JSON: resources of the node, which win over those of init()
RESOURCES_ENVIRONMENT_VARIABLE = "RAY_OVERRIDE_RESOURCES"
# JSON: labels of the node, which win over those of init()
LABELS_ENVIRONMENT_VARIABLE = "RAY_OVERRIDE_LABELS"
DEFAULT_RESOURCES = {"CPU", "GPU", "memory", "object_store_memory"}
AGENT_PROCESS_LIST = []  # processes besides the workers: none
