"""Internal names of Ray Data that Ray's documentation recommends for writing datasources."""
