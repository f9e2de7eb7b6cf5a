"""The tests of the package, by its rooms, and what several of them share."""
