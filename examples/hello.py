"""Two sessions, one group, one message: the smallest complete program.

It starts a daemon inside this process. With a cluster running, give its address instead of `embedded=True`.
"""

import asyncio

import antiphon


async def main() -> None:
    async with (
        antiphon.connect(embedded=True, name="alice") as alice,
        antiphon.connect(alice.address, name="bob") as bob,
    ):
        await alice.join("chat")
        await bob.join("chat")
        await bob.send("chat", b"hello from bob")
        async for event in alice:
            match event:
                case antiphon.View():
                    print("view:", ", ".join(event.members), f"({event.cause.value} of {event.changed[0]})")
                case antiphon.Message():
                    print("message:", event.payload.decode(), f"(sent by {event.sender})")
                    break


if __name__ == "__main__":
    asyncio.run(main())
