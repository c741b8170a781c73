"""Keys: how one key is read as bytes, and which containers of many keys are accepted."""
