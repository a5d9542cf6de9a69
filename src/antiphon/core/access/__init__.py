"""Who may do what: users, what the access list allows them, and what all their sessions take together."""
