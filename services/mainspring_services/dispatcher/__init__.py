"""Whether and where: admission under limits, and routing to the work queues, no more than workers can take."""
