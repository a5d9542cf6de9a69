"""A chat between threads, with the blocking library: all members read the same conversation.

Three people talk at once, each from a thread of their own, and write down what they hear. The lines arrive
in one order for all of them.
"""

import threading

import antiphon

GROUP = "tea-room"
LINES = {
    "ann": ["Good morning!", "Is there any milk left?", "Thank you."],
    "bert": ["Morning, Ann.", "In the fridge.", "And the cups are clean."],
    "cleo": ["Hello both.", "I brought biscuits.", "Help yourselves."],
}
LINE_COUNT = sum(map(len, LINES.values()))


def chat(session: antiphon.blocking.Session, heard: list[str]) -> None:
    """Talk, and listen to the end."""
    name = session.name.split("#")[1]
    for line in LINES[name]:
        session.send(GROUP, f"{name}: {line}".encode())
    for event in session:
        if isinstance(event, antiphon.Message):
            heard.append(event.payload.decode())
            if len(heard) == LINE_COUNT:
                return


def main() -> None:
    # This session brings the daemon and stays out of the room.
    with antiphon.blocking.connect(embedded=True, name="host") as host:
        sessions = [antiphon.blocking.connect(host.address, name=name) for name in LINES]
        notes: list[list[str]] = [[] for _ in sessions]
        threads = [
            threading.Thread(target=chat, args=(session, heard))
            for session, heard in zip(sessions, notes, strict=True)
        ]
        for session in sessions:
            session.join(GROUP)  # returns when the session is a member: no line will be missed
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for session in sessions:
            session.close()
    print(*notes[0], sep="\n")
    print("all heard the same" if all(heard == notes[0] for heard in notes) else "they DISAGREE")


if __name__ == "__main__":
    main()
