"""The matrix broker version × client × protocol: its cells, how one is played and kept, and what a kept one shows."""
