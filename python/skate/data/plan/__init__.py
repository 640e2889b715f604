"""The logical plan: nodes, what stages take, rules that tell readers what is needed, lowering to a
_skate.Plan. Nothing runs here. Calls: read (Source), values, files."""
