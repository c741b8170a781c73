"""The command line: reads files, prints answers. Nobody imports this room."""
