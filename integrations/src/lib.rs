//! Tourbillon in real servers. There is nothing here but tests and examples: see `tests` and `examples` beside this.
