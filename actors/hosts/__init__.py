"""Where actors run other than in the system's own loop: in a thread of their own."""
