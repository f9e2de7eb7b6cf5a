"""What people see in the UI, looked at by a real browser."""
