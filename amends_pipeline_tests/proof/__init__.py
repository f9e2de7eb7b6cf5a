"""Proofs over real processes: loads that are killed, hosts that differ, a README that runs."""
