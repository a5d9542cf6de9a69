"""Feeds: what edges get of the groups that they listen to, in one order, with a memory that lets them come
back."""
