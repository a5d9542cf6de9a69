"""The options of clusters without a file."""

import pytest
from command_line import Run, is_one_line

WRONG = {
    "an interface of nothing": (["daemon", "--interface", "127.0.0.1"], "--interface is for --cluster"),
    "both": (["daemon", "--cluster", "tea", "--config", "x"], "give --config FILE"),
    "a file without a name": (["daemon", "--config", "x"], "--config needs --name"),
    "an interface with a file": (
        ["daemon", "--config", "x", "--name", "d1", "--interface", "127.0.0.1"],
        "--interface is for --cluster",
    ),
    "no address of an interface": (
        ["daemon", "--cluster", "tea", "--interface", "eth0"],
        "--interface is the IPv4 address of an interface, not 'eth0'",
    ),
    "a trace": (["daemon", "--cluster", "tea", "--trace", "x"], "--trace needs --config"),
    "a bad name of a cluster": (["daemon", "--cluster", "#tea"], "cluster name '#tea' has the character '#'"),
    "a bad name of a daemon": (["daemon", "--cluster", "tea", "--name", "a b"], "daemon name 'a b'"),
    "a bad name of a cluster, to connect": (["status", "--cluster", "t a"], "cluster name 't a'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_is_told_in_one_line(antiphon: Run, case: str) -> None:
    words, told = WRONG[case]
    done = antiphon(*words)
    assert done.returncode == 2
    assert is_one_line(done.stderr)
    assert told in done.stderr


def test_an_interface_of_another_machine_is_a_fault(antiphon: Run) -> None:
    done = antiphon("daemon", "--cluster", "tea", "--interface", "192.0.2.250")
    assert done.returncode == 1
    assert is_one_line(done.stderr)
    assert "cannot multicast over 192.0.2.250" in done.stderr


def test_a_cluster_that_is_not_there_is_a_fault(antiphon: Run) -> None:
    done = antiphon("send", "tea", "--cluster", "nobodys-tea", stdin="")
    assert done.returncode == 1
    assert is_one_line(done.stderr)
    assert "no daemon of cluster nobodys-tea answers at 239." in done.stderr
