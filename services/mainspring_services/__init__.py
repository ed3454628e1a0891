"""The five services. Each is a package: its composition, its settings, and one module for each loop."""
