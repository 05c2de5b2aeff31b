"""A graph as one page that a browser shows by itself: no network, no other file."""
