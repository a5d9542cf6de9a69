"""Three members answer calls for one account. The one that holds the handler answers; when it is gone, the
next one does, with the same balance, and no deposit is lost or counted twice.

Every member gets every call, in one order, so all of them have the same balance. All of them answer, too: the
library sends the answer of the holder, and keeps the others in case that it is lost.
"""

import asyncio

import antiphon
from antiphon import Call

HANDLER = 1


class Replica:
    """One member of the service, with its own copy of the account."""

    def __init__(self, session: antiphon.Session) -> None:
        self.session = session
        self.balance = 0

    async def serve(self) -> None:
        """Take part until the session is closed."""
        holding = asyncio.create_task(self._hold())
        async for event in self.session:
            if isinstance(event, Call) and not event.is_again:
                self.balance += int(event.payload)
                await self.session.answer(event, str(self.balance).encode())
        holding.cancel()

    async def _hold(self) -> None:
        async with self.session.handle("account", HANDLER) as held:
            await held.lost.wait()


async def main() -> None:
    async with antiphon.connect(embedded=True, name="client") as client:
        replicas = []
        for name in ("ann", "bert", "cleo"):
            session = await antiphon.connect(client.address, name=name)
            await session.join("account")
            replicas.append(Replica(session))
        serving = [asyncio.create_task(replica.serve()) for replica in replicas]
        for number in range(1, 101):
            answer = await client.call("account", b"1", handler=HANDLER, timeout_s=20)
            assert int(answer) == number, "a deposit was lost, or counted twice"
            if number == 50:
                await replicas[0].session.close()
                print("the first replica has left after 50 deposits")
        print("balance:", answer.decode())
        for replica in replicas[1:]:
            await replica.session.close()
        await asyncio.gather(*serving, return_exceptions=True)
        print("the others agree:", {replica.balance for replica in replicas[1:]} == {100})


if __name__ == "__main__":
    asyncio.run(main())
