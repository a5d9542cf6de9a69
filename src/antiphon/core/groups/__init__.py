"""Groups: sessions, who is a member of what, and to whom a bundle goes."""
