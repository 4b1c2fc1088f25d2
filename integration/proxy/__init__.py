"""Proxies that read Kafka's frames: one plays faults of single members by rules, one tells what a service says."""

from .fault_proxy import Applied, FaultProxy
from .rules import FAULTS, Cut, Delay, Drop, NetworkFault, Reset, fault_of
from .tap import Tapped, WireTap

__all__ = [
    "FAULTS", "Applied", "Cut", "Delay", "Drop", "FaultProxy", "NetworkFault", "Reset", "Tapped", "WireTap",
    "fault_of",
]  # fmt: skip
