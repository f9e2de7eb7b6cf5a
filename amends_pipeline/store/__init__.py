"""PostgreSQL, memory and files: the rooms where what was decided is kept."""
