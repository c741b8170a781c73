"""The demonstration of schedules: nodes in three zones run one year, while they die and sleep."""
