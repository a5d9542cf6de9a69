"""What msgspec's decoders raise for bytes that are no value."""

import msgspec

NOT_A_VALUE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Also for text that is not UTF-8, and for values that are nested too deeply."""
