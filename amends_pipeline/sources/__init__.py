"""Source logs behind the port: PostgreSQL tables and memory."""
