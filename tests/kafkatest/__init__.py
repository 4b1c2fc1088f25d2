"""``make kafkatest``: Kafka's own system tests, on ten nodes that are namespaces of this machine.

`__main__` checks, prepares and starts; `source` knows the checkout of Kafka that has the tests; `selection` chooses
tests and reads their results; `inside` is the program in the namespaces: bridge, nodes, ducktape.
"""
