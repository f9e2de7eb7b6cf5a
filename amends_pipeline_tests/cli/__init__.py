"""The command line, in this process over memory and as real processes over PostgreSQL."""
