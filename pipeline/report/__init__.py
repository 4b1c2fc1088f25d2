"""Tables as a summary, a page and charts."""
