"""What authority costs: asks with and without the gate, decisions, tokens, budgets, records; biscuit-python beside them where it does the same."""
