"""spread.conf: every keyword is read, becomes ours or a remark with its line; what is wrong is one line."""

import re
from pathlib import Path

import pytest

from antiphon import config, limits
from antiphon.errors import ConfigError
from antiphon.spreadwire.config import Imported, import_file
from antiphon.spreadwire.config.options import KEYWORDS
from antiphon.spreadwire.config.ports import choose_ports

ONE = "Spread_Segment 225.0.1.1:4803 {\n  d1 10.0.0.1\n  d2 10.0.0.2\n}\n"


def loaded(text: str) -> config.Config:
    """The configuration that our loader sees."""
    return config.parse(import_file(text).text)


def remarks(text: str) -> list[str]:
    """As they are told, but for those on ports, which every file has."""
    told = [remark.told("spread.conf") for remark in import_file(text).remarks if remark.subject != "ports"]
    assert all("\n" not in one for one in told)
    return told


def complaint(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        import_file(text)
    return str(caught.value)


def test_the_example_in_the_documentation_is_true() -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "move-from-spread.md"
    section = page.read_text().partition("## Bring your configuration")[2]
    blocks: list[tuple[str, str]] = re.findall(r"^```(\w*)[^\n]*\n(.*?)^```", section, re.M | re.S)
    before = next(code for language, code in blocks if language == "text")
    after = next(code for language, code in blocks if language == "toml")
    assert import_file(before).text == after


# Segments and daemons -------------------------------------------------------------------------------------


def test_a_segment_becomes_a_site_and_its_daemons_daemons() -> None:
    assert loaded(ONE).sites == (
        config.SiteConfig(
            name="site1",
            multicast="225.0.1.1:4813",
            daemon=(
                config.DaemonConfig(
                    name="d1",
                    address="10.0.0.1:4813",
                    clients=("unix:/tmp/antiphon-d1.sock", "tcp:10.0.0.1:4814"),
                    spread=("tcp:0.0.0.0:4803", "unix:/tmp/4803"),
                ),
                config.DaemonConfig(
                    name="d2",
                    address="10.0.0.2:4813",
                    clients=("unix:/tmp/antiphon-d2.sock", "tcp:10.0.0.2:4814"),
                    spread=("tcp:0.0.0.0:4803", "unix:/tmp/4803"),
                ),
            ),
        ),
    )
    assert remarks(ONE) == []


def test_one_segment_waits_as_on_a_lan_several_as_on_a_wan_unless_the_file_says_so() -> None:
    two = ONE + "Spread_Segment 10.1.0.255 { e 10.1.0.1 }\n"
    assert loaded(ONE).settings.membership == "lan"
    assert loaded(two).settings.membership == "wan"
    assert loaded("WideAreaNetwork = Yes " + ONE).settings.membership == "wan"
    assert loaded("WideAreaNetwork = true " + two + "WideAreaNetwork = no").settings.membership == "lan"


def test_every_pair_of_sites_is_linked() -> None:
    text = "".join(f"Spread_Segment 10.{n}.0.255 {{ d{n} 10.{n}.0.1 }}\n" for n in range(3))
    assert [link.sites for link in loaded(text).links] == [
        ("site1", "site2"),
        ("site1", "site3"),
        ("site2", "site3"),
    ]
    told = remarks(text)
    assert any("spread.conf: links: " in one for one in told)
    assert any("one local network into one [[site]]" in one for one in told)


def test_a_host_is_not_looked_up_and_its_name_is_cut() -> None:
    text = "Spread_Segment 10.0.0.255:4900 {\n host.nowhere.example.invalid\n short }"
    one, other = loaded(text).sites[0].daemon
    assert (one.name, one.address) == ("host.nowhere.exampl", "host.nowhere.example.invalid:4910")
    assert (other.name, other.address) == ("short", "short:4910")
    assert remarks(text)[1].startswith(
        "spread.conf:2: daemon 'host.nowhere.example.invalid': is called host.n"
    )


def test_an_address_alone_is_the_name_too() -> None:
    (daemon,) = loaded("Spread_Segment 10.0.0.255 { 10.0.0.1; }").sites[0].daemon
    assert (daemon.name, daemon.address) == ("10.0.0.1", "10.0.0.1:4813")


def test_version_6() -> None:
    text = """Spread_Segment [ff02::1%eth0]:4803 ff05::2 {
        a 2001:db8::1 { C [2001:db8::7] D 2001:db8::1 }
        2001:0db8:0000:0000::0003 VirtualID = 7 ;
    }"""
    one, other = loaded(text).sites[0].daemon
    assert (one.address, one.clients[1]) == ("[2001:db8::1]:4813", "tcp:[2001:db8::7]:4814")
    assert (other.name, other.address) == ("2001:0db8:0000:0000", "[2001:db8::3]:4813")
    told = " ".join(remarks(text))
    assert "only the first of its addresses counts" in told
    assert "Antiphon multicasts only over IPv4, so ff02::1%eth0 is not used" in told
    assert "spread.conf:3: VirtualID: " in told


@pytest.mark.parametrize(
    ("interfaces", "places"),
    [
        ("", ["tcp:10.0.0.1:4814"]),
        ("{ 10.0.0.1 }", ["tcp:10.0.0.1:4814"]),
        ("{ 10.0.0.1 192.168.0.1 }", ["tcp:10.0.0.1:4814", "tcp:192.168.0.1:4814"]),
        ("{ D 10.0.0.1 C 192.168.0.1 C 192.168.0.1 }", ["tcp:192.168.0.1:4814"]),
        ("{ D M 10.0.0.1 D C 192.168.0.1 }", ["tcp:192.168.0.1:4814"]),
        ("{ D 10.0.0.1 }", []),
    ],
)
def test_clients_connect_where_spread_let_them(interfaces: str, places: list[str]) -> None:
    (daemon,) = loaded(f"Spread_Segment 10.0.0.255 {{ d1 10.0.0.1 {interfaces} }}").sites[0].daemon
    assert daemon.address == "10.0.0.1:4813"
    assert daemon.clients == ("unix:/tmp/antiphon-d1.sock", *places)


def test_interfaces_for_daemons_and_monitors_are_told() -> None:
    told = remarks("Spread_Segment 10.0.0.255 { d1 10.0.0.1 {\n D 10.0.0.1\n D 10.9.0.1\n M 10.8.0.1 } }")
    assert [one.split(": ")[:2] for one in told] == [
        ["spread.conf:3", "interface 10.9.0.1"],
        ["spread.conf:4", "interface 10.8.0.1"],
    ]


def test_broadcast_and_shared_addresses_are_left_to_our_own_multicast() -> None:
    text = """Spread_Segment 10.0.0.255 { a 10.0.0.1 b 10.0.0.2 }
    Spread_Segment 225.0.1.1 { c 10.1.0.1 d 10.1.0.2 }
    Spread_Segment 225.0.1.1 { e 10.2.0.1 f 10.2.0.2 }
    Spread_Segment 225.0.1.1 { g 10.3.0.1 }"""
    assert [site.multicast for site in loaded(text).sites] == ["auto", "225.0.1.1:4813", "auto", "auto"]
    told = remarks(text)
    assert "spread.conf:1: Spread_Segment: 10.0.0.255 is no multicast address" in told[1]
    assert "spread.conf:3: Spread_Segment: 225.0.1.1 is that of another segment" in told[2]
    assert len(told) == 3


def test_a_segment_without_daemons_is_left_out() -> None:
    text = ONE + "Spread_Segment 10.0.0.255 { }"
    assert len(loaded(text).sites) == 1
    assert remarks(text) == ["spread.conf:5: Spread_Segment: left out, because it has no daemons"]


def test_names_are_made_legal_and_unique_and_so_are_paths() -> None:
    text = """Spread_Segment 10.0.0.255 {
        "a b" 10.0.0.1
        a_b 10.0.0.2
        a/b 10.0.0.3
        'é!' 10.0.0.4
        "" 10.0.0.5
        a_b-2 10.0.0.6
        12345678901234567890 10.0.0.7
        12345678901234567891 10.0.0.8
        back\\slash 10.0.0.9
    }"""
    daemons = loaded(text).sites[0].daemon
    assert [daemon.name for daemon in daemons] == [
        "a_b", "a_b-2", "a/b", "__", "daemon", "a_b-2-2", "1234567890123456789", "12345678901234567-2",
        "back\\slash",
    ]  # fmt: skip
    assert [daemon.clients[0] for daemon in daemons[:3]] == [
        "unix:/tmp/antiphon-a_b.sock",
        "unix:/tmp/antiphon-a_b-2.sock",
        "unix:/tmp/antiphon-a_b-3.sock",
    ]
    assert len({daemon.clients[0] for daemon in daemons}) == len(daemons)
    assert sum("is called" in one for one in remarks(text)) == 7


# Ports ----------------------------------------------------------------------------------------------------


def test_our_ports_are_not_those_of_spread() -> None:
    text = ONE + "Spread_Segment 10.1.0.255:4813 { e 10.1.0.1 }"
    assert [site.daemon[0].address for site in loaded(text).sites] == ["10.0.0.1:4823", "10.1.0.1:4833"]
    told = [remark.told("x") for remark in import_file(text).remarks if remark.subject == "ports"]
    assert told[0].startswith(
        "x:1: ports: Spread has UDP 4803 and 4804 and TCP 4803; Antiphon takes UDP 4823"
    )
    assert "TCP 4834" in told[1]


@pytest.mark.parametrize(
    "ports",
    [[65_535], [65_525, 65_515], [1, 11], list(range(4803, 4903, 2)), list(range(65_536 - 64, 65_536))],
)
def test_no_port_is_taken_twice(ports: list[int]) -> None:
    chosen = choose_ports(ports)
    own = [one + above for one in chosen.values() for above in (0, 1)]
    assert list(chosen) == ports
    assert len(set(own)) == len(own)
    assert not set(own) & {port + above for port in ports for above in (0, 1)}
    assert all(0 < port <= 65_535 for port in own)


# Options --------------------------------------------------------------------------------------------------

VALUES = {
    "text": "= INFO",
    "number": "= 12",
    "yes or no": "= True",
    "flags": "= { PRINT !EXIT }",
    "nothing": "",
    "text or nothing": '= "[%H:%M]"',
    "anything": "= { 1 2 }",
}
SPECIAL = {"SocketPortReuse": "= auto", "ActiveIPVersion": "= IPv4", "AccessControlPolicy": '= "PERMIT"'}


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_every_option_is_read_and_told_with_its_line(keyword: str) -> None:
    value = SPECIAL.get(keyword, VALUES[KEYWORDS[keyword].shape])
    told = remarks(f"# first\n\n{keyword} {value}\n{ONE}")
    if keyword == "WideAreaNetwork":
        assert told == []
    else:
        (only,) = told
        assert only.startswith(f"spread.conf:3: {'WARNING: ' if 'Methods' in keyword else ''}{keyword}: ")
        assert len(only) > len(keyword) + 40


def test_the_settings_that_remarks_name_exist() -> None:
    for keyword, setting in (
        ("TokenTimeout", "suspect_ms"),
        ("AliveTimeout", "suspect_ms"),
        ("JoinTimeout", "join_ms"),
        ("RepTimeout", "segment_ms"),
        ("SegTimeout", "segment_ms"),
        ("GatherTimeout", "gather_ms"),
        ("FormTimeout", "recovery_ms"),
        ("LookupTimeout", "probe_max_ms"),
        ("MaxSessionMessages", "output_hard_bytes"),
        ("MaxSessionMessages", "output_soft_bytes"),
    ):
        assert setting in KEYWORDS[keyword].instead
        assert setting in config.Settings.__struct_fields__
    for keyword, setting in (
        ("Window", "window_bytes"),
        ("LinkProtocol", "protocol"),
        ("RouteMatrix", "cost"),
    ):
        assert setting in KEYWORDS[keyword].instead
        assert setting in config.LinkConfig.__struct_fields__


def test_unknown_options_and_values_are_told() -> None:
    text = (
        ONE
        + 'Frobnicate = { a b }\nmaxsessionmessages = 3\nDebugFlags = { PRINT LOUD }\nEventPriority = "loud"'
    )
    told = remarks(text)
    assert told[:4] == [
        "spread.conf:5: 'Frobnicate': not an option of Spread, and ignored",
        "spread.conf:6: WARNING: 'maxsessionmessages': not an option of Spread, and ignored; "
        "perhaps MaxSessionMessages was meant",
        "spread.conf:7: DebugFlags: 'LOUD' is not a value that Spread knows",
        told[3],
    ]
    assert "spread.conf:8: EventPriority: 'loud' is not a value that Spread knows" in told


# Access control -------------------------------------------------------------------------------------------


def warned(text: str) -> tuple[Imported, list[str]]:
    imported = import_file(text)
    return imported, [remark.told("x") for remark in imported.remarks if remark.is_warning]


@pytest.mark.parametrize(
    "option",
    [
        'RequiredAuthMethods = "IP"',
        "RequiredAuthMethods = IP",
        'RequiredAuthMethods = "NULL IP"',
        'AllowedAuthMethods = "IP PWORD"',
        'AllowedAuthMethods = "NULL"\nRequiredAuthMethods = "PWORD"',
        'RequiredAuthMethods = "IP"\nRequiredAuthMethods = "NULL"',
        'AccessControlPolicy = "STRICT"',
    ],
)
def test_a_protected_cluster_does_not_become_an_open_one(option: str) -> None:
    imported, warnings = warned(ONE + option)
    assert len(warnings) == 1
    assert "WARNING: " in warnings[0] and "asks clients who they are in other ways" in warnings[0]
    assert "WARNING: " in imported.text
    for daemon in config.parse(imported.text).sites[0].daemon:
        assert [place.partition(":")[0] for place in daemon.clients] == ["unix"]
    (ports,) = (remark.text for remark in imported.remarks if remark.subject == "ports")
    assert "for its own clients" not in ports


@pytest.mark.parametrize(
    "option",
    [
        'AllowedAuthMethods = "NULL IP"',
        'RequiredAuthMethods = "NULL"',
        'RequiredAuthMethods = "   "',
        "AccessControlPolicy = PERMIT",
    ],
)
def test_an_open_cluster_stays_open(option: str) -> None:
    imported, warnings = warned(ONE + option)
    assert warnings == []
    assert len(remarks(ONE + option)) == 1
    assert len(config.parse(imported.text).sites[0].daemon[0].clients) == 2


# Clients of Spread ----------------------------------------------------------------------------------------


def spread_places(text: str) -> list[tuple[str, ...]]:
    """Where clients of Spread find each daemon."""
    return [daemon.spread_places for _, daemon in loaded(text).daemons()]


def test_clients_of_spread_find_the_daemon_where_spread_was() -> None:
    text = "Spread_Segment 10.0.0.255 { a 10.0.0.1 b 10.0.0.2 { D 10.0.0.2 C 10.5.0.2 } "
    text += "c 10.0.0.3 { D 10.0.0.3 } }\n"
    assert spread_places(text) == [
        ("tcp:0.0.0.0:4803", "unix:/tmp/4803"),
        ("tcp:10.5.0.2:4803", "unix:/tmp/4803"),
        ("unix:/tmp/4803",),
    ]
    assert spread_places(text + 'RequiredAuthMethods = "IP"') == [("unix:/tmp/4803",)] * 3


def test_only_one_daemon_of_a_machine_has_the_path_of_its_port() -> None:
    text = "Spread_Segment 127.0.0.255 { a 127.0.0.1 { 127.0.0.1 } b 127.0.0.2 { 127.0.0.2 } }"
    text += "Spread_Segment ::1:5 { c host d other }"
    assert spread_places(text) == [
        ("tcp:127.0.0.1:4803", "unix:/tmp/4803"),
        ("tcp:127.0.0.2:4803",),
        *[("tcp:0.0.0.0:4803", "unix:/tmp/4803")] * 4,
    ]


# Faults ---------------------------------------------------------------------------------------------------

SEGMENT = "Spread_Segment 10.0.0.255 "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1: expected at least one Spread_Segment with a daemon"),
        ("# nothing\n\n", "3: expected at least one Spread_Segment with a daemon"),
        (
            "Spread_Segment",
            "1: expected an IP address, or one and a port such as 225.0.1.1:4803, got the end of",
        ),
        (
            "Spread_Segment\nhost {",
            "2: expected an IP address, or one and a port such as 225.0.1.1:4803, got 'host'",
        ),
        (
            "Spread_Segment 225.0.1.1:0 {}",
            "1: expected a port from 1 to 65535 after the address, got '225.0.1.1:0'",
        ),
        ("Spread_Segment 225.0.1.1:65536 {}", "1: expected a port from 1 to 65535"),
        ("Spread_Segment 1.2.3.4 = {", "1: expected an address or { after that of the segment, got '='"),
        (
            "Spread_Segment 1.2.3.4" + " 1.2.3.4" * 6 + "{}",
            "1: expected at most 5 more addresses of the segment",
        ),
        (
            SEGMENT + "{\n d1 10.0.0.1\n",
            "3: expected the name or address of a daemon, or }, got the end of the file",
        ),
        (
            SEGMENT + "{ a 10.0.0.1\n" + SEGMENT,
            "2: expected } at the end of the segment that begins in line 1",
        ),
        (
            SEGMENT + "{ a 10.0.0.1\nWindow = 7",
            "2: expected } at the end of the segment that begins in line 1",
        ),
        (
            SEGMENT + "{ a 10.0.0.1:4803 }",
            "1: expected an address without a port, which only Spread_Segment has",
        ),
        (SEGMENT + "{ a 10.0.0.300 }", "1: expected the daemon's address, got '10.0.0.300'"),
        (SEGMENT + "{ 10.0.0 }", "1: expected an address, got '10.0.0'"),
        (
            SEGMENT + "{ 'a b' }",
            "1: expected a daemon's name with its address, or the name of a host, got 'a b'",
        ),
        (
            SEGMENT + "{ a 10.0.0.1 { X 10.0.0.1 } }",
            "1: expected D, C, M, an address of an interface, or }, got 'X'",
        ),
        (SEGMENT + "{ a 10.0.0.1 { D } }", "1: expected D, C, M, an address of an interface, or }, got '}'"),
        (
            SEGMENT + "{ a 10.0.0.1 VirtualID = x }",
            "1: expected a number of at most 9 digits after VirtualID =, got 'x'",
        ),
        (
            ONE + "Window = 1234567890",
            "5: expected a number of at most 9 digits after Window =, got '1234567890'",
        ),
        (ONE + "Window\n = \n many", "7: expected a number of at most 9 digits after Window =, got 'many'"),
        (ONE + "Window 7", "5: expected = and a value after Window, got '7'"),
        (ONE + "DangerousMonitor = maybe", "5: expected true or false after DangerousMonitor =, got 'maybe'"),
        (ONE + "EventPreciseTimeStamp = 1", "5: expected no value for EventPreciseTimeStamp, got '1'"),
        (ONE + "DebugFlags = PRINT", "5: expected { after DebugFlags =, got 'PRINT'"),
        (ONE + "DebugFlags = { PRINT\nWindow = 3", "6: expected } at the end of DebugFlags, got '='"),
        (ONE + "EventLogFile =", "5: expected a value after EventLogFile =, got the end of the file"),
        (ONE + "EventLogFile = 'a\n'", "5: expected another ' on the same line, got the end of the line"),
        (ONE + "'Window' = 3", "5: expected Spread_Segment or an option, got 'Window'"),
        (ONE + "}", "5: expected Spread_Segment or an option, got '}'"),
        (ONE + "windo", "5: expected Spread_Segment or an option of Spread (perhaps Window), got 'windo'"),
        (ONE + "\x1b[31m", "5: expected Spread_Segment or an option of Spread, got '\\x1b[31m'"),
        (ONE + "x" * 99, "5: expected Spread_Segment or an option of Spread, got '" + "x" * 40 + "...'"),
        (
            SEGMENT + "{ a 10.0.0.1\nb 10.0.0.1 }",
            "2: expected an address and port of its own for daemon 'b', got 10.0.0.1 port 4803 as in line 1",
        ),
        (
            SEGMENT + "{ a 10.0.0.1\nb ::1 }",
            "2: expected an address of IP version 4, like that in line 1: the daemons of a cluster speak one",
        ),
    ],
)
def test_a_fault_is_one_line_with_its_place(text: str, message: str) -> None:
    told = complaint(text)
    assert told.startswith(f"spread.conf:{message}")
    assert "\n" not in told


def many(segments: int, daemons: int) -> str:
    return "\n".join(
        f"Spread_Segment 10.{one}.255.255 {{ "
        + "\n".join(f"d{one}-{other} 10.{one}.0.{other}" for other in range(daemons))
        + "}"
        for one in range(segments)
    )


def test_our_limits_are_told_with_a_line() -> None:
    assert loaded(many(limits.SITES_MAX, 1)).daemon_count == limits.SITES_MAX
    assert complaint(many(limits.SITES_MAX + 1, 1)).startswith("spread.conf:65: expected at most 64 segments")
    assert len(loaded(many(1, limits.DAEMONS_PER_SITE_MAX)).sites[0].daemon) == limits.DAEMONS_PER_SITE_MAX
    assert complaint(many(1, limits.DAEMONS_PER_SITE_MAX + 1)).startswith(
        "spread.conf:65: expected at most 64 daemons in a segment, which becomes a site, got 65"
    )
    assert loaded(many(8, 64)).daemon_count == limits.DAEMONS_MAX
    assert complaint(many(9, 64)).startswith("spread.conf:513: expected at most 512 daemons, got 576")


def test_words_need_no_space_around_marks_and_comments_end_with_their_line() -> None:
    text = "#x{\nDebugFlags={PRINT}Spread_Segment\t225.0.1.1#here\r\n{d1 10.0.0.1{D 10.0.0.1}d2 10.0.0.2;}"
    assert loaded(text).daemon_names == ("d1", "d2")


def test_letters_and_keywords_may_be_names() -> None:
    text = SEGMENT + "{ D 10.0.0.1 C 10.0.0.2 VirtualID 10.0.0.3 Window 10.0.0.4 VirtualID = 3 }"
    assert loaded(text).daemon_names == ("D", "C", "VirtualID", "Window")
