"""Modules that only programs written for Ray need: `import ray` that means skate, and names that no
other program asks for."""
