"""How a link's window grows and shrinks: one small file for each set of rules, and a registry of them.

A controller owns the congestion window of the sending side of one link, in bytes. `flow.Regulator` tells it
what has arrived, what was lost and when the link has rested; `evidence.Evidence` is what it knows of the
path. None of them sees a packet.
"""

from antiphon.core.links.congestion.controller import Controller
from antiphon.core.links.congestion.cubic import Cubic
from antiphon.core.links.congestion.reno import Reno

CONTROLLERS: dict[str, type[Controller]] = {controller.name: controller for controller in (Cubic, Reno)}
"""The values of `congestion` of a `[[link]]`."""
