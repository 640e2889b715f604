"""Constants by which programs speak of Ray's environment variables and processes."""

# JSON: resources of the node, over those of init()
RESOURCES_ENVIRONMENT_VARIABLE = "RAY_OVERRIDE_RESOURCES"
# JSON: labels of the node, over those of init()
LABELS_ENVIRONMENT_VARIABLE = "RAY_OVERRIDE_LABELS"
DEFAULT_RESOURCES = {"CPU", "GPU", "memory", "object_store_memory"}
AGENT_PROCESS_LIST = []  # processes besides the workers: none
