"""The field's benchmark: Savina (Imam and Sarkar, AGERE! 2014), twelve of its programs written for Retinue and for its peers, in one run."""
