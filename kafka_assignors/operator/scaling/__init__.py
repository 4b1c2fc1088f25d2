"""How many members a group needs to keep a delay, and when that is worth a rebalance. Pure: no clock, no Kafka."""

from __future__ import annotations

from .flows import LEAST_OVER_S, Flow, FlowMeter, Flows
from .scaler import Proposal, Scaler
from .sizes import Rules, SizeDelay, delays, steps

__all__ = ["LEAST_OVER_S", "Flow", "FlowMeter", "Flows", "Proposal", "Rules", "Scaler", "SizeDelay", "delays", "steps"]
