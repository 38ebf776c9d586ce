"""What endpoints do differently, as data: one small module a provider. `profile_of` finds the one that fits."""
