"""Services that make drawn calls of a client, valid and invalid, and print what each returned or raised.

A test plays each draw with the recorder and without it, and compares. The calls stand in one table per client.
"""
