"""The etcd store: a cluster that works on after the loss of one server."""
