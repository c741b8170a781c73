"""The promises of a store, one file per kind; every case is one promise."""
