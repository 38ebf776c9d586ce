"""Approvals: the desk where people consent to what agents may not do alone."""
