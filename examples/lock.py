"""Three workers, one lock, and a storage that refuses a worker whose lock is gone.

Every grant of a lock has a number, its fence, and each is greater than the one before. A worker sends it with
whatever it writes; the storage remembers the greatest that it has seen. So a worker that was paused while its
lock passed on, and does not know that yet, cannot write over what the next one wrote.
"""

import asyncio

import antiphon


class Storage:
    """A file, a table, a service: whatever the lock protects, outside of the group."""

    def __init__(self) -> None:
        self.rows: list[str] = []
        self._fence = 0

    def write(self, row: str, fence: int) -> None:
        """Take a row from the holder of the newest grant, and from no other."""
        if fence < self._fence:
            raise PermissionError(f"fence {fence} is older than {self._fence}")
        self._fence = fence
        self.rows.append(row)


async def work(session: antiphon.Session, storage: Storage) -> int:
    """Hold the lock, write, and give it back; the fence of this grant."""
    async with session.lock("jobs", "nightly") as held:
        storage.write(f"by {session.name}", held.fence)
        await asyncio.sleep(0.01)
        return held.fence


async def main() -> None:
    storage = Storage()
    async with (
        antiphon.connect(embedded=True, name="ann") as ann,
        antiphon.connect(ann.address, name="bert") as bert,
        antiphon.connect(ann.address, name="cleo") as cleo,
    ):
        workers = (ann, bert, cleo)
        for worker in workers:
            await worker.join("jobs")
        fences = await asyncio.gather(*(work(worker, storage) for worker in workers))
        print(f"{len(storage.rows)} rows, written one after the other")
        try:
            storage.write("too late", min(fences))
        except PermissionError:
            print("a worker with an old fence was refused")


if __name__ == "__main__":
    asyncio.run(main())
