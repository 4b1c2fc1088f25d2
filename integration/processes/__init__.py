"""Programs that end with the harness, however it ends.

One mechanism does this for every program, Java's and Python's, running or paused: each has a `watchdog`. Three things
are no programs of the harness and end differently. The fault proxy ends when its pipe of commands closes, since it
holds nothing that outlives it. The demo's Spark job (`told`) ends itself and its JVM on SIGTERM, or when it can no
longer tell its stages. Containers are children of Docker's engine, so a process removes them by their label.
"""
