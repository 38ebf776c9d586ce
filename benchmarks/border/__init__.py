"""What it costs to cross the system's border: approvals redeemed on a file, asks over HTTP, many streams at once."""
