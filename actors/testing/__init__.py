"""The testing kit: what helps to test actors with pytest, or without. `retinue.testing` is the public face."""
