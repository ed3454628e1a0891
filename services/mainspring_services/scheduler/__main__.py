"""``python -m mainspring_services.scheduler``."""

from mainspring_services.scheduler.main import main

raise SystemExit(main())
