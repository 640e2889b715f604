"""Runs of plans in the driver: the engine, blocks, errors as users see them, progress, statistics,
Datasets in workers. It calls into data/plan and the folders that data/plan uses. Begin reading at
execute.py."""
