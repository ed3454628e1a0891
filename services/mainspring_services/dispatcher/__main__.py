"""``python -m mainspring_services.dispatcher``."""

from mainspring_services.dispatcher.main import main

raise SystemExit(main())
