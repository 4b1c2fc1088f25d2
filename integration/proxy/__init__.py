"""Faults of single members: rules, and the proxy process that plays them on Kafka's frames."""

from .fault_proxy import Applied, FaultProxy
from .rules import FAULTS, Cut, Delay, Drop, NetworkFault, Reset, fault_of

__all__ = ["FAULTS", "Applied", "Cut", "Delay", "Drop", "FaultProxy", "NetworkFault", "Reset", "fault_of"]
