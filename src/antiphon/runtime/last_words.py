"""Why a daemon says Goodbye or Refuse by itself, as the code in the frame; the node has codes of its own.

bad-frame          the client sent what is not a frame, or not one that it may send there
refused            it speaks as it should, and gets no session
slow-receiver      too much output waited for it (`cluster.output_hard_bytes`)
stalled-frame      it did not go on with a frame while others waited for room (`runtime.quotas`)
greeting-timeout   it asked neither for a session nor about the daemon in time
stopping           the daemon ends
internal           a mistake of the daemon's own, met while it served this client
not-allowed        the access list does not allow it (`runtime.entrance`)
"""

from antiphon.runtime.client_limits import GREETING_TIMEOUT_US
from antiphon.wire.frames import STOPPING, STOPPING_REASON, Goodbye

STOPS = Goodbye(STOPPING, STOPPING_REASON)
NO_GREETING = Goodbye("greeting-timeout", f"no session asked for in {GREETING_TIMEOUT_US // 1_000_000} s")
OUR_MISTAKE = Goodbye(
    "internal", "the daemon made a mistake while it served this client; its log has the details"
)
STALLED = Goodbye(
    "stalled-frame", "this client began to send a frame and did not go on, while others waited for room"
)


def slow(waiting_bytes: int) -> Goodbye:
    """To a client for which so much waited."""
    return Goodbye("slow-receiver", f"{waiting_bytes} bytes waited for this client, which did not read them")
