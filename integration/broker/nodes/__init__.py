"""Where a node runs: in its own JVM, a shared JVM, or a container."""
