"""The logical plan: nodes, the resources that stages take, the rules that tell readers what is
needed, and lowering to a _skate.Plan. Nothing runs here. It calls into data/read (Source),
data/values and data/files."""
