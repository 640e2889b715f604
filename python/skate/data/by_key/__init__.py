"""What groups, aggregates and joins do to rows with equal keys. skate.data.aggregate has the public
classes."""
