"""Modules for programs written for Ray: they make `import ray` mean skate, and have names that only
such programs use."""
