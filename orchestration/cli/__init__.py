"""The command line: one module per group of commands, loaded only when one is called."""
