"""`apportion cron`: the commands of an operator of schedules."""
