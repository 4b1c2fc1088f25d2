"""Tools for a person who looks at live groups: the command, plans, the vote. They know no client's assignors."""
