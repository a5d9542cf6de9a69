"""Groups: sessions, their memberships, and the sessions to which a bundle is delivered."""
