"""The controller: one member decides who should own what, and publishes who does."""
