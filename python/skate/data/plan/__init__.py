"""The logical plan: nodes, the resources of stages, the rules that tell readers which columns and
rows are needed, and lowering to a _skate.Plan. Nothing runs here. It calls into data/read (Source),
data/values and data/files."""
