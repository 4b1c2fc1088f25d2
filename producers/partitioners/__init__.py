"""The partitioners: one class, one file.

Every class that draws takes ``rng=`` (a `random.Random`) or ``seed=`` (the seed of a new one); without either the
system seeds it. All take ``on_choice=``, a hook called with every answer (`OnChoice`), and ``counters=`` (`Counters`),
which counts what was placed. One instance may serve many threads, and should serve one producer: two producers have
metadata of their own, and the instance would read the topic again at every change from one to the other.
"""
