"""``python -m mainspring_services.api``."""

from mainspring_services.api.main import main

raise SystemExit(main())
