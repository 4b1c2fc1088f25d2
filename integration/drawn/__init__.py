"""What is drawn from seeds, and played one after the other."""
