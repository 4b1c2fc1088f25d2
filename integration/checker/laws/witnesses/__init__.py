"""Laws that join two witnesses of one fact: what both of them say must agree. Pure."""
