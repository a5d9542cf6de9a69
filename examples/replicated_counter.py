"""A replicated counter: three replicas change it at the same time and always agree.

Each replica sends operations to a group and applies what the group delivers, its own operations included.
Adding and doubling do not commute; the replicas still end with the same value, because agreed messages are
delivered everywhere in the same order. No locks, no leader.
"""

import asyncio
import random

import antiphon

GROUP = "counter"
REPLICAS = 3
OPERATIONS = 200
MODULUS = 1_000_003  # keeps the number printable however often it is doubled


class Replica:
    """One copy of the counter."""

    def __init__(self, session: antiphon.Session) -> None:
        self.session = session
        self.value = 1
        self.applied = 0

    def apply(self, operation: bytes) -> None:
        if operation == b"double":
            self.value = self.value * 2 % MODULUS
        else:
            self.value = (self.value + int(operation)) % MODULUS
        self.applied += 1

    async def issue(self, chance: random.Random) -> None:
        for _ in range(OPERATIONS):
            operation = b"double" if chance.random() < 0.5 else str(chance.randrange(100)).encode()
            await self.session.send(GROUP, operation, antiphon.Service.AGREED)
            if chance.random() < 0.1:
                await asyncio.sleep(0.001)  # let the others in between

    async def follow(self) -> None:
        async for event in self.session:
            if isinstance(event, antiphon.Message):
                self.apply(event.payload)
                if self.applied == REPLICAS * OPERATIONS:
                    return


async def main() -> None:
    first = await antiphon.connect(embedded=True, name="replica0")
    others = [await antiphon.connect(first.address, name=f"replica{i}") for i in range(1, REPLICAS)]
    replicas = [Replica(session) for session in (first, *others)]
    for replica in replicas:
        await replica.session.join(GROUP)  # returns when it is a member: no replica misses an operation
    await asyncio.gather(
        *(replica.issue(random.Random(seed)) for seed, replica in enumerate(replicas)),
        *(replica.follow() for replica in replicas),
    )
    for replica in replicas:
        print(f"{replica.session.name}: {replica.value} after {replica.applied} operations")
    print("all equal" if len({replica.value for replica in replicas}) == 1 else "DIFFERENT")
    for session in (*others, first):
        await session.close()


if __name__ == "__main__":
    asyncio.run(main())
