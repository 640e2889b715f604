"""Ray's package of small tools for experimental modules."""
