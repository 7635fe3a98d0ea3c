"""Commands that show the state of groups, tables and nodes, what the operator plans, and steer it."""
