"""The private server: shared, private, and back again whatever was killed."""
