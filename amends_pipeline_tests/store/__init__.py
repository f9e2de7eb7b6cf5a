"""PostgreSQL for real: no test of this folder replaces it by anything."""
