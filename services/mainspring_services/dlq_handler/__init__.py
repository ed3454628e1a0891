"""What now: dead letters are recorded and alerted; nothing leaves them but by a person's decision."""
