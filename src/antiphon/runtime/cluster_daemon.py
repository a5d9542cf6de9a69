"""A daemon of a cluster that has no file: it finds the others by the cluster's name.

First it gets a number and a name, together with the daemons that are there; then it is a daemon like any
other (`Daemon`). Should it lose its number, because two parts of the LAN that had given it twice have met,
the daemon ends, which tells its clients to connect again, and another one begins under another number.
"""

import logging
import threading
from types import TracebackType

from msgspec import structs

from antiphon.config import Config, Security
from antiphon.core.discovery.waits import Waits
from antiphon.errors import ConnectError
from antiphon.runtime import key_files, process
from antiphon.runtime.addresses import is_loopback
from antiphon.runtime.daemon import Daemon
from antiphon.runtime.discovery import Discovering, socket_path
from antiphon.runtime.lan import LOOPBACK
from antiphon.runtime.life import STOP_TIMEOUT_S
from antiphon.runtime.loop import READABLE, Loop, now_us
from antiphon.runtime.udp import Offload
from antiphon.wire.discovery import State

START_TIMEOUT_S = 30.0
"""How long a daemon that is started in the background may take until clients can connect."""

_logger = logging.getLogger("antiphon.daemon")


class ClusterDaemon:
    """One daemon of the cluster called `cluster`, on this machine.

    Run it in this thread until it is stopped, or in the background for as long as a block lasts:

        with ClusterDaemon("tea") as daemon:
            print(daemon.name, daemon.places)

    `name` is the name that it would like to have, by default the machine's; `interface` is the address of the
    network interface over which it looks for others, by default the one to which the system routes
    multicasts. `security` names the key that all of them have.
    """

    def __init__(
        self,
        cluster: str,
        *,
        name: str | None = None,
        interface: str | None = None,
        offload: Offload | None = None,
        waits: Waits | None = None,
        security: Security | None = None,
    ) -> None:
        """With a `security` that is insecure, clients on other machines may connect over plain TCP."""
        self._security = security or Security()
        self._discovering = Discovering(cluster, wish=name, interface=interface, offload=offload, waits=waits)
        self._loop: Loop | None = None
        self._daemon: Daemon | None = None
        self._thread: threading.Thread | None = None
        self._is_stopping = False
        self._is_leaving = False
        self._is_up = threading.Event()
        self._failure: BaseException | None = None

    @property
    def name(self) -> str:
        """How the daemon is called, once it has a number."""
        return self._discovering.machine.name

    @property
    def number(self) -> int | None:
        """Its number, once it has one."""
        return self._discovering.machine.number

    @property
    def places(self) -> tuple[str, ...]:
        """Where clients can connect, once the daemon listens."""
        return self._discovering.places

    # Life -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until `stop` or `leave` is called, also by a signal handler; for a process of its own.

        ConnectError, before anything is served, if multicast does not work or an address cannot be had.
        """
        process.tune()
        self._live()

    def start(self) -> None:
        """Serve in a thread of its own; returns when clients can connect. Errors as in `run`."""
        self._thread = threading.Thread(target=self._live_quietly, name="antiphon-cluster", daemon=True)
        self._thread.start()
        is_up = self._is_up.wait(START_TIMEOUT_S)
        if self._failure is not None:
            raise self._failure
        if not is_up:
            self.stop()
            raise ConnectError(
                f"no number within {START_TIMEOUT_S:g} s: {self._discovering.machine.waits_for}"
            )

    def leave(self) -> None:
        """Let the daemon end in a planned way, as `Daemon.leave` does."""
        self._is_leaving = True
        daemon = self._daemon
        if daemon is not None:
            daemon.leave()
        self._wake()

    def reload(self) -> None:
        """Read keys, access list and certificate again, as `Daemon.reload` does."""
        daemon = self._daemon
        if daemon is not None:
            daemon.reload()

    def stop(self) -> None:
        """End the daemon now; a started thread has ended on return."""
        self._is_stopping = True
        daemon = self._daemon
        if daemon is not None:
            daemon.stop()
        self._wake()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(STOP_TIMEOUT_S)

    def _wake(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(lambda: None)

    def __enter__(self) -> "ClusterDaemon":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _live_quietly(self) -> None:
        """In a thread of its own: an error goes to the thread that waits for the start."""
        try:
            self._live()
        except Exception as error:
            self._failure = error
        finally:
            self._is_up.set()

    def _live(self) -> None:
        discovering = self._discovering
        try:
            self._check_safety()
            while self._get_number():
                self._daemon = daemon = Daemon(self._config(), self.name, discovering=discovering)
                if self._is_leaving or self._is_stopping:
                    break  # told while it was made
                self._serve(daemon)
                self._daemon = None
                if not discovering.machine.losses or self._is_leaving or self._is_stopping:
                    break
                discovering.begin_again()
            discovering.leave()
        finally:
            discovering.close()

    def _check_safety(self) -> None:
        """Before others hear of this daemon: whether it can read its keys, and may be there without any."""
        self._discovering.seal_with(key_files.keys_of(self._security))
        interface = self._discovering.interface
        exposed = [] if is_loopback(interface) else [interface]
        key_files.check_exposed(self._discovering.machine.name, exposed, self._security)

    def _serve(self, daemon: Daemon) -> None:
        """Run a daemon until it ends, or has lost its number."""
        daemon.open()
        self._is_up.set()
        if self._is_leaving:
            daemon.leave()
        daemon.serve()

    def _config(self) -> Config:
        """The configuration as it is now, with our own places."""
        discovering, machine = self._discovering, self._discovering.machine
        config = discovering.config()
        site, number = config.sites[0], machine.number
        assert number is not None
        is_open = self._security.insecure or discovering.interface == LOOPBACK
        over_network = (f"tcp:{discovering.interface}:0",) if is_open else ()
        own = structs.replace(
            site.daemon[number],
            address=f"{machine.host}:{machine.port}",
            clients=(f"unix:{socket_path(machine.cluster, machine.name)}", *over_network),
        )
        daemons = (*site.daemon[:number], own, *site.daemon[number + 1 :])
        sites = (structs.replace(site, daemon=daemons),)
        return structs.replace(config, sites=sites, security=self._security)

    # Getting a number -------------------------------------------------------------------------------------

    def _get_number(self) -> bool:
        """Wait until this daemon bears a number; False if it is told to end before."""
        discovering, machine = self._discovering, self._discovering.machine
        where = f"{discovering.group[0]}:{discovering.group[1]} over {discovering.interface}"
        _logger.info("looking for the daemons of cluster %s at %s", discovering.cluster, where)
        listened_us = now_us() + machine.waits.listen_us
        told = ""
        self._loop = loop = Loop()
        try:
            for descriptor in discovering.filenos():
                loop.register(descriptor, discovering.drain, READABLE)
            while not (self._is_stopping or self._is_leaving):
                now = now_us()
                discovering.timeout(now)
                if machine.state is State.BEARS:
                    self._tell_company(now)
                    return True
                if now >= listened_us and not machine.is_echoed:
                    raise ConnectError(discovering.trouble(now))
                if machine.waits_for != told:
                    told = machine.waits_for
                    if told:
                        _logger.info("no number yet: %s", told)
                due_us = discovering.next_due_us()
                loop.turn(due_us)
            return False
        finally:
            self._loop = None
            loop.close()

    def _tell_company(self, now: int) -> None:
        discovering, machine = self._discovering, self._discovering.machine
        others = [name for name in discovering.living(now) if name != machine.name]
        if others:
            company = f"with {', '.join(others)}"
        elif machine.company(now):
            company = "other daemons are about to get a number"
        elif discovering.interface == LOOPBACK:
            company = "alone so far; over loopback it finds daemons on this machine only"
        else:
            company = "alone so far; if others are running, multicast does not get through: use a file"
        _logger.info("cluster %s: this is daemon %s, %s", discovering.cluster, machine.name, company)
        for line in discovering.news(now):
            _logger.warning("%s", line)
