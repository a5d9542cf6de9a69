"""What a daemon's log says of its views: when one is lost and why, when one is installed, and while nothing
moves, in which state, for how long and who is waited for; and who cannot be in one, for another version."""

import logging

from antiphon import limits
from antiphon.core.membership.rounds import Reason
from antiphon.core.node import Node
from antiphon.runtime.notices import Notices
from antiphon.short_views import short_view

GOING_ON = (Reason.FOUND, Reason.ASKED, Reason.BETTER_LINK, Reason.PROPOSED)
"""Reasons for which a view that works is given up for a better one."""


class ViewLog:
    """Follows the views of one daemon."""

    def __init__(self, logger: logging.Logger, notices: Notices) -> None:
        self._logger = logger
        self._notices = notices
        self._told_view = 0
        self._was_active = False
        self._told_out: frozenset[int] = frozenset()
        self._told_versions: dict[int, str] = {}
        self._look_at_us = 0

    def follow(self, node: Node, now_us: int) -> None:
        """After every turn of the loop: tell of a view that was lost or installed since the last time."""
        if node.membership.standing.is_active != self._was_active or node.engine.view.id != self._told_view:
            self._tell_change(node)
        if now_us >= self._look_at_us:
            self._look_at_us = now_us + limits.STANDSTILL_LOOK_US
            self._tell_standstill(node, now_us)
            self._tell_left_out(node, now_us)
            self._tell_versions(node)

    def _tell_change(self, node: Node) -> None:
        membership = node.membership
        view = node.view
        names = node.config.daemon_names
        if self._was_active:  # two views in one turn: the first of them was lost in between
            record = membership.rounds.current or membership.rounds.past[-1]
            verb = "leaves" if record.reason in GOING_ON else "has lost"
            self._logger.info(
                "daemon %s %s view %s: %s (%s)",
                node.name, verb, short_view(self._told_view), record.detail, record.reason.value,
            )  # fmt: skip
        self._told_view = view.id
        self._was_active = membership.is_active
        rounds = membership.rounds.past
        if membership.is_active and rounds:
            members = ", ".join(names[number] for number in view.members)
            self._logger.info(
                "daemon %s is in view %s with %s: %s",
                node.name,
                short_view(view.id),
                members,
                rounds[-1].detail,
            )

    def _tell_standstill(self, node: Node, now_us: int) -> None:
        """While messages do not flow for longer than a change of the view usually takes."""
        found = node.stalls.standstill()
        if found is not None and now_us - found.since_us >= limits.STANDSTILL_TOLD_US:
            lasted_s = (now_us - found.since_us) / 1e6
            self._notices.warn(
                "standstill", "daemon %s: messages do not flow for %.1f s: %s",
                node.name, lasted_s, found.detail,
            )  # fmt: skip

    def _tell_left_out(self, node: Node, now_us: int) -> None:
        """Once for each time that a daemon is left out."""
        current = node.membership.exclusions.current(now_us)
        for daemon in current.keys() - self._told_out:
            reason, remaining_us = current[daemon]
            self._logger.warning(
                "daemon %s leaves out %s for %.0f s: %s",
                node.name, node.config.daemon_names[daemon], remaining_us / 1e6, reason,
            )  # fmt: skip
        self._told_out = frozenset(current)

    def _tell_versions(self, node: Node) -> None:
        """Once for each daemon and version, and again if the daemon was in a view with us meanwhile."""
        for daemon in self._told_versions.keys() & set(node.view.members):
            del self._told_versions[daemon]
        for daemon, heard in node.gate.other_versions.current().items():
            if self._told_versions.get(daemon) != heard.words:
                self._told_versions[daemon] = heard.words
                self._logger.warning(
                    "daemon %s: %s %s", node.name, node.config.daemon_names[daemon], heard.words
                )
