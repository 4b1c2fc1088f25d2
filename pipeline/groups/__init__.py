"""Generations, owners and departures of consumer groups."""
