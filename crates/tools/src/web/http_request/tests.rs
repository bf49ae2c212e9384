//! Does what a model wrote become the right request?
