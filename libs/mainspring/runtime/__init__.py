"""What makes the services alike: settings, loops, the batcher, leadership, health."""
