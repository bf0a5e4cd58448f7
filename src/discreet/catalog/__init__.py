"""Tables as their owner knows them: how ids are read."""
