"""The partitioners: one class per file.

Every class with random choices takes ``rng=`` (a `random.Random`) or ``seed=`` (for a new one); by default the system
seeds it. All take ``on_choice=``, a hook called with every answer (`OnChoice`), and ``counters=`` (`Counters`), which
count placed records. One instance may serve many threads, but should serve one producer: each producer has its own
metadata, and the instance would read the topic again at every switch between them.
"""
