"""The etcd store: a cluster that goes on while one of its servers is lost."""
