"""`call`, `serve` and `lock` on a real cluster."""

import json
import subprocess

from command_line import TIMEOUT_S, Run, Start, is_one_line


def first_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def serving(start: Start, address: str, *words: str, name: str = "ada") -> "subprocess.Popen[str]":
    """A server that holds its handler."""
    server = start("serve", "shout", "--name", name, "--address", address, *words)
    assert "is in line for handler" in first_line(server)
    assert "holds handler" in first_line(server)
    return server


def test_a_call_is_answered_with_the_output_of_a_command(
    antiphon: Run, start: Start, addresses: list[str]
) -> None:
    server = serving(start, addresses[0], "--handler", "2", "--", "tr", "a-z", "A-Z")
    words = ("call", "shout", "--handler", "2", "--address", addresses[1])
    done = antiphon(*words, "hello", "there")
    assert (done.returncode, done.stdout, done.stderr) == (0, "HELLO THERE\n", "")
    done = antiphon(*words, stdin="from stdin\n")
    assert (done.returncode, done.stdout) == (0, "FROM STDIN\n")
    done = antiphon(*words, "--json", "x")
    assert json.loads(done.stdout) == {"payload": "X"}
    assert "exit code 0, 11 bytes" in first_line(server)
    done = antiphon("call", "shout", "--delivered", "--address", addresses[1], "x")
    assert done.stdout == "#ada#d1\n"


def test_a_command_that_fails_is_an_error_to_the_caller(
    antiphon: Run, start: Start, addresses: list[str]
) -> None:
    serving(start, addresses[0], "--", "sh", "-c", "echo no such thing >&2; exit 3")
    done = antiphon("call", "shout", "--address", addresses[0], "x")
    assert done.returncode == 1 and done.stderr == "antiphon: no such thing\n"


def test_nobody_answers(antiphon: Run, addresses: list[str]) -> None:
    done = antiphon("call", "nobody", "--timeout", "0.3", "--address", addresses[0], "x")
    assert done.returncode == 1 and is_one_line(done.stderr)
    done = antiphon("call", "nobody", "--timeout", "1000", "--address", addresses[0], "x")
    assert done.returncode == 2 and is_one_line(done.stderr)
    done = antiphon("call", "nobody", "--handler", "256", "--address", addresses[0], "x")
    assert done.returncode == 2 and is_one_line(done.stderr)


def test_the_next_server_takes_over(antiphon: Run, start: Start, addresses: list[str]) -> None:
    first = serving(start, addresses[0], "--", "echo", "first")
    second = start("serve", "shout", "--name", "bea", "--address", addresses[1], "--", "echo", "second")
    assert "in line" in first_line(second)
    words = ("call", "shout", "--timeout", "20", "--address", addresses[1], "x")
    assert antiphon(*words).stdout == "first\n"
    first.kill()
    first.wait(TIMEOUT_S)
    assert antiphon(*words).stdout == "second\n"


def test_a_command_runs_while_the_lock_is_held(antiphon: Run, start: Start, addresses: list[str]) -> None:
    words = ("lock", "jobs", "nightly", "--address")
    holder = start(*words, addresses[0], "--", "sh", "-c", "echo $ANTIPHON_FENCE; read line")
    fence = int(first_line(holder))
    done = antiphon(*words, addresses[1], "--no-wait", "--", "true")
    assert done.returncode == 1 and "another session holds the lock 'nightly'" in done.stderr
    done = antiphon(*words, addresses[1], "--timeout", "0.3", "--", "true")
    assert done.returncode == 1 and is_one_line(done.stderr)
    holder.kill()
    holder.wait(TIMEOUT_S)
    done = antiphon(*words, addresses[1], "--json", "--", "sh", "-c", "echo $ANTIPHON_FENCE")
    after, told = done.stdout.splitlines()
    assert done.returncode == 0 and int(after) > fence
    assert json.loads(told) == {"group": "jobs", "lock": "nightly", "fence": int(after), "exit_code": 0}


def test_a_command_that_fails_or_is_not_there(antiphon: Run, addresses: list[str]) -> None:
    words = ("lock", "jobs", "L", "--address", addresses[0], "--")
    done = antiphon(*words, "false")
    assert done.returncode == 1 and done.stderr == "antiphon: false ended with exit code 1\n"
    done = antiphon(*words, "no-such-command-anywhere")
    assert done.returncode == 2 and is_one_line(done.stderr)
    done = antiphon("lock", "jobs", "bad name", "--address", addresses[0], "--", "true")
    assert done.returncode == 2 and is_one_line(done.stderr)
