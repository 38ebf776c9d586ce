"""Language models as actors: one deployment actor owns one endpoint. `retinue.llm` is the public face."""
