"""``python -m mainspring_services.worker``."""

from mainspring_services.worker.main import main

raise SystemExit(main())
