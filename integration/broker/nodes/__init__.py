"""What one node runs in: a JVM of its own, a shared JVM, or a container."""
