"""Java's values and collections, for answers of Java programs (Helix, Kafka) that depend on them."""
