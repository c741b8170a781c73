"""The promises of a store, a file each kind; every case is one of them."""
