"""Links: reliable paths between two daemons."""
