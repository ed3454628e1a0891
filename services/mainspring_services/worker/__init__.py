"""How: claims, executes, heartbeats, settles, acknowledges. The engine is ``mainspring.worker``; this composes it."""
