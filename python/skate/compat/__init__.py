"""What is here for programs of Ray's only: `import ray` that means skate, and names that only they
ask for."""
