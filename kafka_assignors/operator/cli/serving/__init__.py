"""The command that serves figures of live groups to what scrapes or collects them."""
