"""The etcd store: a cluster that goes on while one of its servers is lost."""

from apportion.stores.etcd.spec import SPEC

__all__ = ["SPEC"]
