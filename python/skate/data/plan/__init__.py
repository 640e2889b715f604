"""The logical plan: nodes, the resources that stages take, the rules that tell readers what is
needed, and lowering to a _skate.Plan. Nothing runs here. Calls: read (Source), values, files."""
