"""Budgets by message: the actor in front of a system's ledger, and what is said to it."""
