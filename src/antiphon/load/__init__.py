"""Load and measurement: processes that send, receive or only sit there, for `flood`, `bench` and the lab."""
