"""The controller: one member decides the wanted owners, and publishes the owners."""
