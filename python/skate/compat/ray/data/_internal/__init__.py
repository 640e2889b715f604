"""Internal names of Ray Data that its documents recommend for writing datasources."""
